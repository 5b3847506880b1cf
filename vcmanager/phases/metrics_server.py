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
from vcmanager.phases.owned_objects import OwnedObjects
from vcmanager.plan import control_plane, metrics_api, service_cidrs
from vcmanager.plan.control_plane import ControlPlane
from vcmanager.plan.metrics_api import MetricsApiReachability
from vcmanager.runtime.blocked import PhaseBlocked
from vcmanager.runtime.context import ReconcileContext
from vcmanager.runtime.observed import ObservedObjects
from vcmanager.runtime.status import ReconcileStatus

RETRY_SECONDS = 30.0
"""Retry interval in seconds after a failure, for causes that no watch reports."""


def list_kept_objects(plan: ControlPlane, snapshot: ObservedObjects) -> list[Object]:
    """Return the objects that `Build.delete_unwanted` must keep: later writes, and the Service to
    the last.

    The Service marks that the tenant has objects, and is deleted after them. Until then the pods
    of the Deployment must answer. Otherwise an API group without a backend blocks the deletion of
    the tenant's namespaces.
    """
    if plan.metrics:
        return list(plan.metrics)
    live = snapshot.get("Service", service_cidrs.METRICS_SERVICE)
    pods = snapshot.get("Deployment", control_plane.METRICS)
    if live is None or pods is None or not _is_marker_service(live):
        return [live] if live is not None else []
    return [live, pods]


async def reconcile_metrics_api(
    client: Client,
    means: ReconcileContext,
    plan: ControlPlane,
    *,
    build: OwnedObjects,
    snapshot: ObservedObjects,
    authority: bytes,
    report: ReconcileStatus,
) -> None:
    """Create or remove the metrics-server and its API. Report a failure as a condition.

    `client` is the tenant's, `authority` the certificate of the tenant's serving authority.
    """
    try:
        if plan.metrics:
            reach = await _ensure_metrics_api(
                client, plan, build, _is_api_ready(snapshot), authority
            )
            if reach is not None and not reach.is_reached:
                report.set_condition(wellknown.METRICS_READY, "False", reach.reason, reach.message)
        else:
            await _delete_metrics_api(client, means, snapshot)
    except PhaseBlocked as held:
        taken = isinstance(held.__cause__, errors.Invalid) and service_cidr.is_address_taken(
            held.__cause__
        )
        reason = "AddressTaken" if taken else held.reason
        _set_condition(report, reason, held.message)
    except errors.Forbidden as problem:
        _set_condition(report, "Forbidden", str(problem))
    except errors.ApiError as problem:
        _set_condition(
            report,
            "Refused",
            f"The tenant's API rejected the objects of the metrics API: {problem}",
        )
    except errors.Unavailable as problem:
        _set_condition(
            report, "Unreachable", f"The objects of the metrics API could not be written: {problem}"
        )


async def _ensure_metrics_api(
    client: Client, plan: ControlPlane, build: OwnedObjects, is_up: bool, authority: bytes
) -> MetricsApiReachability | None:
    """Return how the API server reaches it, or None while no pod is ready."""
    # A metrics-server without its rights exits at once, and its restart is delayed.
    await metrics_api.apply_objects(client, metrics_api.build_rbac())
    await build.write_additional(plan.metrics)
    await metrics_api.apply_objects(client, metrics_api.build_service(_get_address(plan)))
    if is_up:
        (found,) = await metrics_api.apply_objects(
            client, [metrics_api.build_api_service(authority)]
        )
        return metrics_api.read_reachability(found)
    await metrics_api.delete_api_service(client)
    return None


async def _delete_metrics_api(
    client: Client, means: ReconcileContext, snapshot: ObservedObjects
) -> None:
    live = snapshot.get("Service", service_cidrs.METRICS_SERVICE)
    if live is None or not _is_marker_service(live):
        return
    await metrics_api.delete_objects(client)
    pods = snapshot.get("Deployment", control_plane.METRICS)
    for kind, each in ((DEPLOYMENTS, pods), (SERVICES, live)):
        if each is not None:
            metadata = each["metadata"]
            await means.super_client.delete(
                kind, metadata["name"], namespace=metadata["namespace"], uid=metadata["uid"]
            )


def _is_marker_service(service: Object) -> bool:
    """Return whether the Service is the manager's: the tenant may still have its objects."""
    return wellknown.LAST_WRITTEN_DIGEST in (service["metadata"].get("annotations") or {})


def _get_address(plan: ControlPlane) -> str:
    service = next(each for each in plan.metrics if each["kind"] == "Service")
    return str(service["spec"]["clusterIP"])


def _is_api_ready(snapshot: ObservedObjects) -> bool:
    live: Mapping[str, Any] = snapshot.get("Deployment", control_plane.METRICS) or {}
    return bool((live.get("status") or {}).get("readyReplicas", 0) > 0)


def _set_condition(report: ReconcileStatus, reason: str, message: str) -> None:
    report.set_condition(wellknown.METRICS_READY, "False", reason, message, is_failure=True)
