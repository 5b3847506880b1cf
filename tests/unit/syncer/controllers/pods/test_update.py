"""Changes of a running pod: what is refused, and debug containers."""

from __future__ import annotations

from typing import Any

import pytest

from kubeio import errors
from kubeio.controller.worker import NotReadyYet
from syncer.controllers import rejection_events
from syncer.controllers.pods import pod_reconciler
from syncer.rules import registry
from tenancy import wellknown
from tenancy.policies import AccessSpec, TenantPolicySpec
from tests.support.syncer.sessions import CONTAINERS, SessionWorld


async def test_a_refused_change_of_a_pod_is_reported_and_its_status_goes_up_all_the_same():
    world = SessionWorld()
    world.ready()
    spec = {"containers": [{**CONTAINERS[0], "image": "new"}], "nodeName": "n"}
    twin = {"containers": CONTAINERS, "nodeName": "n"}
    world.tenant_has("Pod", "p", spec=spec, status={"phase": "Pending"})
    world.super_has("Pod", "p", spec=twin, status={"phase": "Running"})
    world.below.refusals["patch"] = errors.Forbidden("where: admission says no (403)")
    with pytest.raises(errors.Forbidden):
        await pod_reconciler.reconcile_pod(
            registry.KINDS_BY_NAME["Pod"], world.key("Pod", "web", "p"), world.session
        )
    assert ("patch", "Pod", "p") in world.above.writes()
    assert world.told() == [rejection_events.SYNC_FAILED]


async def test_a_running_pod_of_no_shape_is_reported_once_and_never_stumbled_over():
    world = SessionWorld()
    world.ready()
    world.tenant_has("Pod", "p", spec={"containers": [3], "nodeName": "n"}, status={})
    world.super_has("Pod", "p", spec={"containers": CONTAINERS, "nodeName": "n"}, status={})
    for _ in range(2):
        await pod_reconciler.reconcile_pod(
            registry.KINDS_BY_NAME["Pod"], world.key("Pod", "web", "p"), world.session
        )
    assert not world.below.writes()
    assert world.told() == ["SyncRejected"]


def debugged(world: SessionWorld, debugger: dict[str, Any]) -> None:
    """Have a running pod whose tenant asks for a debug container."""
    world.ready()
    own = {"containers": CONTAINERS, "ephemeralContainers": [debugger], "nodeName": "n"}
    twin = {"containers": CONTAINERS, "nodeName": "n"}
    recorded = {"annotations": {wellknown.CONTAINERS: "main"}}
    world.tenant_has("Pod", "p", spec=own, status={"phase": "Running"})
    world.super_has("Pod", "p", spec=twin, status={"phase": "Running"}, metadata=recorded)


def named(world: SessionWorld) -> list[str]:
    """Return which containers were written down as the tenant's."""
    annotations = [body["metadata"].get("annotations") or {} for body in world.below.bodies]
    return [found[wellknown.CONTAINERS] for found in annotations if wellknown.CONTAINERS in found]


@pytest.mark.parametrize(
    ("debugger", "allowed"),
    [
        ({"name": "d", "image": "i"}, False),
        ({"name": "d", "image": "i", "securityContext": {"privileged": True}}, True),
        ({"name": "d,injected", "image": "i"}, True),
    ],
)
async def test_a_debug_container_that_is_refused_is_never_named_as_the_tenants(debugger, allowed):
    world = SessionWorld(TenantPolicySpec(access=AccessSpec(ephemeral_containers=allowed)))
    debugged(world, debugger)
    await pod_reconciler.reconcile_pod(
        registry.KINDS_BY_NAME["Pod"], world.key("Pod", "web", "p"), world.session
    )
    assert named(world) == []
    assert world.told() == ["SyncRejected"]


async def test_a_debug_container_is_named_once_what_it_waits_for_is_there():
    world = SessionWorld()
    world.tenant_has("ConfigMap", "tools", data={})
    tools = [{"configMapRef": {"name": "tools"}}]
    debugged(world, {"name": "d", "image": "i", "envFrom": tools})
    key = world.key("Pod", "web", "p")
    with pytest.raises(NotReadyYet):
        await pod_reconciler.reconcile_pod(registry.KINDS_BY_NAME["Pod"], key, world.session)
    assert named(world) == []
    world = SessionWorld()
    debugged(world, {"name": "d", "image": "i"})
    await pod_reconciler.reconcile_pod(registry.KINDS_BY_NAME["Pod"], key, world.session)
    assert named(world) == ["main,d"]
    assert world.below.bodies[-1]["spec"]["ephemeralContainers"][0]["name"] == "d"
