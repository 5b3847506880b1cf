"""vc-manager killed at each of its requests to etcd, before or after the effect of the request."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

import orjson
import pytest

from kubeio import errors
from kubeio.config.endpoint import Endpoint
from tests.support.vcmanager.factories import TENANT, RecordingClient, fake_means
from tests.unit.vcmanager.phases.etcd.test_membership import ModelEtcd
from vcmanager.phases.etcd import etcd_api
from vcmanager.phases.etcd.member_config import build_peer_url
from vcmanager.phases.etcd.membership import StoreStep, list_ordinals
from vcmanager.reconcilers import etcd_store
from vcmanager.runtime import keys
from vcmanager.runtime.context import ReconcileContext
from vcmanager.runtime.etcd_stores import DesiredStore

KEY = keys.build_store_key("default", TENANT.uid)
OWNER = keys.build_virtual_cluster_key("default", "vc-1")
_MOST_ROUNDS = 60


class KilledError(Exception):
    """The process ends here."""


class ModelGateway:
    """The JSON gateways of a model of etcd. One request may kill the manager."""

    def __init__(self, etcd: ModelEtcd, *, kill_at: int = -1, is_done: bool = False) -> None:
        self.etcd, self.kill_at, self.is_done = etcd, kill_at, is_done
        self.calls = 0

    def client(self, endpoint: Endpoint, _options: Any) -> ModelClient:
        return ModelClient(self, int(endpoint.name.rpartition("-")[2]))

    def call(self, ordinal: int, path: str, body: dict[str, Any]) -> dict[str, Any]:
        number = self.calls
        self.calls += 1
        if number == self.kill_at and not self.is_done:
            raise KilledError
        try:
            answer = self._answer(ordinal, path, body)
        finally:
            assert self.etcd.has_quorum(), (path, body)
            if number == self.kill_at:
                raise KilledError
        return answer

    def _answer(self, ordinal: int, path: str, body: dict[str, Any]) -> dict[str, Any]:
        etcd = self.etcd
        found = next((each for each in etcd.members.values() if each.ordinal == ordinal), None)
        if found is None or not etcd.answers(found):
            raise errors.Unavailable("away")
        by_id = etcd.members.get(str(body.get("ID") or body.get("targetID") or ""))
        match path:
            case "maintenance/status":
                leader = etcd.members_of(etcd.leader)
                return {
                    "header": {"member_id": found.id},
                    "leader": leader[0].id if leader else "0",
                    "isLearner": found.is_learner,
                }
            case "cluster/member/list":
                return {
                    "members": [
                        {
                            "ID": each.id,
                            "peerURLs": [each.peer_url],
                            "isLearner": each.is_learner,
                            **({"name": f"etcd-{each.ordinal}"} if each.is_started else {}),
                        }
                        for each in etcd.members.values()
                    ]
                }
            case "cluster/member/add":
                number = [build_peer_url(each) for each in range(3)].index(body["peerURLs"][0])
                etcd.carry_out(StoreStep(action="add", ordinal=number))
            case "cluster/member/promote":
                etcd.carry_out(StoreStep(action="promote", member=by_id))
            case "cluster/member/remove":
                etcd.carry_out(StoreStep(action="remove", member=by_id))
            case "maintenance/transfer-leadership":
                etcd.carry_out(StoreStep(action="transfer", member=by_id))
        etcd.elect()
        return {}


class ModelClient:
    """The client of one member."""

    def __init__(self, gateway: ModelGateway, ordinal: int) -> None:
        self._gateway, self._ordinal = gateway, ordinal

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close nothing."""

    async def raw(self, _method: str, path: str, *, body: Any, **_: Any) -> bytes:
        return orjson.dumps(self._gateway.call(self._ordinal, path.removeprefix("/v3/"), body))


def new_means() -> ReconcileContext:
    """Return the means of a new process, which remembers nothing."""
    super_client = RecordingClient()
    super_client.fence = None  # type: ignore[attr-defined]
    return fake_means(super_client)


def grow(etcd: ModelEtcd) -> None:
    etcd.replicas = 3


def shrink(etcd: ModelEtcd) -> None:
    etcd.replicas = 1
    etcd.leader = 2


def lose(ordinal: int) -> Callable[[ModelEtcd], None]:
    def change(etcd: ModelEtcd) -> None:
        etcd.data[ordinal] = None
        etcd.elect()

    return change


async def run(etcd: ModelEtcd, gateway: ModelGateway) -> bool:
    """Work until etcd is as desired. Return whether the manager was killed on the way."""
    means, was_killed = new_means(), False
    for _ in range(_MOST_ROUNDS):
        etcd.run_pods()
        given = etcd.desired()
        desired = DesiredStore(
            owner=OWNER,
            endpoints={
                each: Endpoint(server="https://10.0.0.1:2379", name=f"etcd-{each}")
                for each in range(etcd.pods)
            },
            peer_urls=tuple(map(build_peer_url, range(3))),
            replicas=given.replicas,
            lost=given.lost,
            occupied=given.occupied,
        )
        means.stores.set_desired(TENANT.uid, desired)
        try:
            await etcd_store.reconcile_store(means, KEY)
        except KilledError:
            means, was_killed = new_means(), True
            continue
        etcd.reconcile_pods(etcd.observe())
        is_whole = list_ordinals(etcd.voters()) == set(range(etcd.replicas))
        if is_whole and len(etcd.members) == etcd.replicas == etcd.pods and not etcd.lost():
            return was_killed
    raise AssertionError(f"never as desired: {etcd}")


SCENES = {
    "one to three": (1, grow),
    "three to one": (3, shrink),
    **{f"disk {each} lost": (3, lose(each)) for each in range(3)},
}


@pytest.mark.parametrize("scene", SCENES)
async def test_a_manager_that_is_killed_at_any_request_ends_right(scene, monkeypatch):
    """REL-120, REL-121."""
    replicas, change = SCENES[scene]

    def prepared() -> ModelEtcd:
        etcd = ModelEtcd.formed(replicas)
        etcd.reconcile_pods(etcd.observe())
        change(etcd)
        return etcd

    async def played(**kill: Any) -> tuple[bool, int]:
        etcd = prepared()
        gateway = ModelGateway(etcd, **kill)
        monkeypatch.setattr(etcd_api, "Client", gateway.client)
        return await run(etcd, gateway), gateway.calls

    _, calls = await played()
    points = 0
    for kill_at in range(calls):
        for is_done in (False, True):
            was_killed, _ = await played(kill_at=kill_at, is_done=is_done)
            assert was_killed, (calls, kill_at, is_done)
            points += 1
    print(f"{scene}: killed at {points} points")
    assert points >= 20
