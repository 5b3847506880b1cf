"""The clusters in memory: what a syncer's cost would be wrong without."""

import asyncio
import json
from datetime import datetime

import orjson
import pytest

from tenancy.resources import CONFIG_MAPS, EVENTS, PODS
from tests.support.load_shapes import BARE
from tests.support.memapi import patches, selection, verbs
from tests.support.memapi.api import ApiRequest, MemoryApi
from tests.support.memapi.cluster import MemoryCluster
from tests.support.memapi.clusters import NODE_NAMES, fresh, super_cluster
from tests.support.memapi.kubelet import MemoryKubelet
from tests.support.memapi.lists import RequestedWatch
from tests.support.memapi.watches import CollectionWatch, Selection

SPACE = "default"


@pytest.fixture
def cluster() -> MemoryCluster:
    return super_cluster()


def pod(cluster: MemoryCluster, name: str) -> None:
    verbs.create(cluster, cluster.of(PODS), SPACE, json.loads(BARE.pod(name)), "test")


def config_map(cluster: MemoryCluster, name: str, **labels: str) -> None:
    body = {"metadata": {"name": name, "labels": labels}}
    verbs.create(cluster, cluster.of(CONFIG_MAPS), SPACE, body, "test")


def ask(cluster: MemoryCluster, method: str, path: str, body: object = None, **more: str):
    request = ApiRequest(
        method=method, target=path, body=orjson.dumps(body) if body else b"", **more
    )
    answer = MemoryApi(cluster).answer(request)
    if isinstance(answer, RequestedWatch):
        return answer
    return answer[0], orjson.loads(answer[1])


async def told(send: list[bytes]) -> list[tuple[str, str]]:
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    lines = b"".join(send).splitlines()
    events = [orjson.loads(line) for line in lines]
    return [(event["type"], event["object"]["metadata"].get("name", "")) for event in events]


@pytest.mark.parametrize(
    ("selector", "labels", "expected"),
    [
        ("a=1,b", {"a": "1", "b": ""}, True),
        ("a=1,b", {"a": "1"}, False),
        ("!a", {"b": ""}, True),
        ("a!=1", {}, True),
        ("a in (1, 2),b notin (3)", {"a": "2", "b": "4"}, True),
        ("a in (1, 2),b notin (3)", {"a": "2", "b": "3"}, False),
    ],
)
def test_labels_are_selected_as_clients_ask(
    selector: str, labels: dict[str, str], expected: bool
) -> None:
    test = selection.of_labels(selector)
    assert test is not None
    assert test(labels) is expected


def test_fields_are_selected_by_their_path() -> None:
    test = selection.of_fields("metadata.name=x,type!=y")
    assert test is not None
    assert test({"metadata": {"name": "x"}, "type": "z"})
    assert not test({"metadata": {"name": "x"}, "type": "y"})


def test_merge_takes_away_and_strategic_merges_by_key() -> None:
    there = {"a": 1, "conditions": [{"type": "A", "status": "False"}, {"type": "B"}]}
    patch = {"a": None, "conditions": [{"type": "A", "status": "True"}]}
    assert patches.merged(there, patch) == {"conditions": [{"type": "A", "status": "True"}]}
    assert patches.merged(there, patch, by_key=True) == {
        "conditions": [{"type": "A", "status": "True"}, {"type": "B"}]
    }


async def test_a_pod_lives_as_on_a_node(cluster: MemoryCluster) -> None:
    MemoryKubelet(cluster, NODE_NAMES, step=0, staged=False, events=True)
    seen: list[str] = []
    pods = cluster.of(PODS)
    pods.listeners.append(lambda kind, body: seen.append(f"{kind} {body['status']['phase']}"))
    events: list[str] = []
    cluster.of(EVENTS).listeners.append(lambda _, body: events.append(body["reason"]))
    pod(cluster, "x")
    for _ in range(4):
        await asyncio.sleep(0)
    path = PODS.build_path(SPACE, "x")
    status, marked = ask(cluster, "DELETE", path)
    assert status == 200
    assert marked["metadata"]["deletionGracePeriodSeconds"] == 30
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert ask(cluster, "GET", path)[0] == 404
    # Made, bound, Ready, marked, without grace, gone: each an event of its own.
    assert seen == [
        "ADDED Pending",
        "MODIFIED Pending",
        "MODIFIED Running",
        "MODIFIED Running",
        "MODIFIED Running",
        "DELETED Running",
    ]
    assert events == ["Scheduled"]


@pytest.mark.parametrize(
    ("first", "later", "asked", "kept"),
    [
        (40, 0, None, 40),
        (None, 0, None, 30),
        (40, 0, 40, 40),
        (40, 0, 41, 40),
        (40, 3, 5, 5),
        (40, 7, 5, 1),
        (40, 0, -1, 1),
        (-7, 0, 5, 1),
        (40, 0, 0, 0),
    ],
)
@pytest.mark.parametrize("phase", ["Running", "Succeeded"])
def test_a_pod_on_its_way_out_can_be_hurried_and_nothing_else(
    first, later, asked, kept, phase
) -> None:
    """As apiserver v0.36.4 has it, `BeforeDelete` in pkg/registry/rest/delete.go: what the pod's
    own grace is, and whether it has finished, counts when it is deleted first, and not again."""
    now = [1_000_000.0]
    cluster = fresh("it", "10.96.0.0/16", accounts=False, clock=lambda: now[0])
    pod(cluster, "x")
    pods, path = cluster.of(PODS), PODS.build_path(SPACE, "x")
    verbs.bind(pods, verbs.found(pods, SPACE, "x"), NODE_NAMES[0])

    def delete(grace):
        return ask(cluster, "DELETE", path, {} if grace is None else {"gracePeriodSeconds": grace})

    delete(first)
    ask(cluster, "PATCH", path + "/status", {"status": {"phase": phase}}, content=patches.MERGE)
    before = verbs.found(pods, SPACE, "x")
    now[0] += later
    _, answer = delete(asked)
    assert answer["metadata"]["deletionGracePeriodSeconds"] == kept
    is_there = pods.get(SPACE, "x") is not None
    assert is_there == (kept > 0)
    is_hurried = asked is not None and asked < (first or 30) and first != -7
    if not is_hurried:
        assert verbs.found(pods, SPACE, "x").revision == before.revision, "nothing was written"
    else:
        ends = datetime.fromisoformat(answer["metadata"]["deletionTimestamp"]).timestamp()
        assert ends == max(1_000_000 + max(asked, 0 if asked == 0 else 1), now[0])


def test_who_is_deleted_again_without_grace_loses_only_finalizers_of_a_policy(cluster) -> None:
    config_map(cluster, "x")
    path = CONFIG_MAPS.build_path(SPACE, "x")
    assert ask(cluster, "DELETE", path, {"propagationPolicy": "Foreground"})[0] == 200
    again = ask(cluster, "DELETE", path)[1]
    assert again["metadata"]["finalizers"] == ["foregroundDeletion"]
    assert ask(cluster, "DELETE", path, {"propagationPolicy": "Background"})[0] == 200
    assert ask(cluster, "GET", path)[0] == 404


def test_writes_prove_what_they_mean(cluster: MemoryCluster) -> None:
    config_map(cluster, "x")
    path = CONFIG_MAPS.build_path(SPACE, "x")
    _, live = ask(cluster, "GET", path)
    other = {"metadata": {"uid": "another"}, "data": {"a": "b"}}
    assert ask(cluster, "PATCH", path, other, content=patches.MERGE)[0] == 422
    assert ask(cluster, "DELETE", path, {"preconditions": {"uid": "another"}})[0] == 409
    stale = live | {"metadata": live["metadata"] | {"resourceVersion": "1"}}
    assert ask(cluster, "PUT", path, stale)[0] == 409
    assert (
        ask(cluster, "POST", CONFIG_MAPS.build_path(SPACE), {"metadata": {"name": "x"}})[0] == 409
    )


async def test_a_write_that_changes_nothing_makes_no_event(cluster: MemoryCluster) -> None:
    config_map(cluster, "x")
    path, seen = CONFIG_MAPS.build_path(SPACE, "x"), []
    cluster.of(CONFIG_MAPS).listeners.append(lambda kind, _: seen.append(kind))
    for _ in range(2):
        ask(cluster, "PATCH", path, {"data": {"a": "b"}}, content=patches.MERGE)
    assert seen == ["MODIFIED"]


async def test_a_selected_watch_loses_what_no_longer_matches(cluster: MemoryCluster) -> None:
    sent: list[bytes] = []
    chosen = Selection(labels=selection.of_labels("a"))
    cluster.of(CONFIG_MAPS).follow(CollectionWatch(chosen, sent.append, metadata_only=False))
    config_map(cluster, "x", a="1")
    config_map(cluster, "y")
    path = CONFIG_MAPS.build_path(SPACE, "x")
    ask(cluster, "PATCH", path, {"metadata": {"labels": {"a": None}}}, content=patches.MERGE)
    assert await told(sent) == [("ADDED", "x"), ("DELETED", "x")]


def test_a_watch_goes_on_where_it_stood(cluster: MemoryCluster) -> None:
    config_map(cluster, "x")
    collection, stood = cluster.of(CONFIG_MAPS), cluster.revision
    config_map(cluster, "y")
    missed = collection.since(stood)
    assert missed is not None
    assert [change.new.name for change in missed] == ["y"]
    for number in range(5000):
        config_map(cluster, f"more-{number}")
    assert collection.since(stood) is None


def test_lists_come_in_pages(cluster: MemoryCluster) -> None:
    for number in range(5):
        config_map(cluster, f"x-{number}")
    found, token = [], ""
    while True:
        path = f"{CONFIG_MAPS.build_path()}?limit=2" + (f"&continue={token}" if token else "")
        _, page = ask(cluster, "GET", path)
        found += [item["metadata"]["name"] for item in page["items"]]
        token = page["metadata"].get("continue", "")
        if not token:
            break
    assert found == [f"x-{number}" for number in range(5)]
    assert cluster.requests["list configmaps"] == 3
