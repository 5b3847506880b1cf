"""A tenant under its TenantPolicy: bound, changed while the syncer runs, taken away."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from kubeio import Object
from kubeio.errors import NotFound
from syncer.model.keys import NODE
from syncer.rules.namespaces import POD_SECURITY
from syncer.tenants import conditions
from tenancy import wellknown
from tenancy.resources import (
    CONFIG_MAPS,
    EVENTS,
    NAMESPACES,
    NODES,
    PODS,
    TENANT_POLICIES,
    VIRTUAL_CLUSTERS,
)
from tests.integration.syncer.control_planes import own_world
from tests.integration.syncer.objects import pod
from tests.integration.syncer.world import SyncerWorld
from tests.support.controlplane import LocalControlPlane
from tests.support.eventually import eventually
from tests.support.names import fresh_name

pytestmark = [pytest.mark.thorough, pytest.mark.integration]


@pytest.fixture
async def own(super_plane: LocalControlPlane, tmp_path: Path) -> AsyncIterator[SyncerWorld]:
    async with own_world(super_plane, tmp_path / fresh_name("tenant")) as world:
        yield world


async def policy(world: SyncerWorld, name: str = "", **spec: Any) -> str:
    """Make a TenantPolicy and return its name."""
    name = name or fresh_name("policy")
    body = {
        "apiVersion": TENANT_POLICIES.api_version,
        "kind": "TenantPolicy",
        "metadata": {"name": name},
        "spec": spec,
    }
    await world.super_client.create(TENANT_POLICIES, body, validation="Strict")
    return name


async def bind(world: SyncerWorld, name: str) -> None:
    """Bind the tenant to a policy."""
    patch = {"spec": {"policyRef": {"name": name}}}
    tenant = world.tenant
    await world.super_client.patch(VIRTUAL_CLUSTERS, tenant.name, patch, namespace=tenant.namespace)


async def change(world: SyncerWorld, name: str, **spec: Any) -> None:
    """Change a policy."""
    await world.super_client.patch(TENANT_POLICIES, name, {"spec": spec})


async def level(world: SyncerWorld, namespace: str) -> str:
    """Return the level of pod security of a super namespace."""
    body = await world.super_client.get(NAMESPACES, world.super_namespace(namespace))
    return str(body["metadata"]["labels"][POD_SECURITY])


async def synced(world: SyncerWorld, reason: str) -> Object:
    """Wait until the condition Synced has a reason, and return it."""
    found = await eventually(
        lambda: world.condition(wellknown.SYNCED),
        until=lambda each: each is not None and each["reason"] == reason,
        within=20,
    )
    assert found is not None
    return found


async def test_a_policy_that_is_missing_engages_no_tenant_until_it_is_there(own: SyncerWorld):
    name = fresh_name("policy")
    await bind(own, name)
    async with own.syncer(engaged=False) as program:
        told = await synced(own, conditions.POLICY_MISSING)
        assert f"TenantPolicy {name}" in told["message"]
        assert "Create it" in told["message"]
        assert own.tenant.uid not in program.tenants.connections
        await policy(own, name)
        await synced(own, conditions.ENGAGED)
        space = await own.namespace()
        await own.super_client.delete(TENANT_POLICIES, name)
        await synced(own, conditions.POLICY_MISSING)
        assert own.tenant.uid not in program.tenants.connections
        assert await level(own, space) == "baseline"  # nothing of the tenant is removed
        await bind(own, await policy(own))
        await synced(own, conditions.ENGAGED)


async def test_other_words_in_a_policy_count_for_what_is_there_already(own: SyncerWorld):
    name = await policy(own)
    await bind(own, name)
    async with own.syncer():
        space = await own.namespace()
        await own.tenant_client.create(
            CONFIG_MAPS, {"metadata": {"name": "alone"}}, namespace=space
        )
        node = await own.super_node()
        await own.idle()
        assert not await own.has_twin(CONFIG_MAPS, space, "alone")
        with pytest.raises(NotFound):
            await own.tenant_client.get(NODES, node)

        await change(own, name, sync={"configMaps": "All"}, nodes={"expose": "all"})
        await eventually(lambda: own.twin(CONFIG_MAPS, space, "alone"), within=20)
        shown = await eventually(lambda: own.tenant_client.get(NODES, node), within=20)
        assert "node-role.kubernetes.io/worker" not in shown["metadata"]["labels"]
        await own.super_client.delete(NODES, node)
        await eventually(lambda: gone(own, node), within=20)

        node = await own.super_node()
        await change(own, name, nodes={"view": "Full"}, security={"level": "privileged"})
        await eventually(
            lambda: own.tenant_client.get(NODES, node),
            until=lambda body: "node-role.kubernetes.io/worker" in body["metadata"]["labels"],
            within=20,
        )
        await eventually(lambda: level(own, space), until=lambda found: found == "privileged")
        await change(own, name, nodes={"view": "Minimal"}, security={"level": "baseline"})
        await eventually(
            lambda: own.tenant_client.get(NODES, node),
            until=lambda body: (
                set(body["metadata"]["labels"])
                == {"kubernetes.io/hostname", "kubernetes.io/os", wellknown.VIRTUAL_NODE}
                and not body["status"].get("addresses")
            ),
            within=20,
        )
        await own.idle()
        since = own.mark("tenant")
        own.session.work.enqueue(own.session.build_key(NODE, "", node))
        await own.idle()
        assert own.writes("tenant", since) == []  # it is as wanted, and stays so
        await eventually(lambda: level(own, space), until=lambda found: found == "baseline")

        await change(own, name, sync={"configMaps": "Referenced"}, nodes={"expose": "onDemand"})
        await eventually(lambda: gone(own, node), within=20)

        async def is_taken_away() -> bool:
            return not await own.has_twin(CONFIG_MAPS, space, "alone")

        await eventually(is_taken_away, within=20)


async def gone(world: SyncerWorld, node: str) -> bool:
    """Return whether the tenant has not got a node."""
    try:
        await world.tenant_client.get(NODES, node)
    except NotFound:
        return True
    return False


async def test_what_restricted_refuses_is_reported_in_the_words_of_pod_security(own: SyncerWorld):
    name = await policy(own, security={"level": "restricted"})
    await bind(own, name)
    async with own.syncer():
        space = await own.namespace()
        assert await level(own, space) == "restricted"
        await own.tenant_client.create(PODS, pod("web"), namespace=space)

        async def told() -> str:
            found = await own.tenant_client.list(EVENTS, namespace=space)
            messages = [e["message"] for e in found["items"] if e["reason"] == "SyncRejected"]
            assert len(messages) == 1
            return str(messages[0])

        message = await eventually(told)
        assert message.startswith("spec violates the level restricted of pod security: ")
        assert "runAsNonRoot" in message
        assert "(rule pod-security)" in message
        assert own.tenant.root not in message
        since = own.mark("super")
        await own.idle()
        assert [w for w in own.writes("super", since) if w.resource == "pods"] == []
        assert not await own.has_twin(PODS, space, "web")
        secured = {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "runAsNonRoot": True,
            "seccompProfile": {"type": "RuntimeDefault"},
        }
        container = {"name": "main", "image": "registry.example/app:1", "securityContext": secured}
        await own.tenant_client.create(PODS, pod("safe", containers=[container]), namespace=space)
        await eventually(lambda: own.twin(PODS, space, "safe"))
        await change(own, name, security={"level": "baseline"})
        await eventually(lambda: own.twin(PODS, space, "web"), within=20)


async def test_the_hosts_file_of_a_pod_is_rewritten_at_the_level_restricted(own: SyncerWorld):
    """The super cluster's own admission and validation take the init container."""
    image = "registry.example/busybox:1"
    name = await policy(own, security={"level": "restricted"}, pods={"hostsFile": {"image": image}})
    await bind(own, name)
    async with own.syncer():
        space = await own.namespace()
        secured = {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "runAsNonRoot": True,
            "seccompProfile": {"type": "RuntimeDefault"},
        }
        container = {"name": "main", "image": "registry.example/app:1", "securityContext": secured}
        body = pod("web-0", containers=[container], hostname="web-0", subdomain="nginx")
        await own.tenant_client.create(PODS, body, namespace=space)
        twin = await eventually(lambda: own.twin(PODS, space, "web-0"))
        (writer,) = twin["spec"]["initContainers"]
        assert (writer["name"], writer["image"]) == ("vc-hosts", image)
        mounts = twin["spec"]["containers"][0]["volumeMounts"]
        assert {"name": "vc-hosts", "mountPath": "/etc/hosts", "subPath": "hosts"} in mounts
        assert twin["status"]["qosClass"] == "BestEffort"
        since = own.mark("super")
        await own.idle()
        assert own.writes("super", since) == []
        found = await own.tenant_client.get(PODS, "web-0", namespace=space)
        assert "initContainers" not in found["spec"]


async def test_a_privileged_pod_runs_where_the_policy_specifies_so(own: SyncerWorld):
    await bind(own, await policy(own, security={"level": "privileged"}))
    async with own.syncer():
        space = await own.namespace()
        wide = pod("wide", hostNetwork=True, hostPID=True)
        wide["spec"]["containers"][0]["securityContext"] = {"privileged": True}
        wide["spec"]["volumes"] = [{"name": "v", "hostPath": {"path": "/var/log"}}]
        await own.tenant_client.create(PODS, wide, namespace=space)
        twin = await eventually(lambda: own.twin(PODS, space, "wide"))
        assert (twin["spec"]["hostNetwork"], twin["spec"]["hostPID"]) == (True, True)
        assert twin["spec"]["containers"][0]["securityContext"] == {"privileged": True}
        assert twin["spec"]["volumes"][0]["hostPath"]["path"] == "/var/log"


async def test_a_pod_gives_its_node_up_as_the_policy_specifies_now(own: SyncerWorld):
    """A running pod follows the policy, and the syncer may write the annotation."""
    key = "cluster-autoscaler.kubernetes.io/safe-to-evict"
    name = await policy(own, pods={"autoscaling": {"safeToEvict": "All"}})
    await bind(own, name)
    async with own.syncer():
        space, node = await own.namespace(), await own.super_node()
        body = pod("web")
        body["metadata"]["annotations"] = {key: "false"}
        await own.tenant_client.create(PODS, body, namespace=space)
        await own.start_pod(space, "web", node)

        async def mark() -> str | None:
            twin = await own.twin(PODS, space, "web")
            found: str | None = twin["metadata"]["annotations"].get(key)
            return found

        assert await mark() == "true"
        await eventually(
            lambda: own.events(space),
            until=lambda found: any("blockingAnnotations" in each["message"] for each in found),
        )
        await change(own, name, pods={"autoscaling": {"blockingAnnotations": "Allow"}})
        await eventually(mark, until=lambda found: found == "false")
        modes = {"safeToEvict": "Controlled", "blockingAnnotations": "Refuse"}
        await change(own, name, pods={"autoscaling": modes})
        await eventually(mark, until=lambda found: found is None)
        await own.super_client.delete(NODES, node)
