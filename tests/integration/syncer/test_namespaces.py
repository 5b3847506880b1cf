"""Namespaces: made at once, gone after their content, and never confused with an earlier one."""

from __future__ import annotations

from tenancy import names, wellknown
from tenancy.resources import CONFIG_MAPS, EVENTS, NAMESPACES, PODS, ROLE_BINDINGS
from tests.integration.syncer.objects import pod
from tests.integration.syncer.test_pods import gone
from tests.integration.syncer.world import SYNCER, SyncerWorld
from tests.support.eventually import eventually
from tests.support.names import fresh_name


async def test_a_namespace_goes_after_its_pods(synced: SyncerWorld):
    """REL-22: not before them."""
    space, node = await synced.namespace(), await synced.super_node()
    await synced.tenant_client.create(PODS, pod("web"), namespace=space)
    await synced.start_pod(space, "web", node)
    await synced.tenant_client.delete(NAMESPACES, space)
    await eventually(
        lambda: synced.twin(PODS, space, "web"),
        until=lambda body: "deletionTimestamp" in body["metadata"],
    )
    super_space = await synced.super_client.get(NAMESPACES, synced.super_namespace(space))
    assert "deletionTimestamp" not in super_space["metadata"]
    await synced.remove_pod(space, "web")
    await gone(lambda: synced.tenant_client.get(NAMESPACES, space))
    await gone(lambda: synced.super_client.get(NAMESPACES, synced.super_namespace(space)))


async def test_a_very_long_name_is_mapped_and_carried(synced: SyncerWorld):
    space = f"{fresh_name('long')}-{'x' * 50}"[:63]
    await synced.namespace(space)
    super_space = synced.super_namespace(space)
    assert len(super_space) <= 63
    assert super_space != f"{synced.tenant.root}-{space}"
    await synced.tenant_client.create(PODS, pod("web"), namespace=space)
    twin = await eventually(lambda: synced.twin(PODS, space, "web"))
    assert twin["metadata"]["annotations"][wellknown.NAMESPACE] == space


async def test_a_recreated_namespace_waits_until_the_old_one_is_gone(world: SyncerWorld):
    """REL-08: with an Event that says so."""
    async with world.syncer():
        space = await world.namespace()
        super_space = world.super_namespace(space)
        # Something of the super cluster's own holds the old one.
        await world.super_client.create(
            CONFIG_MAPS,
            {"metadata": {"name": "held", "finalizers": ["test/hold"]}},
            namespace=super_space,
        )
        old = await world.super_client.get(NAMESPACES, super_space)
        await world.tenant_client.delete(NAMESPACES, space)
        await gone(lambda: world.tenant_client.get(NAMESPACES, space))
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": space}}
        new = await world.tenant_client.create(NAMESPACES, body)
        found = await eventually(
            lambda: world.tenant_client.list(
                EVENTS, namespace="default", field_selector=f"involvedObject.name={space}"
            ),
            until=lambda events: events["items"],
        )
        assert found["items"][0]["reason"] == "WaitingForDeletion"
        await world.tenant_client.create(PODS, pod("web"), namespace=space)
        still = await world.super_client.get(NAMESPACES, super_space)
        assert still["metadata"]["uid"] == old["metadata"]["uid"]
        await world.super_client.patch(
            CONFIG_MAPS, "held", {"metadata": {"finalizers": None}}, namespace=super_space
        )
        twin = await eventually(
            lambda: world.super_client.get(NAMESPACES, super_space),
            until=lambda live: (
                live["metadata"]["annotations"][wellknown.UID] == new["metadata"]["uid"]
            ),
            within=20,
        )
        assert twin["metadata"]["labels"][wellknown.NAMESPACE] == space
        await eventually(lambda: world.twin(PODS, space, "web"), within=20)


async def test_a_foreign_namespace_is_never_touched(synced: SyncerWorld):
    space = fresh_name("n")
    super_space = synced.super_namespace(space)
    made = await synced.super_client.create(
        NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": super_space}}
    )
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": space}}
    await synced.tenant_client.create(NAMESPACES, body)
    found = await eventually(
        lambda: synced.tenant_client.list(
            EVENTS, namespace="default", field_selector=f"involvedObject.name={space}"
        ),
        until=lambda events: events["items"],
    )
    assert found["items"][0]["reason"] == "NameTaken"
    assert super_space not in found["items"][0]["message"]
    await synced.tenant_client.create(PODS, pod("web"), namespace=space)
    await synced.tenant_client.delete(NAMESPACES, space)
    await gone(lambda: synced.tenant_client.get(NAMESPACES, space))
    await synced.idle()
    still = await synced.super_client.get(NAMESPACES, super_space)
    assert still["metadata"]["uid"] == made["metadata"]["uid"]
    assert wellknown.VC_UID not in still["metadata"].get("labels", {})
    assert not await synced.has_twin(PODS, space, "web")


async def test_labels_of_a_super_namespace_are_put_back(synced: SyncerWorld):
    space = await synced.namespace()
    super_space = synced.super_namespace(space)
    label = "pod-security.kubernetes.io/enforce"
    await synced.super_client.patch(
        NAMESPACES, super_space, {"metadata": {"labels": {label: "privileged"}}}
    )
    await eventually(
        lambda: synced.super_client.get(NAMESPACES, super_space),
        until=lambda live: live["metadata"]["labels"][label] == "baseline",
    )


async def test_labels_of_a_tenant_namespace_never_arrive(synced: SyncerWorld):
    space = fresh_name("n")
    labels = {"istio-injection": "enabled", "pod-security.kubernetes.io/enforce": "privileged"}
    body = {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": space, "labels": {**labels, "team": "a"}},
    }
    await synced.tenant_client.create(NAMESPACES, body)
    await synced.settled_namespace(space)
    live = await synced.super_client.get(NAMESPACES, synced.super_namespace(space))
    shown = set(live["metadata"]["labels"])
    assert shown == {
        wellknown.CONTROLLED,
        wellknown.CLUSTER,
        wellknown.NAMESPACE,
        wellknown.VC_NAME,
        wellknown.VC_NAMESPACE,
        wellknown.VC_UID,
        "kubernetes.io/metadata.name",
        "pod-security.kubernetes.io/enforce",
    }
    assert live["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "baseline"
    assert names.WORKLOAD_ACCOUNT


async def test_the_syncer_binds_itself_to_the_secrets_of_a_namespace(synced: SyncerWorld):
    """SEC-70: it has no right to them before."""
    name = await synced.namespace()
    super_space = synced.super_namespace(name)
    found = await eventually(
        lambda: synced.super_client.get(ROLE_BINDINGS, wellknown.SYNCER, namespace=super_space)
    )
    assert found["roleRef"]["name"] == wellknown.SYNCER_NAMESPACE_ROLE
    assert [each["name"] for each in found["subjects"]] == [SYNCER]
    secrets = synced.running[-1].home.secrets
    await eventually(lambda: secrets.is_readable(super_space))
    assert not secrets.is_readable(synced.tenant.root)
