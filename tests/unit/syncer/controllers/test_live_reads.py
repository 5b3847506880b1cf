"""Large ConfigMaps below: read when they have to be written, and only then."""

from __future__ import annotations

from typing import Any

import pytest

from kubeio.cache.store import Entry
from kubeio.controller.worker import NotReadyYet
from syncer.controllers import sync_down
from syncer.rules import registry
from syncer.rules.configuration import cache_transforms, config_maps_secrets
from syncer.safety.hot_loop_guard import REPEATS_TO_PARK
from syncer.safety.parked_differences import SYNC_PARKED
from tenancy import wellknown
from tests.support.syncer.sessions import SessionWorld

KIND = registry.KINDS_BY_NAME["ConfigMap"]
LARGE = "v" * 10_000


def outlined(store: Any, entry: Entry) -> Entry:
    """Replace an entry of a cache by its outline."""
    store.discard(entry, live=True)
    kept = cache_transforms.reduce_entry(entry)
    store.put(kept, live=True)
    return kept


def tenant_map(world: SessionWorld, value: str = LARGE, **metadata: Any) -> dict[str, Any]:
    """Have a large ConfigMap `c` in the tenant, that a pod refers to."""
    fields = {"data": {"a": value}, "metadata": metadata}
    entry = world.tenant_has("ConfigMap", "c", **fields)
    outlined(world.session.stores["ConfigMap"], entry)
    volume = {"name": "v", "configMap": {"name": "c"}}
    spec = {"containers": [{"name": "main"}], "volumes": [volume]}
    world.tenant_has("Pod", "p", spec=spec)
    whole = entry.decode()
    world.above.has("ConfigMap", "c", whole)
    return whole


def twin(
    world: SessionWorld, whole: dict[str, Any], *, life: int = 0, **fields: Any
) -> dict[str, Any]:
    """Have its twin below, made for the `life`-th time."""
    built = config_maps_secrets.build_config_map(whole, world.session.view)
    metadata = {key: built["metadata"][key] for key in ("labels", "annotations")}
    metadata |= {"uid": f"below-{life}", "resourceVersion": str(1000 + 10 * life)}
    metadata["annotations"].pop(wellknown.STORE_REVISION, None)
    body = {"data": whole["data"], **fields}
    entry = world.super_has("ConfigMap", "c", metadata=metadata, **body)
    outlined(world.super_cluster.stores["ConfigMap"], entry)
    world.below.has("ConfigMap", "c", entry.decode())
    return entry.decode()


async def reconcile(world: SessionWorld) -> None:
    """Run the key."""
    await sync_down.reconcile(KIND, world.key("ConfigMap", "web", "c"), world.session)


async def test_a_twin_that_is_fixed_again_and_again_with_other_values_is_left_in_the_end():
    """Something below changes each twin and makes it immutable."""
    world = SessionWorld()
    world.ready()
    whole = tenant_map(world, "small")
    for life in range(REPEATS_TO_PARK + 3):
        twin(world, whole, life=life, data={"a": "theirs"}, immutable=True)
        await reconcile(world)
    assert world.below.writes() == [("delete", "ConfigMap", "c")] * REPEATS_TO_PARK
    assert world.told() == [SYNC_PARKED]


async def test_it_is_read_once_to_be_made():
    world = SessionWorld()
    world.ready()
    tenant_map(world)
    await reconcile(world)
    assert [asked for asked in world.above.asked if asked[1] == "ConfigMap"] == [
        ("get", "ConfigMap", "c")
    ]
    assert world.below.asked == [("create", "ConfigMap", "c")]
    (body,) = world.below.bodies
    assert body["data"] == {"a": LARGE}
    assert cache_transforms.CONTENT_DIGEST_FIELD not in body


async def test_no_one_is_asked_while_it_is_as_it_should_be():
    world = SessionWorld()
    world.ready()
    twin(world, tenant_map(world))
    await reconcile(world)
    assert (world.above.asked, world.below.asked) == ([], [])


async def test_a_change_is_written_with_all_values_and_what_others_noted_in_the_super_cluster():
    world = SessionWorld()
    world.ready()
    live = twin(world, tenant_map(world))
    live["metadata"]["annotations"]["operator.example/note"] = "n" * 5000
    world.below.has("ConfigMap", "c", live)
    tenant_map(world, LARGE.upper(), resourceVersion="51")
    await reconcile(world)
    assert world.above.asked == [("get", "ConfigMap", "c")]
    assert world.below.asked == [("get", "ConfigMap", "c"), ("replace", "ConfigMap", "c")]
    (body,) = world.below.bodies
    assert body["data"] == {"a": LARGE.upper()}
    assert body["metadata"]["annotations"]["operator.example/note"] == "n" * 5000
    assert cache_transforms.CONTENT_DIGEST_FIELD not in body


@pytest.mark.parametrize(
    "metadata",
    [{"uid": "another"}, {"deletionTimestamp": "2026-01-01T00:00:00Z"}, None],
    ids=["made anew", "being deleted", "gone"],
)
async def test_a_cache_that_is_behind_writes_nothing(metadata: dict[str, Any] | None):
    world = SessionWorld()
    world.ready()
    whole = tenant_map(world)
    if metadata is None:
        world.above.lacks("ConfigMap", "c")
    else:
        whole["metadata"] |= metadata
        world.above.has("ConfigMap", "c", whole)
    with pytest.raises(NotReadyYet):
        await reconcile(world)
    assert world.below.writes() == []


async def test_a_forged_outline_gets_the_content_in_the_super_cluster():
    world = SessionWorld()
    world.ready()
    whole = tenant_map(world, "small")
    forged = world.tenant_has(
        "ConfigMap", "c", data={"a": "small"}, **{cache_transforms.CONTENT_DIGEST_FIELD: "x"}
    )
    world.above.has("ConfigMap", "c", {**whole, **forged.decode()})
    await reconcile(world)
    (body,) = world.below.bodies
    assert body["data"] == {"a": "small"}
    assert cache_transforms.CONTENT_DIGEST_FIELD not in body
