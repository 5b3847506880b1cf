"""Counts of single objects, and pods that come and go in clusters in memory."""

import asyncio
import json

import orjson
import pytest

from tenancy.resources import NODES, PODS
from tests.support.load_shapes import BARE
from tests.support.memapi import heartbeats, storms, verbs
from tests.support.memapi.api import ApiRequest, MemoryApi
from tests.support.memapi.cluster import MemoryCluster
from tests.support.memapi.clusters import NODE_NAMES, super_cluster, tenant
from tests.support.memapi.kubelet import MemoryKubelet
from tests.support.memapi.loads import PodLoads
from tests.support.memapi.tallies import WriteTally

SPACE = "default"


@pytest.fixture
def below() -> MemoryCluster:
    return super_cluster()


@pytest.fixture
def above() -> MemoryCluster:
    return tenant(0, BARE)


def ask(cluster: MemoryCluster, method: str, path: str, body: object = None) -> int:
    answer = MemoryApi(cluster).answer(
        ApiRequest(
            method=method,
            target=path,
            body=orjson.dumps(body) if body else b"",
            content="application/merge-patch+json",
        )
    )
    assert isinstance(answer, tuple)
    return answer[0]


def pod(name: str) -> object:
    return json.loads(BARE.pod(name))


async def test_writes_of_the_span_are_reported_by_object_and_refused_ones_are_not(below, above):
    tally = WriteTally(below, [above])
    assert ask(below, "POST", PODS.build_path(SPACE), pod("early")) == 201
    tally.begin()
    assert ask(below, "POST", PODS.build_path(SPACE), pod("x")) == 201
    assert ask(below, "POST", PODS.build_path(SPACE), pod("x")) == 409
    assert ask(above, "POST", PODS.build_path(SPACE), pod("x")) == 201
    status = {"status": {"message": "well"}}
    for _ in range(2):
        assert ask(above, "PATCH", f"{PODS.build_path(SPACE, 'x')}/status", status) == 200
    assert ask(above, "GET", PODS.build_path(SPACE, "x")) == 200
    assert ask(below, "DELETE", PODS.build_path(SPACE, "early")) == 200
    found = tally.end()
    assert found["super"] == {"create pods x": 1, "delete pods early": 1}
    assert found["tenant"] == {"create pods x": 1, "patch pods/status x": 2}
    assert ask(below, "POST", PODS.build_path(SPACE), pod("late")) == 201
    tally.begin()
    assert tally.end()["super"] == {}


async def test_a_pods_status_changes_once_on_a_node_and_its_binding_is_none(below, above):
    tally = WriteTally(below, [above])
    MemoryKubelet(below, NODE_NAMES, step=0, staged=False, events=False)
    tally.begin()
    verbs.create(below, below.of(PODS), SPACE, pod("x"), "test")
    for _ in range(6):
        await asyncio.sleep(0)
    assert tally.end()["changes"] == {"x": 1}


async def test_pods_of_a_churn_go_again_also_those_that_never_ran(above):
    loads = PodLoads([above], BARE)
    churning = asyncio.ensure_future(loads.churn("churn-", [0], 200.0, 0.02))
    await asyncio.sleep(0.1)
    loads.calm("churn-")
    found = await churning
    assert len(found["names"]) > 3
    assert set(found["gone_at"]) == set(found["names"])
    assert not found["ready_at"]  # no node is here
    assert all(found["gone_at"][name] >= found["sent_at"][name] for name in found["names"])
    assert not above.of(PODS).all()


async def test_each_node_beats_in_its_turn(below):
    nodes = below.of(NODES)
    seen: list[str] = []
    nodes.listeners.append(lambda _, body: seen.append(body["metadata"]["name"]))
    count = await heartbeats.beat(below, 0.02, 0.5)
    assert count == len(seen) > len(NODE_NAMES)
    assert seen[: len(NODE_NAMES)] == list(NODE_NAMES)
    conditions = nodes.all()[0].decode()["status"]["conditions"]
    assert all(each["lastHeartbeatTime"] for each in conditions)


async def test_a_storm_reports_when_it_was(below):
    MemoryKubelet(below, NODE_NAMES, step=0, staged=False, events=False)
    verbs.create(below, below.of(PODS), SPACE, pod("x"), "test")
    for _ in range(6):
        await asyncio.sleep(0)
    found = await storms.blow(below, "x", 100.0, 0.1)
    assert found["changes"] > 1
    assert found["ended_at"] - found["begun_at"] >= 0.1


def test_a_token_lives_no_longer_than_the_server_lets_it(above):
    account = {"spec": {"expirationSeconds": 3607}}
    above.token_seconds = 60.0
    answer = MemoryApi(above).answer(
        ApiRequest(
            method="POST",
            target="/api/v1/namespaces/default/serviceaccounts/default/token",
            body=orjson.dumps(account),
        )
    )
    assert isinstance(answer, tuple)
    told = orjson.loads(answer[1])["status"]["expirationTimestamp"]
    assert told <= above.now(60.0)
