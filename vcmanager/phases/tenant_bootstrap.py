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
from vcmanager.pki import bundles
from vcmanager.plan import metrics_api, tenant_objects
from vcmanager.plan.control_plane import ControlPlane, Wish
from vcmanager.runtime import keys
from vcmanager.runtime.blocked import Held
from vcmanager.runtime.context import Means

_SOON = 0.5
_FIRST_START = timedelta(minutes=5)
"""Period with short pauses for a tenant that never ran."""
_SHORTEST, _LONGEST = 1.0, 30.0
_UNREACHABLE, _FAILED, _IDLE = "Unreachable", "BootstrapFailed", "ControllersIdle"


def pause(cluster: Mapping[str, Any], now: datetime) -> float:
    """Return the seconds until the next try: few at the first start, then increasing.

    The tenant decides whether a try works, so it must not decide how often one is made.
    """
    status = cluster.get("status") or {}
    made = datetime.fromisoformat(cluster["metadata"]["creationTimestamp"])
    if is_new(cluster) and now - made < _FIRST_START:
        return _SOON
    failing = [
        conditions.since(found) or now
        for kind in (wellknown.API_SERVER_READY, wellknown.CONTROLLER_MANAGER_READY)
        if (found := conditions.find(status.get("conditions"), kind)) is not None
        and found["status"] == "False"
        and found["reason"] in (_UNREACHABLE, _FAILED, _IDLE)
    ]
    elapsed = (now - min(failing, default=now)).total_seconds()
    return min(_LONGEST, max(_SHORTEST, elapsed))


def is_new(cluster: Mapping[str, Any]) -> bool:
    """Return whether a tenant's API has not answered so far."""
    status = cluster.get("status") or {}
    return not (status.get("phase") == "Running" or status.get("version"))


async def connect(means: Means, wish: Wish, plan: ControlPlane, *, secret: Object) -> Client:
    """Return the client of a tenant. `secret` has the manager's own kubeconfig for it."""
    tenant = wish.tenant
    return await means.tenants.get(
        tenant.uid,
        bundles.data_of(secret, secret["metadata"]["name"]),
        name=f"tenant {tenant.namespace}/{tenant.name}",
        changed=lambda: means.wake(keys.virtual_cluster(tenant.namespace, tenant.name)),
        watched=(*tenant_objects.RESOURCES, *(metrics_api.WATCHED if plan.metrics else ())),
    )


async def act(client: Client, plan: ControlPlane, *, dns_address: str, again_after: float) -> str:
    """Apply the manager's objects. Return the running version. Raises Held.

    `again_after` is the pause before the next try.
    """
    try:
        version = await client.version()
        await tenant_objects.apply(client, dns_address=dns_address)
        works = not plan.has_controller_manager or await tenant_objects.has_controllers(client)
    except errors.ApiError as problem:  # first: an answer of 5xx is an Unavailable as well
        raise Held(
            _FAILED,
            f"the tenant's API refuses our own objects: {problem}",
            condition=wellknown.API_SERVER_READY,
            again_after=again_after,
        ) from problem
    except errors.Unavailable as problem:
        raise Held(
            _UNREACHABLE,
            f"the tenant's API does not answer yet: {problem}",
            condition=wellknown.API_SERVER_READY,
            again_after=again_after,
        ) from problem
    if not works:
        raise Held(
            _IDLE,
            "the tenant's controllers have not made the first account yet",
            condition=wellknown.CONTROLLER_MANAGER_READY,
            again_after=again_after,
        )
    return version
