"""Many pods of a target that are missing at once: nothing is concluded until a person says so."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from kubeio import errors
from kubeio.cache.store import Entry, parse
from kubeio.controller.worker import Wait
from syncer.controllers.pods import unreachable_target
from syncer.handlers import super_events
from syncer.safety import pod_loss_guard
from syncer.safety.pod_loss_guard import COUNTS_SECONDS, FORGIVES_SECONDS, LEAST
from tests.support.syncer.pod_losses import IDENTITY, Field
from tests.support.syncer.sessions import TENANT
from tests.support.syncer.two_clusters import Split, key_of

RUNNING = {"phase": "Running", "startTime": "2026-01-01T00:00:00Z"}


@pytest.mark.parametrize(
    ("missing", "there", "is_held"),
    [
        (LEAST - 1, 0, False), (LEAST, 0, True), (LEAST, 19, True), (LEAST, 20, False),
        (20, 80, False), (21, 79, True),
    ],
)  # fmt: skip
def test_more_than_a_fifth_is_a_loss_and_a_few_never_are(missing: int, there: int, is_held: bool):
    field = Field(there)
    field.lose(*range(missing))
    assert field.muster.is_held is is_held
    assert field.changes == is_held
    if is_held:
        with pytest.raises(Wait, match="many pods are missing in c2"):
            field.muster.check("t")
    else:
        field.muster.check("t")


def test_those_of_all_tenants_count_and_each_once():
    field = Field()
    for tenant in ("a", "b", "c"):
        field.lose(1, 1, tenant=tenant)
    assert not field.muster.is_held
    field.lose(2, tenant="a")
    field.lose(2, tenant="b")
    assert field.muster.is_held


def test_what_is_there_again_ends_it():
    field = Field(5)
    field.lose(*range(LEAST))
    field.muster.present("t", "u9")
    assert field.muster.is_held
    field.muster.present("t", "u1")
    assert not field.muster.is_held
    assert field.changes == 2


def test_what_went_long_ago_counts_no_more_unless_it_is_held():
    field = Field()
    field.lose(*range(LEAST - 1))
    field.now += COUNTS_SECONDS + 1
    field.lose(9)
    assert not field.muster.is_held
    field.lose(*range(LEAST))
    assert field.muster.is_held
    field.now += COUNTS_SECONDS + 1
    field.lose(10)
    assert field.muster.is_held
    assert len(field.muster._missing) == LEAST + 2, "and nothing of it is forgotten meanwhile"


def test_a_word_is_about_the_very_pods_that_were_named_and_counts_once():
    field = Field()
    field.lose(*range(LEAST))
    first = field.muster.state
    loss = field.muster.tell()
    assert (loss.state, loss.missing, loss.total) == (first, LEAST, LEAST)
    assert "`kubectl vc target confirm c2`" in loss.message
    assert f"{LEAST} of the {LEAST} pods" in loss.message
    field.lose(*range(20, 20 + LEAST))
    assert field.muster.confirm(first)
    assert field.muster.is_held, "of those that were not named"
    assert len(field.muster._missing) == LEAST
    assert field.muster.confirm(field.muster.state)
    assert not field.muster.is_held
    field.lose(*range(LEAST))
    assert not field.muster.is_held, "a session that begins anew counts them again"
    field.lose(*range(40, 40 + LEAST))
    assert field.muster.is_held
    assert not field.muster.confirm(first)


def test_a_word_for_a_cluster_that_was_made_anew_holds_for_its_beginning():
    field = Field()
    assert field.muster.confirm(IDENTITY)
    field.lose(*range(LEAST))
    assert not field.muster.is_held
    field.now += FORGIVES_SECONDS
    field.lose(*range(LEAST))
    assert field.muster.is_held
    assert field.muster.confirm(IDENTITY)
    assert not field.muster.is_held
    assert not field.muster.confirm("")


def test_a_tenant_that_is_no_more_misses_nothing():
    field = Field()
    field.lose(*range(LEAST))
    field.lose(1, tenant="other")
    field.muster.forget("t")
    assert not field.muster.is_held
    assert len(field.muster._missing) == 1


def test_what_one_tenant_says_holds_nobody_else_up():
    field = Field(100)
    field.muster.called("forger", [f"f{number}" for number in range(1000)])
    field.lose(1, 2, 3, tenant="other")
    with pytest.raises(Wait):
        field.muster.check("forger")
    field.muster.check("other")
    assert "the VirtualCluster with the UID forger is" in field.muster.tell().message
    state = field.muster.state
    field.lose(4, tenant="other")
    assert field.muster.state == state, "the word is about who is held"
    field.now += COUNTS_SECONDS + 1
    field.lose(5, tenant="other")
    assert len(field.muster._missing) == 1001, "and of others the oldest count no more"


def test_without_the_tenant_that_misses_most_it_is_still_a_loss_for_everybody():
    field = Field(10)
    field.lose(*range(1000), tenant="a")
    field.lose(*range(LEAST), tenant="b")
    with pytest.raises(Wait):
        field.muster.check("c")
    for number in range(LEAST):
        field.muster.present("b", f"u{number}")
    field.muster.check("b")
    with pytest.raises(Wait):
        field.muster.check("a")
    assert field.changes == 3


def test_a_word_is_not_made_wrong_by_a_tenant_that_misses_others_each_time():
    field = Field(10)
    field.lose(*range(20), tenant="b")
    field.lose(*range(30), tenant="a")
    word = field.muster.tell().state
    field.muster.called("a", [f"another{number}" for number in range(30)])
    assert field.muster.confirm(word)
    field.muster.check("b")
    assert not field.muster.holds("c")
    assert field.muster.holds("a")


def test_pods_that_are_made_afterwards_end_no_hold():
    field = Field(4)
    field.lose(*range(LEAST))
    field.there = 10_000
    field.muster.present("t", "u99")
    field.lose(7)
    assert field.muster.is_held
    field.muster.present("t", "u1")
    assert field.muster.is_held
    field.muster.present("t", "u2")
    assert not field.muster.is_held


def test_a_session_that_begins_anew_says_all_that_is_missing():
    field = Field(5)
    field.lose(*range(LEAST))
    field.muster.called("t", ["u1"])
    assert not field.muster.is_held
    field.muster.called("t", [])
    assert len(field.muster._missing) == 1, "it may be missing no more as that was concluded"
    field.lose(*range(10, 10 + LEAST))
    field.muster.gone("t", "u10")
    field.muster.gone("t", "u11")
    assert not field.muster.is_held
    field.muster.gone("t", "u12")
    assert field.muster._by["t"] == len(field.muster._missing) == 4


# --- where it is counted --------------------------------------------------------------------------


@pytest.fixture
def split() -> Split:
    made = Split()
    made.far.target.muster = Field().muster  # type: ignore[union-attr]
    super_events.SuperWiring(made.far.super_cluster, {TENANT.uid: made.far}).subscribe()
    return made


def bound(split: Split, number: int, **status: Any) -> Entry:
    """Have a tenant pod that ran in the target."""
    entry = split.pod(f"p{number}", nodeName="target-c2")
    body = entry.decode()
    body["metadata"]["resourceVersion"] = "51"
    body["status"] = {**RUNNING, **status}
    made = parse(orjson.dumps(body))
    split.link.stores["Pod"].put(made, live=True)
    return made


@pytest.mark.parametrize("is_live", [True, False])
def test_a_list_without_them_counts_and_events_do_not(split: Split, is_live: bool):
    for number in range(LEAST):
        bound(split, number)
        split.twin(split.far, f"p{number}", nodeName="n")
    store = split.far.super_store("Pod")
    for entry in store.list():
        store.discard(entry, live=is_live)
    assert split.far.target is not None
    assert split.far.target.muster.is_held is not is_live
    split.twin(split.far, "p1", nodeName="n")
    assert not split.far.target.muster.is_held


def test_those_that_never_ran_or_are_over_do_not_count(split: Split):
    store = split.far.super_store("Pod")
    for number in range(LEAST):
        bound(split, number)
        split.twin(split.far, f"p{number}")
    for entry in store.list():
        store.discard(entry, live=False)
    assert split.far.target is not None
    assert not split.far.target.muster._missing


async def test_a_session_that_begins_counts_what_should_be_there(split: Split):
    for number in range(LEAST):
        bound(split, number)
    bound(split, 20, phase="Succeeded")
    split.pod("unbound")
    split.twin(split.far, "p20", nodeName="n")
    assert split.far.target is not None
    found = split.far.target.muster
    split.far.start()
    assert {each.uid for each in found._missing} == {f"p{n}-uid" for n in range(LEAST)}
    assert found.is_held


async def test_pods_that_a_tenant_deletes_are_missed_no_more(split: Split):
    pods = [bound(split, number) for number in range(LEAST)]
    split.far.start()
    assert split.far.target is not None
    found = split.far.target.muster
    assert found.is_held
    split.link.stores["Pod"].discard(pods[0], live=True)
    assert not found.is_held
    assert len(found._missing) == LEAST - 1


@pytest.mark.parametrize("going", [False, True])
async def test_while_it_is_held_nothing_is_concluded(split: Split, going: bool):
    from syncer.handlers.dispatcher import Engine  # noqa: PLC0415 - only here

    for number in range(LEAST):
        bound(split, number)
    if going:
        body = bound(split, 0).decode()
        times = {"deletionTimestamp": "2026-01-01T00:00:00Z", "deletionGracePeriodSeconds": 30}
        body["metadata"] |= {**times, "resourceVersion": "52"}
        split.link.stores["Pod"].put(parse(orjson.dumps(body)), live=True)
    split.far.report_missing_pods()
    target: Any = split.far.target

    async def prove(_: float, tenant: str) -> None:
        target.muster.check(tenant)

    target.prove = prove
    split.above.refusals["get Event"] = errors.NotFound("none")
    engine = Engine({"c2": {TENANT.uid: split.far}})
    with pytest.raises(Wait, match="many pods"):
        await engine.reconcile(key_of(split.far, "p0"))
    assert split.told() == ([unreachable_target.IN_DOUBT] if going else [])
    assert [each for each in split.above.writes() if each[1] != "Event"] == []
    assert split.there.asked == [], "nor is anything asked there"
    assert target.muster.confirm(target.muster.state)
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
def test_a_state_is_told_from_an_identity_by_its_form(word: str, is_one: bool):
    assert pod_loss_guard.is_state(word) is is_one
    assert pod_loss_guard.is_state(Field().muster.state)
