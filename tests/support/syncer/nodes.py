"""Worlds with nodes, and pods that are on them or wait for one."""

from __future__ import annotations

from typing import Any

from syncer.controllers.pods import pod_reconciler as flow
from syncer.handlers.home_events import HomeEvents
from syncer.handlers.tenant_events import TenantEvents
from syncer.rules import registry
from tenancy import wellknown
from tests.support.syncer.sessions import CONTAINERS, SessionWorld, put

SUPER_NODE: dict[str, Any] = {
    "metadata": {"name": "n", "uid": "n", "resourceVersion": "3"},
    "spec": {},
    "status": {},
}


ON_NODE = {"nodeName": "n", "containers": CONTAINERS}


def engaged(world: SessionWorld) -> SessionWorld:
    """Let the caches notify the session, on both sides."""
    TenantEvents(world.session).subscribe()
    HomeEvents(world.super_cluster, {"vc-uid": world.session}).subscribe()
    world.ready()
    return world


def node_with(world: SessionWorld, *, version: int = 900, spec: Any = None, **labels: str) -> None:
    """Show the tenant the super node, with these labels of its own."""
    if world.super_cluster.nodes.get("", "n") is None:
        put(world.super_cluster.nodes, SUPER_NODE)
    metadata = {
        "resourceVersion": str(version),
        "annotations": {wellknown.UID: "n", wellknown.TAINTS: ""},
        "labels": {wellknown.VIRTUAL_NODE: "true", **labels},
    }
    world.tenant_has("Node", "n", namespace="", metadata=metadata, spec=spec or {}, status={})


def pending(world: SessionWorld, name: str = "p", **spec: Any) -> None:
    """Have a pod that nothing is below of."""
    world.tenant_has(
        "Pod", name, spec={"containers": CONTAINERS, **spec}, status={"phase": "Pending"}
    )


async def work(world: SessionWorld, name: str = "p") -> None:
    """Reconcile a pod. The caches show the earlier writes."""
    world.session.expectations.clear()
    await flow.reconcile_pod(
        registry.KINDS_BY_NAME["Pod"], world.key("Pod", "web", name), world.session
    )


def made(world: SessionWorld) -> dict[str, Any]:
    """Return the last pod that was made below."""
    found: dict[str, Any] = world.below.bodies[-1]
    assert found["kind"] == "Pod"
    return found


def unschedulable(message: str) -> dict[str, Any]:
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    return {"phase": "Pending", "conditions": [{**condition, "message": message}]}


# --- addresses of the super cluster ---------------------------------------------------------------


def node(name: str, address: str, pods: str, version: str = "1") -> dict[str, Any]:
    """Return a node with an address and a range of pods."""
    return {
        "metadata": {"name": name, "uid": name, "resourceVersion": version},
        "spec": {"podCIDR": pods, "podCIDRs": [pods]},
        "status": {
            "addresses": [
                {"type": "InternalIP", "address": address},
                {"type": "Hostname", "address": name},
            ]
        },
    }
