"""Write-back of status to the tenant."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from kubeio import Object, errors
from kubeio.cache.store import parse_entry
from kubeio.controller.worker import NotReadyYet
from syncer.controllers import parked_writes, sync_up
from syncer.controllers.rejection_events import ADJUSTED
from syncer.controllers.reverted_edits import SYNC_REVERTED
from syncer.controllers.sync_up import ObservedTenantObject
from syncer.model.metadata import transparent_record
from syncer.rules import registry
from syncer.rules.transparent_metadata import MAX_VALUE_LENGTH
from syncer.safety.hot_loop_guard import (
    REPEATS_TO_PARK,
)
from syncer.safety.parked_differences import SYNC_PARKED
from tenancy import wellknown
from tenancy.policies import MetadataSpec, TenantPolicySpec
from tests.support.syncer.sessions import SessionWorld, is_counted


async def test_a_status_that_the_tenants_api_does_not_take_is_reported_once_and_left():
    world = SessionWorld()
    entry = world.tenant_has("Pod", "p", spec={}, status={})
    kind, key = registry.KINDS_BY_NAME["Pod"], world.key("Pod", "web", "p")
    body = {"metadata": {"uid": "p-uid"}, "status": {"newer": "x"}}
    for _ in range(REPEATS_TO_PARK + 3):
        await sync_up.write_tenant_object(
            kind,
            key,
            body,
            world.session,
            subresource="status",
            observed=ObservedTenantObject(entry, entry.decode()),
        )
    assert len(world.above.writes("Pod")) == REPEATS_TO_PARK
    assert world.told() == [SYNC_PARKED]
    assert "status.newer" in world.above.bodies[-1]["message"]
    assert "Pod web/p status.newer" in parked_writes.format_parked_message(world.link)


async def test_writes_upward_are_counted():
    world = SessionWorld()
    world.tenant_has("Pod", "p", spec={})
    key = world.key("Pod", "web", "p")
    await sync_up.write_tenant_object(
        registry.KINDS_BY_NAME["Pod"], key, {"status": {}}, world.session
    )
    assert is_counted(world, key, 1)


async def test_a_condition_that_was_written_meanwhile_is_not_overwritten():
    world = SessionWorld()
    ready = {"type": "Ready", "status": "True"}
    entry = world.tenant_has("Pod", "p", spec={}, status={})
    kind, key = registry.KINDS_BY_NAME["Pod"], world.key("Pod", "web", "p")
    checked = {"type": "example.com/Checked", "status": "True"}
    there = {**entry.decode(), "status": {"conditions": [checked]}}
    there["metadata"] = {**there["metadata"], "resourceVersion": "99"}
    world.above.has("Pod", "p", there)
    body = {"metadata": {"uid": "p-uid"}, "status": {"conditions": [ready]}}
    observed = ObservedTenantObject(entry, entry.decode())
    with pytest.raises(NotReadyYet):
        await sync_up.write_status(
            kind, key, body, lambda: body["status"], world.session, observed=observed
        )
    assert world.above.object("Pod", "p")["status"]["conditions"] == [checked]
    plain = {"metadata": {"uid": "p-uid"}, "status": {"phase": "Running"}}
    await sync_up.write_status(
        kind, key, plain, lambda: plain["status"], world.session, observed=observed
    )
    found = world.above.object("Pod", "p")["status"]
    assert found == {"conditions": [checked], "phase": "Running"}


OPEN = TenantPolicySpec(metadata=MetadataSpec(transparent_prefixes=("k8s.net.status",)))
KEY = "k8s.net.status/address"
SERVICE = registry.KINDS_BY_NAME["Service"]


async def patch_of(world: SessionWorld, **annotations: str) -> Object | None:
    """Return the patch of a Service whose copy has these annotations."""
    entry = world.tenant_has("Service", "x", spec={})
    live = world.super_has("Service", "x", metadata={"annotations": annotations})
    return await sync_up.build_metadata_up(
        SERVICE, entry, entry.decode(), live.decode(), world.session
    )


async def test_an_object_without_such_keys_costs_nothing():
    world = SessionWorld(policy=OPEN)
    assert await patch_of(world, **{"other.example/x": "1"}) is None
    assert world.above.writes() == []


async def test_names_of_the_super_cluster_are_the_tenants_in_a_value():
    world = SessionWorld(policy=OPEN)
    below = world.session.view.get_super_namespace("web")
    value = f"{below}/x of {world.session.tenant.root} with x-below"
    body: Any = await patch_of(world, **{KEY: value})
    shown = body["metadata"]["annotations"][KEY]
    assert "web/x" in shown
    assert world.session.tenant.root not in shown
    assert "x-uid" in shown
    assert body["metadata"]["resourceVersion"] == "50"


async def test_a_namespace_of_another_tenant_in_a_value_is_hidden():
    world = SessionWorld(policy=OPEN)
    other = "default-abcdef-vc-2-web"
    world.below.has("Namespace", other, {})
    metadata = {"name": other, "uid": "o", "resourceVersion": "1"}
    store = world.super_cluster.stores["Namespace"]
    store.put(parse_entry(orjson.dumps({"metadata": metadata})), live=True)
    body: Any = await patch_of(world, **{KEY: f"10.0.0.1 {other}"})
    assert other not in body["metadata"]["annotations"][KEY]


async def test_a_key_without_room_is_reported_and_the_others_are_synced():
    world = SessionWorld(policy=OPEN)
    world.ready()
    body: Any = await patch_of(world, **{KEY: "1", f"{KEY}-long": "v" * (MAX_VALUE_LENGTH + 1)})
    assert body["metadata"]["annotations"][KEY] == "1"
    assert f"{KEY}-long" not in body["metadata"]["annotations"]
    assert world.told() == [ADJUSTED]


async def test_a_tenant_that_refuses_the_keys_gets_the_fields_of_the_spec():
    world = SessionWorld(policy=OPEN)
    entry = world.tenant_has("Service", "x", spec={})
    world.above.has("Service", "x", entry.decode())
    seen = ObservedTenantObject(entry, entry.decode())
    metadata = {"metadata": {"uid": "x-uid", "annotations": {KEY: "1"}}}
    spec = {"metadata": {"uid": "x-uid"}, "spec": {"ports": []}}
    key = world.key("Service", "web", "x")
    real, refused = world.above.patch, []

    async def patch(resource: Any, name: str, body: Any, **more: Any) -> Any:
        if "annotations" in body["metadata"]:
            refused.append(body)
            raise errors.Invalid("no such key here")
        return await real(resource, name, body, **more)

    world.above.patch = patch  # type: ignore[method-assign]
    assert await sync_up.write_fields_up(SERVICE, key, spec, metadata, world.session, observed=seen)
    assert len(refused) == 1
    assert world.above.object("Service", "x")["spec"] == {"ports": []}
    assert not await sync_up.write_fields_up(
        SERVICE, key, None, metadata, world.session, observed=seen
    )


@pytest.mark.parametrize("kind", ["Service", "Ingress", "PersistentVolumeClaim"])
async def test_without_a_super_object_the_keys_are_removed(kind):
    world = SessionWorld(policy=OPEN)
    first: Any = await patch_of(world, **{KEY: "1"})
    entry = world.tenant_has(
        "Service", "x", metadata={"annotations": first["metadata"]["annotations"]}, spec={}
    )
    body: Any = await sync_up.build_metadata_up(
        registry.KINDS_BY_NAME[kind], entry, entry.decode(), {}, world.session
    )
    removed = {KEY: None, wellknown.TRANSPARENT_KEYS: None}
    assert body["metadata"]["annotations"] == removed


@pytest.mark.parametrize("value", [None, "2", "1"])
async def test_a_key_of_the_super_cluster_that_the_tenant_removed_comes_back_with_an_event(
    value: str | None,
):
    world = SessionWorld(policy=OPEN)
    record = transparent_record.encode_record(
        {"annotations": {KEY: transparent_record.compute_digest("1")}}
    )
    own = {KEY: value} if value is not None else {}
    metadata = {"annotations": {**own, wellknown.TRANSPARENT_KEYS: record}}
    entry = world.tenant_has("Service", "x", spec={}, metadata=metadata)
    world.above.has("Service", "x", entry.decode())
    live = world.super_has("Service", "x", metadata={"annotations": {KEY: "1"}})
    body = await sync_up.build_metadata_up(
        SERVICE, entry, entry.decode(), live.decode(), world.session
    )
    seen = ObservedTenantObject(entry, entry.decode())
    key = world.key("Service", "web", "x")
    await sync_up.write_fields_up(SERVICE, key, None, body, world.session, observed=seen)
    assert world.told() == ([SYNC_REVERTED] if value is None else [])
    if value is None:
        assert f"metadata.annotations.{KEY}" in world.above.bodies[-1]["message"]
