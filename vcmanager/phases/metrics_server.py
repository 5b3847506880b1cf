"""The metrics-server of a tenant that requests one, and its deletion otherwise.

Hazard: a tenant works without it. Nothing here may keep a tenant from being ready, or its
certificates from being renewed. A failure becomes one condition, and is retried later.
"""

from collections.abc import Mapping
from typing import Any

from kubeio import Object, errors
from kubeio.api.client import Client
from tenancy import wellknown
from tenancy.resources import DEPLOYMENTS, SERVICES
from vcmanager.phases import service_cidr
from vcmanager.phases.owned_objects import Build
from vcmanager.plan import control_plane, metrics_api, service_cidrs
from vcmanager.plan.control_plane import ControlPlane
from vcmanager.plan.metrics_api import Reach
from vcmanager.runtime.blocked import Held
from vcmanager.runtime.context import Means
from vcmanager.runtime.observed import Snapshot
from vcmanager.runtime.status import Report

RETRY_SECONDS = 30.0
"""Retry interval in seconds after a failure, for causes that no watch reports."""


def kept(plan: ControlPlane, snapshot: Snapshot) -> list[Object]:
    """Return the objects that `Build.prune` must keep: later writes, and the Service to the last.

    The Service marks that the tenant has objects, and is deleted after them. Until then the pods
    of the Deployment must answer. Otherwise an API group without a backend blocks the deletion of
    the tenant's namespaces.
    """
    if plan.metrics:
        return list(plan.metrics)
    live = snapshot.get("Service", service_cidrs.METRICS_SERVICE)
    pods = snapshot.get("Deployment", control_plane.METRICS)
    if live is None or pods is None or not _is_mark(live):
        return [live] if live is not None else []
    return [live, pods]


async def act(
    client: Client,
    means: Means,
    plan: ControlPlane,
    *,
    build: Build,
    snapshot: Snapshot,
    authority: bytes,
    report: Report,
) -> None:
    """Create or remove the metrics-server and its API. Report a failure as a condition.

    `client` is the tenant's, `authority` the certificate of the tenant's serving authority.
    """
    try:
        if plan.metrics:
            reach = await _provide(client, plan, build, _answers(snapshot), authority)
            if reach is not None and not reach.is_reached:
                report.say(wellknown.METRICS_READY, "False", reach.reason, reach.message)
        else:
            await _remove(client, means, snapshot)
    except Held as held:
        taken = isinstance(held.__cause__, errors.Invalid) and service_cidr.is_address_taken(
            held.__cause__
        )
        reason = "AddressTaken" if taken else held.reason
        _say(report, reason, held.message)
    except errors.Forbidden as problem:
        _say(report, "Forbidden", str(problem))
    except errors.ApiError as problem:
        _say(report, "Refused", f"the objects of the metrics API are refused: {problem}")
    except errors.Unavailable as problem:
        _say(report, "Unreachable", f"the metrics API could not be written: {problem}")


async def _provide(
    client: Client, plan: ControlPlane, build: Build, is_up: bool, authority: bytes
) -> Reach | None:
    """Return how the API server reaches it, or None while no pod is ready."""
    # A metrics-server without its rights exits at once, and its restart is delayed.
    await metrics_api.apply(client, metrics_api.grants())
    await build.beside(plan.metrics)
    await metrics_api.apply(client, metrics_api.door(_address(plan)))
    if is_up:
        (found,) = await metrics_api.apply(client, [metrics_api.group(authority)])
        return metrics_api.reach(found)
    await metrics_api.withdraw_group(client)
    return None


async def _remove(client: Client, means: Means, snapshot: Snapshot) -> None:
    live = snapshot.get("Service", service_cidrs.METRICS_SERVICE)
    if live is None or not _is_mark(live):
        return
    await metrics_api.remove(client)
    pods = snapshot.get("Deployment", control_plane.METRICS)
    for kind, each in ((DEPLOYMENTS, pods), (SERVICES, live)):
        if each is not None:
            metadata = each["metadata"]
            await means.super_client.delete(
                kind, metadata["name"], namespace=metadata["namespace"], uid=metadata["uid"]
            )


def _is_mark(service: Object) -> bool:
    """Return whether the Service is the manager's: the tenant may still have its objects."""
    return wellknown.DIGEST in (service["metadata"].get("annotations") or {})


def _address(plan: ControlPlane) -> str:
    service = next(each for each in plan.metrics if each["kind"] == "Service")
    return str(service["spec"]["clusterIP"])


def _answers(snapshot: Snapshot) -> bool:
    live: Mapping[str, Any] = snapshot.get("Deployment", control_plane.METRICS) or {}
    return bool((live.get("status") or {}).get("readyReplicas", 0) > 0)


def _say(report: Report, reason: str, message: str) -> None:
    report.say(wellknown.METRICS_READY, "False", reason, message, is_failure=True)
