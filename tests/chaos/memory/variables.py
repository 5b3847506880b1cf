"""Service variables of pods: below while a pod names them, and as the tenant's Services are.

Owns that part of the invariant I1. An oracle of its own: nothing of the syncer's is asked.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tenancy import ownership
from tenancy.resources import CONFIG_MAPS, SERVICES
from tests.chaos.oracles import is_labelled
from tests.support.memapi.watches import Object

if TYPE_CHECKING:
    from tests.chaos.memory.tenant import SimulatedTenant
    from tests.chaos.memory.world import MachineWorld

NAMES = frozenset({"vc-service-variables", "vc-api-variables"})
"""The ConfigMaps that hold them."""


def problems(world: MachineWorld, tenant: SimulatedTenant, pod: Object, twin: Object) -> list[str]:
    """Return what the containers of a pod below would not see, were they started now."""
    sources = twin["spec"]["containers"][0].get("envFrom") or ()
    name = sources[0]["configMapRef"]["name"] if sources else ""
    if name not in NAMES:
        return ["the first source of its container is not that of service variables"]
    stored = world.below.of(CONFIG_MAPS).get(twin["metadata"]["namespace"], name)
    if stored is None:
        return [f"{name} is not there"]
    found = stored.decode()
    if ownership.read_owner(found["metadata"]) is None or not is_labelled(found["metadata"]):
        return []  # another owner's, or out of sight
    data = found.get("data") or {}
    hosts = {key: value for key, value in data.items() if key.endswith("_SERVICE_HOST")}
    wanted = _hosts(tenant, pod["metadata"]["namespace"])
    return [] if hosts == wanted else [f"{name} has {hosts}, and the Services are {wanted}"]


def _hosts(tenant: SimulatedTenant, namespace: str) -> dict[str, str]:
    """Return the addresses that a kubelet of the tenant would write."""
    found = {}
    for kind, body in tenant.alive.values():
        metadata = body["metadata"]
        is_api = (metadata.get("namespace"), metadata["name"]) == ("default", "kubernetes")
        address = (body.get("spec") or {}).get("clusterIP") if kind is SERVICES else None
        if address in (None, "", "None") or not (is_api or metadata["namespace"] == namespace):
            continue
        found[f"{metadata['name'].replace('-', '_').upper()}_SERVICE_HOST"] = str(address)
    return found
