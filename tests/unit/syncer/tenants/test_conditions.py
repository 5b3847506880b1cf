"""Conditions of a VirtualCluster, within the lengths that its definition allows."""

from __future__ import annotations

import orjson
import pytest

from kubeio.cache.store import parse_entry
from syncer.tenants import conditions
from tenancy import wellknown

MANY = [f"target-{number:04}" for number in range(200)]


@pytest.mark.parametrize("message", ["x" * 5000, ""])
def test_no_message_is_longer_than_a_condition_may_have(message: str):
    said = [
        conditions.build_synced(reason=conditions.ENGAGED, message=message, generation=1),
        conditions.build_deletes_held(message=message, generation=1),
        conditions.build_targets_granted(missing=MANY, generation=1),
    ]
    assert all(len(each["message"]) <= conditions._MAX_MESSAGE for each in said)


def test_undeclared_targets_are_named_with_what_to_do():
    (said, fine) = (conditions.build_targets_granted(missing=m, generation=1) for m in (["c9"], []))
    assert (said["status"], said["reason"]) == ("False", conditions.NO_SUCH_TARGET)
    assert said["message"].startswith(
        "There is no SuperCluster c9, which spec.targets names. Create"
    )
    assert said["message"].endswith("or remove it from spec.targets.")
    assert (fine["status"], fine["reason"]) == ("True", conditions.TARGETS_DECLARED)


STORE = "7b0a5f0e-0000-4000-8000-000000000001"


def cluster(*told: dict[str, object], **status: object):
    """Return a cached VirtualCluster with conditions."""
    body = {
        "kind": "VirtualCluster",
        "metadata": {"name": "vc", "namespace": "default", "uid": "u", "generation": 2},
        "status": {"conditions": list(told), **status},
    }
    return parse_entry(orjson.dumps(body))


class CountingListener:
    """Counts what is applied."""

    def __init__(self) -> None:
        self.bodies: list[dict[str, object]] = []

    async def apply(self, _: object, body: dict[str, object], **__: object) -> None:
        self.bodies.append(body)


async def test_a_condition_is_reported_once():
    wanted = [
        conditions.build_synced(reason=conditions.ENGAGED, message="All.", generation=2),
        conditions.build_deletes_held(message="", generation=2),
    ]
    listener = CountingListener()
    await conditions.write_conditions(listener, cluster(), wanted, store=None)
    assert len(listener.bodies) == 1
    await conditions.write_conditions(listener, cluster(*wanted), wanted, store=None)
    assert len(listener.bodies) == 1
    held = [wanted[0], conditions.build_deletes_held(message="Why.", generation=2)]
    old = {**wanted[0], "lastTransitionTime": "2020-01-01T00:00:00Z"}
    await conditions.write_conditions(listener, cluster(old, wanted[1]), held, store={})
    applied = listener.bodies[-1]["status"]["conditions"]
    assert applied[0]["lastTransitionTime"] == "2020-01-01T00:00:00Z"
    assert (applied[1]["status"], applied[1]["message"]) == ("True", "Why.")
    assert listener.bodies[-1]["status"]["heldStore"] == {}


async def test_another_store_is_reported_though_the_conditions_are_the_same():
    wanted = [
        conditions.build_synced(reason=conditions.ENGAGED, message="All.", generation=2),
        conditions.build_deletes_held(message="Why.", generation=2),
    ]
    first, second = conditions.held_store(STORE), conditions.held_store(STORE[:-1] + "2")
    listener = CountingListener()
    known = cluster(*wanted, heldStore=first)
    await conditions.write_conditions(listener, known, wanted, store=first)
    assert listener.bodies == []
    await conditions.write_conditions(listener, known, wanted, store=second)
    assert listener.bodies[-1]["status"]["heldStore"] == second
    await conditions.write_conditions(listener, known, wanted, store=None)
    assert "heldStore" not in listener.bodies[-1]["status"]


async def test_the_request_of_a_restore_is_written_and_removed_with_the_condition():
    wanted = [conditions.build_synced(reason="Restoring", message="A restore.", generation=2)]
    listener = CountingListener()
    known = cluster(*wanted, disconnectedForRestore="s@1")
    await conditions.write_conditions(listener, known, wanted, store=None, restore="s@1")
    assert listener.bodies == []
    await conditions.write_conditions(listener, known, wanted, store=None, restore="s@2")
    assert listener.bodies[-1]["status"]["disconnectedForRestore"] == "s@2"
    await conditions.write_conditions(listener, known, wanted, store=None)
    assert "disconnectedForRestore" not in listener.bodies[-1]["status"]


@pytest.mark.parametrize("uid", ["", "u", STORE.upper(), f"{STORE}1", "x" * 5000, f"{STORE}\n"])
def test_a_uid_that_no_api_server_writes_is_not_passed_on(uid: str):
    assert conditions.held_store(uid) == {}
    assert conditions.held_store(STORE) == {"uid": STORE}


def test_only_engaged_is_synced():
    for reason in (conditions.DISENGAGED, conditions.UNREACHABLE):
        assert (
            conditions.build_synced(reason=reason, message="m", generation=1)["status"] == "False"
        )


def test_a_held_condition_is_kept_by_other_news():
    held = conditions.build_deletes_held(message="Why.", generation=2)
    assert conditions.get_other_conditions(cluster(held)) == [held]
    assert conditions.get_other_conditions(cluster()) == []
    store = conditions.held_store(STORE)
    assert conditions.held_store_before(cluster(held, heldStore=store)) == store
    assert conditions.held_store_before(cluster(held, heldStore={})) == {}
    assert conditions.held_store_before(cluster(held)) is None
    assert held["type"] == wellknown.DELETES_HELD


def test_a_network_that_cannot_be_used_is_named_with_what_to_do():
    said = conditions.build_network_ready(problem="cidr x. Correct it", generation=1)
    assert (said["status"], said["reason"]) == ("False", conditions.NETWORK_INVALID)
    assert said["message"] == "spec.network: cidr x. Correct it."
    assert conditions.build_network_ready(problem="", generation=1)["status"] == "True"
