"""Many pods of a target that are missing at once: nothing is concluded until a person says so."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from kubeio import errors
from kubeio.cache.store import Entry, parse_entry
from kubeio.controller.worker import NotReadyYet
from syncer.controllers.pods import unreachable_target
from syncer.handlers.target_events import TargetEvents
from syncer.safety import pod_loss_guard
from syncer.safety.pod_loss_guard import (
    CONFIRMATION_SECONDS,
    MIN_MISSING_PODS,
    MISSING_EXPIRY_SECONDS,
)
from tests.support.syncer.pod_losses import IDENTITY, GuardedTarget
from tests.support.syncer.sessions import TENANT
from tests.support.syncer.two_clusters import SplitWorld, key_of

RUNNING = {"phase": "Running", "startTime": "2026-01-01T00:00:00Z"}


@pytest.mark.parametrize(
    ("missing", "there", "is_held"),
    [
        (MIN_MISSING_PODS - 1, 0, False), (MIN_MISSING_PODS, 0, True), (MIN_MISSING_PODS, 19, True),
        (MIN_MISSING_PODS, 20, False),
        (20, 80, False), (21, 79, True),
    ],
)  # fmt: skip
def test_more_than_a_fifth_is_a_loss_and_a_few_never_are(missing: int, there: int, is_held: bool):
    field = GuardedTarget(there)
    field.lose(*range(missing))
    assert field.pod_loss_guard.is_held is is_held
    assert field.changes == is_held
    if is_held:
        with pytest.raises(NotReadyYet, match="many pods are missing in c2"):
            field.pod_loss_guard.check_not_held("t")
    else:
        field.pod_loss_guard.check_not_held("t")


def test_those_of_all_tenants_count_and_each_once():
    field = GuardedTarget()
    for tenant in ("a", "b", "c"):
        field.lose(1, 1, tenant=tenant)
    assert not field.pod_loss_guard.is_held
    field.lose(2, tenant="a")
    field.lose(2, tenant="b")
    assert field.pod_loss_guard.is_held


def test_what_is_there_again_ends_it():
    field = GuardedTarget(5)
    field.lose(*range(MIN_MISSING_PODS))
    field.pod_loss_guard.remove_missing("t", "u9")
    assert field.pod_loss_guard.is_held
    field.pod_loss_guard.remove_missing("t", "u1")
    assert not field.pod_loss_guard.is_held
    assert field.changes == 2


def test_what_went_long_ago_counts_no_more_unless_it_is_held():
    field = GuardedTarget()
    field.lose(*range(MIN_MISSING_PODS - 1))
    field.now += MISSING_EXPIRY_SECONDS + 1
    field.lose(9)
    assert not field.pod_loss_guard.is_held
    field.lose(*range(MIN_MISSING_PODS))
    assert field.pod_loss_guard.is_held
    field.now += MISSING_EXPIRY_SECONDS + 1
    field.lose(10)
    assert field.pod_loss_guard.is_held
    assert len(field.pod_loss_guard._missing) == MIN_MISSING_PODS + 2, (
        "and nothing of it is forgotten meanwhile"
    )


def test_a_word_is_about_the_very_pods_that_were_named_and_counts_once():
    field = GuardedTarget()
    field.lose(*range(MIN_MISSING_PODS))
    first = field.pod_loss_guard.loss_state
    loss = field.pod_loss_guard.build_held_message()
    assert (loss.state, loss.missing, loss.total) == (first, MIN_MISSING_PODS, MIN_MISSING_PODS)
    assert "`kubectl vc target confirm c2`" in loss.message
    assert f"{MIN_MISSING_PODS} of the {MIN_MISSING_PODS} pods" in loss.message
    field.lose(*range(20, 20 + MIN_MISSING_PODS))
    assert field.pod_loss_guard.confirm_losses(first)
    assert field.pod_loss_guard.is_held, "of those that were not named"
    assert len(field.pod_loss_guard._missing) == MIN_MISSING_PODS
    assert field.pod_loss_guard.confirm_losses(field.pod_loss_guard.loss_state)
    assert not field.pod_loss_guard.is_held
    field.lose(*range(MIN_MISSING_PODS))
    assert not field.pod_loss_guard.is_held, "a session that begins anew counts them again"
    field.lose(*range(40, 40 + MIN_MISSING_PODS))
    assert field.pod_loss_guard.is_held
    assert not field.pod_loss_guard.confirm_losses(first)


def test_a_word_for_a_cluster_that_was_recreated_holds_for_its_beginning():
    field = GuardedTarget()
    assert field.pod_loss_guard.confirm_losses(IDENTITY)
    field.lose(*range(MIN_MISSING_PODS))
    assert not field.pod_loss_guard.is_held
    field.now += CONFIRMATION_SECONDS
    field.lose(*range(MIN_MISSING_PODS))
    assert field.pod_loss_guard.is_held
    assert field.pod_loss_guard.confirm_losses(IDENTITY)
    assert not field.pod_loss_guard.is_held
    assert not field.pod_loss_guard.confirm_losses("")


def test_a_tenant_that_is_no_more_misses_nothing():
    field = GuardedTarget()
    field.lose(*range(MIN_MISSING_PODS))
    field.lose(1, tenant="other")
    field.pod_loss_guard.forget_tenant("t")
    assert not field.pod_loss_guard.is_held
    assert len(field.pod_loss_guard._missing) == 1


def test_what_one_tenant_reports_holds_no_one_else_up():
    field = GuardedTarget(100)
    field.pod_loss_guard.replace_missing("forger", [f"f{number}" for number in range(1000)])
    field.lose(1, 2, 3, tenant="other")
    with pytest.raises(NotReadyYet):
        field.pod_loss_guard.check_not_held("forger")
    field.pod_loss_guard.check_not_held("other")
    assert (
        "the VirtualCluster with the UID forger is"
        in field.pod_loss_guard.build_held_message().message
    )
    state = field.pod_loss_guard.loss_state
    field.lose(4, tenant="other")
    assert field.pod_loss_guard.loss_state == state, "the word is about who is held"
    field.now += MISSING_EXPIRY_SECONDS + 1
    field.lose(5, tenant="other")
    assert len(field.pod_loss_guard._missing) == 1001, "and of others the oldest count no more"


def test_without_the_tenant_that_misses_most_it_is_still_a_loss_for_everybody():
    field = GuardedTarget(10)
    field.lose(*range(1000), tenant="a")
    field.lose(*range(MIN_MISSING_PODS), tenant="b")
    with pytest.raises(NotReadyYet):
        field.pod_loss_guard.check_not_held("c")
    for number in range(MIN_MISSING_PODS):
        field.pod_loss_guard.remove_missing("b", f"u{number}")
    field.pod_loss_guard.check_not_held("b")
    with pytest.raises(NotReadyYet):
        field.pod_loss_guard.check_not_held("a")
    assert field.changes == 3


def test_a_word_is_not_made_wrong_by_a_tenant_that_misses_others_each_time():
    field = GuardedTarget(10)
    field.lose(*range(20), tenant="b")
    field.lose(*range(30), tenant="a")
    word = field.pod_loss_guard.build_held_message().state
    field.pod_loss_guard.replace_missing("a", [f"another{number}" for number in range(30)])
    assert field.pod_loss_guard.confirm_losses(word)
    field.pod_loss_guard.check_not_held("b")
    assert not field.pod_loss_guard.is_tenant_held("c")
    assert field.pod_loss_guard.is_tenant_held("a")


def test_pods_that_are_made_afterwards_end_no_hold():
    field = GuardedTarget(4)
    field.lose(*range(MIN_MISSING_PODS))
    field.there = 10_000
    field.pod_loss_guard.remove_missing("t", "u99")
    field.lose(7)
    assert field.pod_loss_guard.is_held
    field.pod_loss_guard.remove_missing("t", "u1")
    assert field.pod_loss_guard.is_held
    field.pod_loss_guard.remove_missing("t", "u2")
    assert not field.pod_loss_guard.is_held


def test_a_session_that_begins_again_reports_all_that_is_missing():
    field = GuardedTarget(5)
    field.lose(*range(MIN_MISSING_PODS))
    field.pod_loss_guard.replace_missing("t", ["u1"])
    assert not field.pod_loss_guard.is_held
    field.pod_loss_guard.replace_missing("t", [])
    assert len(field.pod_loss_guard._missing) == 1, (
        "it may be missing no more as that was concluded"
    )
    field.lose(*range(10, 10 + MIN_MISSING_PODS))
    field.pod_loss_guard.remove_deleted("t", "u10")
    field.pod_loss_guard.remove_deleted("t", "u11")
    assert not field.pod_loss_guard.is_held
    field.pod_loss_guard.remove_deleted("t", "u12")
    assert field.pod_loss_guard._missing_by_tenant["t"] == len(field.pod_loss_guard._missing) == 4


# --- where it is counted --------------------------------------------------------------------------


@pytest.fixture
def split() -> SplitWorld:
    made = SplitWorld()
    made.far.target.pod_loss_guard = GuardedTarget().pod_loss_guard  # type: ignore[union-attr]
    TargetEvents(made.far.target, {TENANT.uid: made.far}).subscribe()
    return made


def bound(split: SplitWorld, number: int, **status: Any) -> Entry:
    """Have a tenant pod that ran in the target."""
    entry = split.pod(f"p{number}", nodeName="target-c2")
    body = entry.decode()
    body["metadata"]["resourceVersion"] = "51"
    body["status"] = {**RUNNING, **status}
    made = parse_entry(orjson.dumps(body))
    split.link.stores["Pod"].put(made, live=True)
    return made


@pytest.mark.parametrize("is_live", [True, False])
def test_a_list_without_them_counts_and_events_do_not(split: SplitWorld, is_live: bool):
    for number in range(MIN_MISSING_PODS):
        bound(split, number)
        split.twin(split.far, f"p{number}", nodeName="n")
    store = split.far.twins.get_store("Pod")
    for entry in store.list():
        store.discard(entry, live=is_live)
    assert split.far.target is not None
    assert split.far.target.pod_loss_guard.is_held is not is_live
    split.twin(split.far, "p1", nodeName="n")
    assert not split.far.target.pod_loss_guard.is_held


def test_those_that_never_ran_or_are_over_do_not_count(split: SplitWorld):
    store = split.far.twins.get_store("Pod")
    for number in range(MIN_MISSING_PODS):
        bound(split, number)
        split.twin(split.far, f"p{number}")
    for entry in store.list():
        store.discard(entry, live=False)
    assert split.far.target is not None
    assert not split.far.target.pod_loss_guard._missing


async def test_a_session_that_begins_counts_what_should_be_there(split: SplitWorld):
    for number in range(MIN_MISSING_PODS):
        bound(split, number)
    bound(split, 20, phase="Succeeded")
    split.pod("unbound")
    split.twin(split.far, "p20", nodeName="n")
    assert split.far.target is not None
    found = split.far.target.pod_loss_guard
    split.far.start()
    assert {each.uid for each in found._missing} == {f"p{n}-uid" for n in range(MIN_MISSING_PODS)}
    assert found.is_held


async def test_pods_that_a_tenant_deletes_are_missed_no_more(split: SplitWorld):
    pods = [bound(split, number) for number in range(MIN_MISSING_PODS)]
    split.far.start()
    assert split.far.target is not None
    found = split.far.target.pod_loss_guard
    assert found.is_held
    split.link.stores["Pod"].discard(pods[0], live=True)
    assert not found.is_held
    assert len(found._missing) == MIN_MISSING_PODS - 1


@pytest.mark.parametrize("going", [False, True])
async def test_while_it_is_held_nothing_is_concluded(split: SplitWorld, going: bool):
    from syncer.handlers.dispatcher import Dispatcher  # noqa: PLC0415 - only here

    for number in range(MIN_MISSING_PODS):
        bound(split, number)
    if going:
        body = bound(split, 0).decode()
        times = {"deletionTimestamp": "2026-01-01T00:00:00Z", "deletionGracePeriodSeconds": 30}
        body["metadata"] |= {**times, "resourceVersion": "52"}
        split.link.stores["Pod"].put(parse_entry(orjson.dumps(body)), live=True)
    split.far.scope.prepare_start()
    target: Any = split.far.target

    async def prove(_: float, tenant: str) -> None:
        target.pod_loss_guard.check_not_held(tenant)

    target.prove_missing = prove
    split.above.refusals["get Event"] = errors.NotFound("none")
    engine = Dispatcher({"c2": {TENANT.uid: split.far}})
    with pytest.raises(NotReadyYet, match="many pods"):
        await engine.reconcile(key_of(split.far, "p0"))
    assert split.told() == ([unreachable_target.TARGET_IN_DOUBT] if going else [])
    assert [each for each in split.above.writes() if each[1] != "Event"] == []
    assert split.there.asked == [], "nor is anything asked there"
    assert target.pod_loss_guard.confirm_losses(target.pod_loss_guard.loss_state)
    before = len(split.above.writes())
    await engine.reconcile(key_of(split.far, "p0"))
    assert len(split.above.writes()) > before


@pytest.mark.parametrize(
    ("word", "is_one"),
    [
        ("0123456789abcdef", True),
        ("0123456789abcde", False),
        ("0123456789abcdeg", False),
        ("", False),
    ],
)
def test_a_state_is_distinguished_from_an_identity_by_its_form(word: str, is_one: bool):
    assert pod_loss_guard.is_state(word) is is_one
    assert pod_loss_guard.is_state(GuardedTarget().pod_loss_guard.loss_state)
