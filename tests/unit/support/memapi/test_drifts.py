"""Edits of objects by hand, and their repair."""

import json

from tenancy.resources import CONFIG_MAPS, PODS
from tests.support.load_shapes import BARE, SHAPES
from tests.support.memapi import drifts, verbs
from tests.support.memapi.cluster import MemoryCluster
from tests.support.memapi.clusters import super_cluster, tenant
from tests.support.memapi.watches import Object

SPACE, COUNT, PATIENCE = "default", 2, 30.0
KINDS = {
    *("changed pods", "lost statuses", "deleted pods"),
    *("changed configmaps", "deleted configmaps"),
}


def stage() -> tuple[MemoryCluster, MemoryCluster]:
    """Return a super cluster and a tenant, with pods of the same names and ConfigMaps below."""
    below, above = super_cluster(), tenant(0, SHAPES["bare"])
    for cluster in (below, above):
        for number in range(COUNT):
            body = json.loads(BARE.pod(f"drift-{number}"))
            verbs.create(cluster, cluster.of(PODS), SPACE, body, "test")
            pods = cluster.of(PODS)
            there = pods.get(SPACE, f"drift-{number}")
            assert there is not None
            pods.put({**there.decode(), "status": {"phase": "Running"}})
    for number in range(COUNT):
        body = {"metadata": {"name": f"map-{number}"}, "data": {"a": "b"}}
        verbs.create(below, below.of(CONFIG_MAPS), SPACE, body, "test")
    return below, above


async def made(
    below: MemoryCluster, above: MemoryCluster, patience: float
) -> dict[str, list[float]]:
    found = await drifts.make(
        below, [above], prefix="drift-", count=COUNT, per_second=1000.0, patience=patience
    )
    return {what: late for what, late in found.items() if what in KINDS}


async def test_what_no_one_repairs_has_been_waited_for_in_vain():
    found = await made(*stage(), 0.05)
    assert found.keys() == KINDS
    assert all(each >= 50.0 for late in found.values() for each in late)


async def test_what_is_put_back_or_reported_is_repaired():
    below, above = stage()
    pods, maps = above.of(PODS), below.of(CONFIG_MAPS)

    def status_again(kind: str, body: Object) -> None:
        if kind != "DELETED" and body["status"]["phase"] == "Pending":
            pods.put({**body, "status": {"phase": "Running"}})

    def map_again(kind: str, body: Object) -> None:
        if kind == "DELETED" or not body["data"]:
            maps.put({**body, "data": {"a": "b"}})

    def tell(kind: str, body: Object) -> None:
        name = body["metadata"]["name"]
        there = pods.get(SPACE, name)
        if kind == "DELETED" and there is not None:
            pods.put({**there.decode(), "status": {"phase": "Failed"}})

    def pod_again(kind: str, body: Object) -> None:
        if kind != "DELETED" and body["spec"]["containers"][0]["image"] != image:
            body["spec"]["containers"][0]["image"] = image
            below.of(PODS).put(body)

    image = json.loads(BARE.pod("drift-0"))["spec"]["containers"][0]["image"]
    below.of(PODS).listeners.append(pod_again)
    pods.listeners.append(status_again)
    maps.listeners.append(map_again)
    below.of(PODS).listeners.append(tell)
    found = await made(below, above, PATIENCE)
    assert found.keys() == KINDS
    assert max(each for late in found.values() for each in late) < 1e3 * PATIENCE
