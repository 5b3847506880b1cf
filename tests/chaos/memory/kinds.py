"""Further kinds that tenants create: a table with one row for each kind.

Owns what such an object says, and what its twin must say then. An oracle of its own: nothing of the
syncer's is asked. Must not know steps.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from tenancy import wellknown
from tenancy.resources import (
    ENDPOINT_SLICES,
    INGRESSES,
    NAMESPACES,
    NETWORK_POLICIES,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    POD_DISRUPTION_BUDGETS,
    PODS,
    Resource,
)
from tests.chaos.oracles import GATEWAY
from tests.support.memapi.watches import Object

if TYPE_CHECKING:
    from tests.chaos.memory.tenant import SimulatedTenant
    from tests.chaos.memory.world import MachineWorld

STORAGE_CLASS = "fast"
"""The class of all claims."""
_SPACES = ("default", "web", "db")
_NAME = "kubernetes.io/metadata.name"
_TERMINAL = ("Succeeded", "Failed")


class MachineKind(NamedTuple):
    """One kind."""

    resource: Resource
    body: Callable[[SimulatedTenant, str, int], Object]
    """What an object says beside its name, from where it stands and a small number."""
    differences: Callable[[MachineWorld, SimulatedTenant, Object, Object], list[str]]
    """In what tenant object and twin do not agree, in words."""
    is_wanted: Callable[[Object], bool] = lambda _: True
    """Whether a tenant object without a twin must get one."""
    one_name: str = ""
    """The only name that objects of the kind have, where several would get in each other's way."""


def _differ(what: str, above: Any, below: Any) -> list[str]:
    return [] if above == below else [f"{what} is {above}, below {below}"]


# --- ingresses: an address comes back -------------------------------------------------------------


def _ingress(tenant: SimulatedTenant, place: str, number: int) -> Object:
    backend = {"service": {"name": "abc"[number % 3], "port": {"number": 80}}}
    path = {"path": f"/{number % 4}", "pathType": "Prefix", "backend": backend}
    host = f"{place.replace('/', '.')}.{tenant.canary}.example.com"
    return {"spec": {"rules": [{"host": host, "http": {"paths": [path]}}]}}


def _ingress_differs(_: MachineWorld, __: SimulatedTenant, body: Object, twin: Object) -> list[str]:
    status = [(each.get("status") or {}).get("loadBalancer") for each in (body, twin)]
    return _differ("spec.rules", body["spec"]["rules"], twin["spec"]["rules"]) + _differ(
        "status.loadBalancer", *status
    )


# --- network policies: what they select are namespaces as they are now ----------------------------


def _network_policy(tenant: SimulatedTenant, _: str, number: int) -> Object:
    spaces = {"matchLabels": {_NAME: _SPACES[number % 3]}}
    return {
        "spec": {
            "podSelector": {"matchLabels": {"app": f"{tenant.canary}-{number % 4}"}},
            "policyTypes": ["Ingress"],
            "ingress": [{"from": [{"namespaceSelector": spaces}]}],
        }
    }


def _network_policy_differs(
    _: MachineWorld, tenant: SimulatedTenant, body: Object, twin: Object
) -> list[str]:
    (peer,) = body["spec"]["ingress"][0]["from"]
    wanted = peer["namespaceSelector"]["matchLabels"][_NAME]
    is_there = any(
        kind is NAMESPACES and space["metadata"]["name"] == wanted
        for kind, space in tenant.alive.values()
    )
    named = [
        name
        for rule in twin["spec"]["ingress"]
        for each in rule["from"]
        for item in (each.get("namespaceSelector") or {}).get("matchExpressions") or ()
        for name in item.get("values") or ()
        if name != tenant.tenant.root
    ]
    selectors = [each["spec"]["podSelector"]["matchLabels"] for each in (body, twin)]
    return _differ("spec.podSelector", *selectors) + _differ(
        "what is selected", [tenant.below(wanted)] if is_there else [], named
    )


# --- budgets: lower than what is healthy ----------------------------------------------------------


def _budget(tenant: SimulatedTenant, _: str, number: int) -> Object:
    selector = {"matchLabels": {GATEWAY: f"{tenant.canary}-{number % 4}"}}
    return {"spec": {"minAvailable": number % 3, "selector": selector}}


def _budget_differs(
    world: MachineWorld, tenant: SimulatedTenant, body: Object, twin: Object
) -> list[str]:
    wanted, namespace = body["spec"]["minAvailable"], twin["metadata"]["namespace"]
    selected = body["spec"]["selector"]["matchLabels"][GATEWAY]
    translated = wellknown.translate_label_key(GATEWAY)
    healthy = 0
    for stored in world.below.of(PODS).all():
        if stored.namespace == namespace and stored.labels.get(translated) == selected:
            pod = stored.decode()
            conditions = pod["status"].get("conditions") or ()
            healthy += (
                "deletionTimestamp" not in pod["metadata"]
                and pod["status"].get("phase") not in _TERMINAL
                and any((c["type"], c["status"]) == ("Ready", "True") for c in conditions)
            )
    lowered = min(wanted, healthy - 1) if healthy else wanted
    return _differ("spec.minAvailable", lowered, twin["spec"].get("minAvailable"))


# --- claims: a volume comes back ------------------------------------------------------------------


def _claim(_: SimulatedTenant, __: str, number: int) -> Object:
    return {
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": f"{1 + number % 4}Gi"}},
            "storageClassName": STORAGE_CLASS,
        }
    }


def _claim_differs(
    world: MachineWorld, tenant: SimulatedTenant, body: Object, twin: Object
) -> list[str]:
    sizes = [each["spec"]["resources"]["requests"]["storage"] for each in (body, twin)]
    found = _differ("spec.resources", *sizes) if sizes[0] > sizes[1] else []  # nothing shrinks
    volumes = [each["spec"].get("volumeName") for each in (body, twin)]
    found += _differ("spec.volumeName", *volumes)
    phases = [(each.get("status") or {}).get("phase") for each in (body, twin)]
    found += _differ("status.phase", *phases)
    name = twin["spec"].get("volumeName", "")
    volume = world.below.of(PERSISTENT_VOLUMES).get("", name)
    is_its_own = volume is not None and twin["metadata"]["uid"].encode() in volume.body
    if is_its_own and tenant.cluster.of(PERSISTENT_VOLUMES).get("", name) is None:
        found.append(f"its volume {name} is not shown")
    return found


def _is_claim_wanted(claim: Object) -> bool:
    """Return whether a volume must be created. A claim that lost its volume gets no other."""
    return not claim["spec"].get("volumeName")


# --- slices ---------------------------------------------------------------------------------------


def _slice(_: SimulatedTenant, __: str, number: int) -> Object:
    return {
        "addressType": "IPv4",
        "endpoints": [{"addresses": [f"203.0.113.{1 + number % 200}"]}],
        "ports": [{"name": "http", "port": 80, "protocol": "TCP"}],
        "labels": {"kubernetes.io/service-name": "abc"[number % 3]},
    }


def _slice_differs(_: MachineWorld, __: SimulatedTenant, body: Object, twin: Object) -> list[str]:
    found = [[each["addresses"] for each in one["endpoints"]] for one in (body, twin)]
    return _differ("endpoints", *found)


OTHERS: Mapping[Resource, MachineKind] = {
    row.resource: row
    for row in (
        MachineKind(INGRESSES, _ingress, _ingress_differs),
        MachineKind(NETWORK_POLICIES, _network_policy, _network_policy_differs),
        MachineKind(POD_DISRUPTION_BUDGETS, _budget, _budget_differs, one_name="a"),
        MachineKind(PERSISTENT_VOLUME_CLAIMS, _claim, _claim_differs, _is_claim_wanted),
        MachineKind(ENDPOINT_SLICES, _slice, _slice_differs),
    )
}
