"""Bootstrap inside the tenant: its API answers, the objects exist, its controllers work.

Hazard: a tenant may be slow or hostile on purpose. Every request has a short deadline, and a
failure becomes a condition of this tenant only.
"""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from kubeio import Object, errors
from kubeio.api.client import Client
from tenancy import conditions, wellknown
from tenancy.resources import CONFIG_MAPS
from vcmanager.pki import bundles
from vcmanager.plan import metrics_api, tenant_objects
from vcmanager.plan.control_plane import ControlPlane, PlanInput
from vcmanager.runtime import keys
from vcmanager.runtime.blocked import PhaseBlocked
from vcmanager.runtime.context import ReconcileContext

_FIRST_START_RETRY_SECONDS = 0.5
_FIRST_START_WINDOW = timedelta(minutes=5)
"""Period with short pauses for a tenant that never ran."""
_MIN_RETRY_SECONDS, _MAX_RETRY_SECONDS = 1.0, 30.0
_UNREACHABLE, _FAILED, _CONTROLLERS_NOT_STARTED = (
    "Unreachable",
    "BootstrapFailed",
    "ControllersNotStarted",
)


def compute_retry_delay(cluster: Mapping[str, Any], now: datetime) -> float:
    """Return the seconds until the next try: few at the first start, then increasing.

    The tenant decides whether a try works, so it must not decide how often one is made.
    """
    status = cluster.get("status") or {}
    made = datetime.fromisoformat(cluster["metadata"]["creationTimestamp"])
    if is_new(cluster) and now - made < _FIRST_START_WINDOW:
        return _FIRST_START_RETRY_SECONDS
    failing = [
        conditions.parse_transition_time(found) or now
        for kind in (wellknown.API_SERVER_READY, wellknown.CONTROLLER_MANAGER_READY)
        if (found := conditions.find_condition(status.get("conditions"), kind)) is not None
        and found["status"] == "False"
        and found["reason"] in (_UNREACHABLE, _FAILED, _CONTROLLERS_NOT_STARTED)
    ]
    elapsed = (now - min(failing, default=now)).total_seconds()
    return min(_MAX_RETRY_SECONDS, max(_MIN_RETRY_SECONDS, elapsed))


def is_new(cluster: Mapping[str, Any]) -> bool:
    """Return whether a tenant's API has not answered so far."""
    status = cluster.get("status") or {}
    return not (status.get("phase") == "Running" or status.get("version"))


async def connect_tenant(
    means: ReconcileContext, wish: PlanInput, plan: ControlPlane, *, secret: Object
) -> Client:
    """Return the client of a tenant. `secret` has the manager's own kubeconfig for it."""
    tenant = wish.tenant
    return await means.tenant_clients.get(
        tenant.uid,
        bundles.read_data(secret, secret["metadata"]["name"]),
        name=f"tenant {tenant.namespace}/{tenant.name}",
        on_changed=lambda: means.enqueue(
            keys.build_virtual_cluster_key(tenant.namespace, tenant.name)
        ),
        watched_resources=(
            *tenant_objects.BOOTSTRAP_RESOURCES,
            CONFIG_MAPS,
            *(metrics_api.WATCHED_RESOURCES if plan.metrics else ()),
        ),
    )


async def bootstrap_tenant(
    client: Client, plan: ControlPlane, *, dns_address: str, retry_after: float
) -> str:
    """Apply the manager's objects. Return the running version. Raises Held.

    `retry_after` is the pause before the next try.
    """
    try:
        version = await client.version()
        await tenant_objects.apply_objects(client, dns_address=dns_address)
        works = not plan.has_controller_manager or await tenant_objects.has_controllers(client)
    except errors.ApiError as problem:  # first: an answer of 5xx is an Unavailable as well
        raise PhaseBlocked(
            _FAILED,
            f"The tenant's API rejected objects of vc-manager: {problem}",
            condition=wellknown.API_SERVER_READY,
            retry_after=retry_after,
        ) from problem
    except errors.Unavailable as problem:
        raise PhaseBlocked(
            _UNREACHABLE,
            f"The tenant's API does not answer yet: {problem}",
            condition=wellknown.API_SERVER_READY,
            retry_after=retry_after,
        ) from problem
    if not works:
        raise PhaseBlocked(
            _CONTROLLERS_NOT_STARTED,
            "The tenant's controller manager has not created the first ServiceAccount yet.",
            condition=wellknown.CONTROLLER_MANAGER_READY,
            retry_after=retry_after,
        )
    return version
