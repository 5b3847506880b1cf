"""Conditions of the components of a control plane.

Owns the read of Events, which happens only when the pods themselves show no cause. Hazard: Events
may describe a problem that is over. Only recent Events are used.
"""

from datetime import datetime, timedelta

from kubeio import Object
from tenancy.resources import EVENTS
from vcmanager.plan import component_status, control_plane
from vcmanager.plan.component_status import Verdict
from vcmanager.plan.control_plane import ControlPlane
from vcmanager.runtime.context import Means
from vcmanager.runtime.observed import Snapshot
from vcmanager.runtime.status import Report

_PATIENCE = timedelta(seconds=8)
"""Time that a component may take to start before its Events are read."""
_RECENT = timedelta(minutes=5)
_EXPECTED = frozenset({"Unhealthy", "BackOff"})
"""Event reasons that are normal during a start, or that the pod reports better."""


async def judge(
    means: Means, report: Report, snapshot: Snapshot, plan: ControlPlane | None
) -> None:
    """Add the condition of each existing or planned component."""
    names = plan.components if plan is not None else _found(snapshot)
    verdicts = {name: _judge(name, snapshot, []) for name in names}
    if any(_is_silent(verdict) for verdict in verdicts.values()) and _is_late(means, snapshot):
        warnings = await _fetch_warnings(means, snapshot)
        verdicts = {name: _judge(name, snapshot, warnings) for name in names}
    for name, verdict in verdicts.items():
        report.say(
            component_status.CONDITIONS[name],
            "True" if verdict.is_ready else "False",
            verdict.reason,
            verdict.message,
            is_failure=verdict.is_failure,
        )


def _judge(name: str, snapshot: Snapshot, warnings: list[Object]) -> Verdict:
    kind = "Deployment" if name in control_plane.DEPLOYMENTS else "StatefulSet"
    pods = list(snapshot.pods_of(name))
    return component_status.component(name, snapshot.get(kind, name), pods, warnings)


def _found(snapshot: Snapshot) -> tuple[str, ...]:
    workloads = {**snapshot.named("StatefulSet"), **snapshot.named("Deployment")}
    return tuple(name for name in component_status.CONDITIONS if name in workloads)


def _is_silent(verdict: Verdict) -> bool:
    return not verdict.is_ready and not verdict.is_failure


def _is_late(means: Means, snapshot: Snapshot) -> bool:
    if snapshot.namespace is None:
        return False
    made = datetime.fromisoformat(snapshot.namespace["metadata"]["creationTimestamp"])
    return means.now() - made > _PATIENCE


async def _fetch_warnings(means: Means, snapshot: Snapshot) -> list[Object]:
    if snapshot.namespace is None:
        return []
    page = await means.super_client.list(
        EVENTS,
        namespace=snapshot.namespace["metadata"]["name"],
        field_selector="type=Warning",
    )
    since = (means.now() - _RECENT).strftime("%Y-%m-%dT%H:%M:%SZ")
    return [
        event
        for event in page.get("items") or ()
        if str(event.get("lastTimestamp") or event.get("eventTime") or "") >= since
        and event.get("reason") not in _EXPECTED
    ]
