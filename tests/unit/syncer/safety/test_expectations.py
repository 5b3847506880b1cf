"""Expectations between two keys: echoes, silences, flapping, needs and nodes."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from kubeio.cache.store import Entry, parse_entry
from syncer.model.keys import HOME, Key
from syncer.safety.expectations import (
    ECHO_TIMEOUT_SECONDS,
    MAX_EARLY_EVENTS,
    ClusterSide,
    EventOrigin,
    Expectations,
)
from tests.support.syncer.clocks import Clock

KEY = Key("vc", HOME, "Pod", "web", "p")


def entry(revision: int, **fields: Any) -> Entry:
    """Return a cached pod of a version."""
    metadata = {"name": "p", "namespace": "web", "uid": "u", "resourceVersion": str(revision)}
    body = {"kind": "Pod", "metadata": {**metadata, **fields.pop("metadata", {})}, **fields}
    return parse_entry(orjson.dumps(body))


def test_a_key_is_behind_until_the_echo_of_its_write():
    awaited = Expectations()
    awaited.expect_update(ClusterSide.SUPER, KEY, "10")
    assert awaited.is_behind(ClusterSide.SUPER, KEY, None)
    assert awaited.is_behind(ClusterSide.SUPER, KEY, entry(9))
    assert not awaited.is_behind(ClusterSide.TENANT, KEY, None)
    assert not awaited.is_behind(ClusterSide.SUPER, KEY, entry(10))
    assert not awaited.is_behind(ClusterSide.SUPER, KEY, entry(9))  # answered once is answered


def test_an_echo_before_the_answer_counts():
    awaited = Expectations()
    awaited.observe_event(ClusterSide.SUPER, KEY, entry(10))
    awaited.expect_update(ClusterSide.SUPER, KEY, "10")
    assert not awaited.is_behind(ClusterSide.SUPER, KEY, entry(10))


def test_absence_answers_a_delete_only():
    awaited = Expectations()
    awaited.expect_delete(ClusterSide.SUPER, KEY, entry(9))
    assert awaited.is_behind(ClusterSide.SUPER, KEY, entry(9))
    assert not awaited.is_behind(ClusterSide.SUPER, KEY, None)
    awaited.expect_update(ClusterSide.SUPER, KEY, "10")
    assert awaited.is_behind(ClusterSide.SUPER, KEY, None)
    awaited.observe_event(ClusterSide.SUPER, KEY, None)  # made, and deleted by someone
    assert not awaited.is_behind(ClusterSide.SUPER, KEY, None)


def test_a_write_without_a_version_waits_for_anything_newer():
    awaited = Expectations()
    awaited.expect_any_update(ClusterSide.TENANT, KEY, entry(9))
    assert awaited.is_behind(ClusterSide.TENANT, KEY, entry(9))
    assert not awaited.is_behind(ClusterSide.TENANT, KEY, entry(10))


def test_an_echo_that_never_comes_is_given_up():
    clock = Clock()
    awaited = Expectations(clock)
    awaited.expect_update(ClusterSide.SUPER, KEY, "10")
    clock.now += ECHO_TIMEOUT_SECONDS
    assert not awaited.is_behind(ClusterSide.SUPER, KEY, None)


def of(awaited: Expectations, *revisions: int) -> list[EventOrigin]:
    """The meaning of events with these versions."""
    return [
        awaited.observe_event(ClusterSide.TENANT, KEY, entry(revision)) for revision in revisions
    ]


def test_an_echo_of_what_was_taken_is_quiet_and_what_follows_is_not():
    awaited = Expectations()
    awaited.expect_update(ClusterSide.TENANT, KEY, "10", taken=True)
    assert of(awaited, 10, 11) == [EventOrigin.OWN_UNCHANGED, EventOrigin.FOREIGN]


def test_an_echo_of_what_was_not_taken_is_not_quiet():
    awaited = Expectations()
    awaited.expect_update(ClusterSide.TENANT, KEY, "10")
    assert of(awaited, 10) == [EventOrigin.OWN]


def test_an_echo_that_another_writer_came_for_is_not_quiet():
    awaited = Expectations()
    awaited.expect_update(ClusterSide.TENANT, KEY, "10", taken=True)
    assert awaited.is_behind(ClusterSide.TENANT, KEY, entry(9))
    assert of(awaited, 10) == [EventOrigin.OWN]


def test_two_writes_in_a_row_are_quiet_with_or_without_a_version_of_the_first():
    awaited = Expectations()
    for first in (
        lambda: awaited.expect_any_update(ClusterSide.TENANT, KEY, entry(7), taken=True),
        None,
    ):
        if first is not None:
            first()
        else:
            awaited.expect_update(ClusterSide.TENANT, KEY, "8", taken=True)
        awaited.expect_update(ClusterSide.TENANT, KEY, "10", taken=True)
        assert of(awaited, 8, 10, 11) == [
            EventOrigin.OWN_UNCHANGED,
            EventOrigin.OWN_UNCHANGED,
            EventOrigin.FOREIGN,
        ]


@pytest.mark.parametrize(
    "revisions", [(7, 10), (8, 9, 10), (7, 8, 9, 10)], ids=["before", "between", "both"]
)
def test_no_change_of_others_beside_our_writes_is_missed(revisions):
    """The last echo wakes: the worker then sees what another owner has done meanwhile."""
    awaited = Expectations()
    if len(revisions) > 2:
        awaited.expect_update(ClusterSide.TENANT, KEY, "8", taken=True)
    awaited.expect_update(ClusterSide.TENANT, KEY, "10", taken=True)
    assert of(awaited, *revisions)[-1] is EventOrigin.OWN


def test_a_change_of_others_before_an_echo_without_a_version_leaves_the_echo_to_wake():
    awaited = Expectations()
    awaited.expect_any_update(ClusterSide.TENANT, KEY, entry(7), taken=True)
    assert EventOrigin.FOREIGN in of(awaited, 8, 9)


def write(awaited: Expectations, version: str, *, taken: bool = True) -> None:
    """A write is answered, of which someone is woken when it was not taken as it was sent."""
    awaited.expect_update(ClusterSide.TENANT, KEY, version, taken=taken)


def delete(awaited: Expectations) -> None:
    """A delete is answered, without a version."""
    awaited.expect_delete(ClusterSide.TENANT, KEY, entry(7), taken=True)


@pytest.mark.parametrize(
    ("kept", "write", "is_news"),
    [
        ((10,), lambda awaited: write(awaited, "10"), False),
        ((10,), lambda awaited: write(awaited, "10", taken=False), True),
        ((9,), lambda awaited: write(awaited, "10"), True),
        ((11,), lambda awaited: write(awaited, "10"), True),
        ((9, 10), lambda awaited: write(awaited, "10"), True),
        (
            (8,),
            lambda awaited: awaited.expect_any_update(
                ClusterSide.TENANT, KEY, entry(7), taken=True
            ),
            False,
        ),
        (
            (9,),
            lambda awaited: awaited.expect_any_update(
                ClusterSide.TENANT, KEY, entry(7), taken=True
            ),
            False,
        ),
        (
            (7,),
            lambda awaited: awaited.expect_any_update(
                ClusterSide.TENANT, KEY, entry(7), taken=True
            ),
            True,
        ),
        (
            (8, 9),
            lambda awaited: awaited.expect_any_update(
                ClusterSide.TENANT, KEY, entry(7), taken=True
            ),
            True,
        ),
        ((8,), delete, False),
        (
            (10,),
            lambda awaited: awaited.expect_update(ClusterSide.SUPER, KEY, "10", taken=True),
            True,
        ),
        ((10,), lambda _: None, True),
    ],
)
def test_an_event_before_the_answer_is_news_unless_it_is_the_only_one_and_the_echo(
    kept, write, is_news
):
    awaited = Expectations()
    for revision in kept:
        awaited.keep_early_event(ClusterSide.TENANT, KEY, entry(revision))
    write(awaited)
    assert awaited.finish_key(KEY) is is_news
    assert not awaited.finish_key(KEY), "told once"


def test_an_echo_that_came_before_the_answer_is_not_waited_for_once_more():
    awaited = Expectations()
    awaited.keep_early_event(ClusterSide.TENANT, KEY, entry(10))
    write(awaited, "10")
    assert of(awaited, 11) == [EventOrigin.FOREIGN]
    assert not awaited.is_behind(ClusterSide.TENANT, KEY, entry(9))


def test_of_an_object_that_changes_on_and_on_no_more_is_kept_than_reports_that_it_did():
    awaited = Expectations()
    for revision in range(10, 10_000):
        awaited.keep_early_event(ClusterSide.TENANT, KEY, entry(revision))
    assert len(awaited._early_events[KEY]) == MAX_EARLY_EVENTS
    write(awaited, "10")
    assert awaited.finish_key(KEY)


def test_two_echoes_before_their_answers_are_known_each():
    awaited = Expectations()
    for revision in (10, 12):
        awaited.keep_early_event(ClusterSide.TENANT, KEY, entry(revision))
        write(awaited, str(revision))
    assert not awaited.finish_key(KEY)


def test_the_second_of_two_writes_does_not_answer_for_what_came_before_the_first():
    awaited = Expectations()
    write(awaited, "10")  # its echo is still to come
    awaited.keep_early_event(ClusterSide.TENANT, KEY, entry(12))
    write(awaited, "12")
    assert awaited.finish_key(KEY)


def test_the_end_of_an_object_ends_what_was_kept_of_that_side():
    awaited = Expectations()
    awaited.keep_early_event(ClusterSide.TENANT, KEY, entry(10))
    awaited.observe_event(ClusterSide.TENANT, KEY, None)
    assert not awaited.finish_key(KEY)
    awaited.keep_early_event(ClusterSide.SUPER, KEY, entry(10))
    awaited.observe_event(ClusterSide.TENANT, KEY, None)
    assert awaited.finish_key(KEY)
