"""Conditions of the components of a control plane.

Owns the read of Events, which happens only when the pods themselves show no cause. Hazard: Events
may describe a problem that is over. Only recent Events are used.
"""

from datetime import datetime, timedelta

from kubeio import Object
from tenancy.conditions import format_time
from tenancy.resources import EVENTS
from vcmanager.plan import component_status, control_plane
from vcmanager.plan.component_status import ComponentCondition
from vcmanager.plan.control_plane import ControlPlane
from vcmanager.runtime.context import ReconcileContext
from vcmanager.runtime.observed import ObservedObjects
from vcmanager.runtime.status import ReconcileStatus

_EVENTS_DELAY = timedelta(seconds=8)
"""Time that a component may take to start before its Events are read."""
_RECENT_EVENTS_WINDOW = timedelta(minutes=5)
_SELECTORS = ("type=Warning", "reason=FailedBinding")
"""Field selectors of the Events. A claim without any StorageClass has an Event of type Normal."""
_EXPECTED_EVENT_REASONS = frozenset({"Unhealthy", "BackOff"})
"""Event reasons that are normal during a start, or that the pod reports better."""


async def set_component_conditions(
    means: ReconcileContext,
    report: ReconcileStatus,
    snapshot: ObservedObjects,
    plan: ControlPlane | None,
) -> None:
    """Add the condition of each existing or planned component."""
    names = plan.components if plan is not None else _list_existing_components(snapshot)
    verdicts = {name: _evaluate_component(name, snapshot, []) for name in names}
    if any(_is_unexplained(verdict) for verdict in verdicts.values()) and _is_startup_overdue(
        means, snapshot
    ):
        warnings = await _fetch_events(means, snapshot, *_SELECTORS)
        verdicts = {name: _evaluate_component(name, snapshot, warnings) for name in names}
    for name, verdict in verdicts.items():
        report.set_condition(
            component_status.COMPONENT_CONDITIONS[name],
            "True" if verdict.is_ready else "False",
            verdict.reason,
            verdict.message,
            is_failure=verdict.is_failure,
        )


def _evaluate_component(
    name: str, snapshot: ObservedObjects, warnings: list[Object]
) -> ComponentCondition:
    kind = "Deployment" if name in control_plane.DEPLOYMENTS else "StatefulSet"
    pods = list(snapshot.iterate_pods(name))
    return component_status.evaluate_component(name, snapshot.get(kind, name), pods, warnings)


def _list_existing_components(snapshot: ObservedObjects) -> tuple[str, ...]:
    workloads = {**snapshot.get_by_name("StatefulSet"), **snapshot.get_by_name("Deployment")}
    return tuple(name for name in component_status.COMPONENT_CONDITIONS if name in workloads)


def _is_unexplained(verdict: ComponentCondition) -> bool:
    return not verdict.is_ready and (not verdict.is_failure or verdict.needs_volume)


def _is_startup_overdue(means: ReconcileContext, snapshot: ObservedObjects) -> bool:
    if snapshot.namespace is None:
        return False
    made = datetime.fromisoformat(snapshot.namespace["metadata"]["creationTimestamp"])
    return means.now() - made > _EVENTS_DELAY


async def _fetch_events(
    means: ReconcileContext, snapshot: ObservedObjects, *selectors: str
) -> list[Object]:
    if snapshot.namespace is None:
        return []
    namespace = snapshot.namespace["metadata"]["name"]
    pages = [
        await means.super_client.list(EVENTS, namespace=namespace, field_selector=selector)
        for selector in selectors
    ]
    since = format_time(means.now() - _RECENT_EVENTS_WINDOW)
    return [
        event
        for page in pages
        for event in page.get("items") or ()
        if str(event.get("lastTimestamp") or event.get("eventTime") or "") >= since
        and event.get("reason") not in _EXPECTED_EVENT_REASONS
    ]
