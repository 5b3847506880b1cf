"""Inside the tenant: its API answers, our objects are there, its controllers work.

Hazard: a tenant may be slow or hostile on purpose; every request has a short deadline, and what
goes wrong becomes a condition of this tenant and nothing more.
"""

from kubeio import Object, errors
from tenancy import marks
from vcmanager import bootstrap
from vcmanager.controlplane import ControlPlane, Wish
from vcmanager.held import Held
from vcmanager.means import Means
from vcmanager.pki import bundles

_SOON = 0.5


async def act(
    means: Means, wish: Wish, plan: ControlPlane, *, secret: Object, dns_address: str
) -> str:
    """Apply our objects; return the version that runs. Raises Held.

    `secret` keeps the manager's own kubeconfig for this tenant.
    """
    kubeconfig = bundles.data_of(secret, secret["metadata"]["name"])
    client = await means.tenants.get(
        wish.tenant.uid, kubeconfig, name=f"tenant {wish.tenant.namespace}/{wish.tenant.name}"
    )
    try:
        version = await client.version()
        await bootstrap.apply(client, dns_address=dns_address)
        works = not plan.has_controller_manager or await bootstrap.has_controllers(client)
    except errors.Unavailable as problem:
        raise Held(
            "Unreachable",
            f"the tenant's API does not answer yet: {problem}",
            condition=marks.API_SERVER_READY,
            again_after=_SOON,
        ) from problem
    except errors.ApiError as problem:
        raise Held(
            "BootstrapFailed",
            f"the tenant's API refuses our own objects: {problem}",
            condition=marks.API_SERVER_READY,
            again_after=5.0,
        ) from problem
    if not works:
        raise Held(
            "Starting",
            "the tenant's controllers have not made the first account yet",
            condition=marks.CONTROLLER_MANAGER_READY,
            again_after=_SOON,
        )
    return version
