"""Checks of an etcd: the requests by a stand-in for its gateway, and the conclusion."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, Self

import orjson
import pytest

from kubeio import errors
from kubeio.config.endpoint import Endpoint
from kubeio.controller.worker import Done
from tests.support.vcmanager.factories import TENANT, RecordingClient, fake_means
from vcmanager.phases.etcd import etcd_api
from vcmanager.phases.etcd.member_config import build_peer_url
from vcmanager.reconcilers import etcd_store
from vcmanager.runtime import keys
from vcmanager.runtime.etcd_stores import DesiredStore

KEY = keys.build_store_key("default", TENANT.uid)
OWNER = keys.build_virtual_cluster_key("default", "vc-1")
MIB = 2**20


class Gateway:
    """Stands where etcd's gateways are, as members with a list that all share."""

    def __init__(self, *members: int, learner: int | None = None, leader: int = 0) -> None:
        self.members = [
            {
                "ID": str(100 + each),
                "name": f"etcd-{each}",
                "peerURLs": [build_peer_url(each)],
                **({"isLearner": True} if each == learner else {}),
            }
            for each in members
        ]
        self.down: set[int] = set()
        self.refused: set[str] = set()
        self.used = 10 * MIB
        self.alarms: list[dict[str, str]] = []
        self.leader = str(100 + leader)
        self.calls: list[tuple[int, str, dict[str, Any]]] = []

    def client(self, endpoint: Endpoint, _options: Any) -> GatewayClient:
        return GatewayClient(self, int(endpoint.name.rpartition("-")[2]))

    def answer(self, ordinal: int, path: str, body: dict[str, Any]) -> dict[str, Any]:
        if ordinal in self.down:
            raise errors.Unavailable("away")
        if path == "maintenance/status":
            return {
                "header": {"member_id": str(100 + ordinal)},
                "leader": self.leader,
                "dbSize": str(50 * MIB),
                "dbSizeInUse": str(self.used),
                "dbSizeQuota": str(100 * MIB),
                "isLearner": self.members[ordinal].get("isLearner", False),
            }
        if path == "cluster/member/list":
            assert body == {"linearizable": True}
            if len(self.down) * 2 > len(self.members):
                raise errors.Unavailable("no leader")
            return {"members": self.members}
        if path == "maintenance/alarm" and body["action"] == "GET":
            return {"alarms": self.alarms} if self.alarms else {}
        self.calls.append((ordinal, path, body))
        if path in self.refused:
            raise errors.BadRequest("refused")
        return {}


class GatewayClient:
    """Stands where the client of one member is."""

    def __init__(self, gateway: Gateway, ordinal: int) -> None:
        self._gateway, self._ordinal = gateway, ordinal

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close nothing."""

    async def raw(self, method: str, path: str, *, body: Any, deadline: float | None) -> bytes:
        assert method == "POST"
        assert deadline is None or "defragment" in path
        found = self._gateway.answer(self._ordinal, path.removeprefix("/v3/"), body)
        return orjson.dumps(found)


def desired(replicas: int, pods: int, **fields: Any) -> DesiredStore:
    return DesiredStore(
        owner=OWNER,
        endpoints={
            number: Endpoint(server="https://10.0.0.1:2379", name=f"etcd-{number}")
            for number in range(pods)
        },
        peer_urls=tuple(map(build_peer_url, range(3))),
        replicas=replicas,
        **fields,
    )


@pytest.fixture
def check(monkeypatch):
    """Return a function that checks once, and returns report, delay and the queued keys."""
    super_client = RecordingClient()
    super_client.fence = None
    queued: list[Any] = []
    means = fake_means(super_client, wake=queued.append)

    async def run(gateway: Gateway, wanted: DesiredStore | None) -> SimpleNamespace:
        monkeypatch.setattr(etcd_api, "Client", gateway.client)
        if wanted is not None:
            means.stores.set_desired(TENANT.uid, wanted)
        queued.clear()
        result = await etcd_store.reconcile_store(means, KEY)
        assert super_client.calls == []
        return SimpleNamespace(
            result=result,
            delay=getattr(result, "after", None),
            report=means.stores.get_report(TENANT.uid),
            queued=list(queued),
        )

    run.means = means  # type: ignore[attr-defined]
    return run


async def test_a_settled_etcd_is_checked_seldom_and_enqueues_its_owner_once(check):
    gateway = Gateway(0, 1, 2)
    first = await check(gateway, desired(3, 3))
    assert (first.delay, first.queued) == (etcd_store.CHECK_SECONDS, [OWNER])
    assert (first.report.reason, first.report.is_ready) == ("AsDesired", True)
    assert first.report.answered == {0, 1, 2}
    assert (first.report.is_filling, first.report.used_ratio) == (False, 0.1)
    gateway.used = 12 * MIB
    assert (await check(gateway, desired(3, 3))).queued == []
    gateway.used = 80 * MIB
    filling = await check(gateway, desired(3, 3))
    assert (filling.report.filling_reason, filling.queued) == ("AboveThreshold", [OWNER])
    gateway.used = 72 * MIB
    assert (await check(gateway, desired(3, 3))).report.is_filling
    assert gateway.calls == []


async def test_a_deleted_tenant_is_not_checked(check):
    found = await check(Gateway(0), None)
    assert isinstance(found.result, Done)
    check.means.stores.set_desired(TENANT.uid, desired(1, 1))
    check.means.stores.remove(TENANT.uid)
    assert isinstance((await check(Gateway(0), None)).result, Done)


async def test_a_member_that_does_not_answer_is_named(check):
    gateway = Gateway(0, 1, 2)
    gateway.down = {1}
    found = await check(gateway, desired(3, 3))
    assert (found.report.reason, found.report.is_ready) == ("MemberUnhealthy", False)
    assert "etcd-1" in found.report.message
    assert found.report.answered == {0, 2}


@pytest.mark.parametrize(("down", "is_ready"), [({0, 1}, False), ({0, 1, 2}, None)])
async def test_without_a_quorum_nothing_is_known_and_nothing_is_done(check, down, is_ready):
    gateway = Gateway(0, 1, 2)
    gateway.down = down
    found = await check(gateway, desired(1, 3))
    assert (found.report.reason, found.report.is_ready) == ("EtcdUnreachable", is_ready)
    assert found.report.members == ()
    assert gateway.calls == []
    assert found.delay == 60


@pytest.mark.parametrize(
    ("gateway", "wanted", "expected"),
    [
        (
            Gateway(0),
            desired(3, 1),
            (0, "cluster/member/add", {"peerURLs": [build_peer_url(1)], "isLearner": True}),
        ),
        (
            Gateway(0, 1, learner=1),
            desired(3, 2),
            (0, "cluster/member/promote", {"ID": "101"}),
        ),
        (
            Gateway(0, 1, 2, leader=1),
            desired(1, 3),
            (1, "cluster/member/remove", {"ID": "102"}),
        ),
        (
            Gateway(0, 1, 2, leader=2),
            desired(1, 3),
            (2, "maintenance/transfer-leadership", {"targetID": "100"}),
        ),
    ],
)
async def test_a_step_is_sent_to_the_leader(check, gateway, wanted, expected):
    found = await check(gateway, wanted)
    assert gateway.calls == [expected]
    assert found.delay == 1
    assert found.report.is_ready is False
    gateway.refused.add(expected[1])
    assert (await check(gateway, wanted)).delay == 5


async def test_space_is_returned_by_the_member_itself_and_the_alarm_names_it(check):
    gateway = Gateway(0, 1, 2, leader=2)
    gateway.alarms = [{"memberID": "101", "alarm": "NOSPACE"}, {"memberID": "1", "alarm": "OTHER"}]
    found = await check(gateway, desired(3, 3))
    body = {"action": "DEACTIVATE", "memberID": "101", "alarm": "NOSPACE"}
    assert gateway.calls == [(2, "maintenance/alarm", body)]
    assert (found.report.is_filling, found.report.filling_reason) == (True, "NoSpace")


async def test_the_end_of_an_old_volume_is_noticed_although_claims_are_not_watched(check):
    wanted = desired(3, 1, occupied=frozenset({1}))
    for _ in range(3):
        found = await check(Gateway(0), wanted)
        assert (found.queued, found.delay) == ([OWNER], 5)


async def test_a_member_that_answers_did_not_lose_its_data_so_its_pod_is_read_again(check):
    for _ in range(2):
        found = await check(Gateway(0, 1, 2), desired(3, 3, lost=frozenset({1})))
        assert (found.queued, found.report.reason) == ([OWNER], "AsDesired")
    assert (await check(Gateway(0, 1, 2), desired(3, 3))).queued == []
