"""What is remembered between two keys: echoes, silences, flapping, needs and nodes."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from kubeio.cache.store import Entry, parse
from syncer.model.keys import HOME, Key
from syncer.safety.expectations import MOST_KEPT, PATIENCE_SECONDS, Expectations, News, Side
from tests.support.syncer.clocks import Clock

KEY = Key("vc", HOME, "Pod", "web", "p")


def entry(revision: int, **fields: Any) -> Entry:
    """Return a cached pod of a version."""
    metadata = {"name": "p", "namespace": "web", "uid": "u", "resourceVersion": str(revision)}
    body = {"kind": "Pod", "metadata": {**metadata, **fields.pop("metadata", {})}, **fields}
    return parse(orjson.dumps(body))


def test_a_key_is_behind_until_the_echo_of_its_write():
    awaited = Expectations()
    awaited.wrote(Side.SUPER, KEY, "10")
    assert awaited.is_behind(Side.SUPER, KEY, None)
    assert awaited.is_behind(Side.SUPER, KEY, entry(9))
    assert not awaited.is_behind(Side.TENANT, KEY, None)
    assert not awaited.is_behind(Side.SUPER, KEY, entry(10))
    assert not awaited.is_behind(Side.SUPER, KEY, entry(9))  # answered once is answered


def test_an_echo_before_the_answer_counts():
    awaited = Expectations()
    awaited.seen(Side.SUPER, KEY, entry(10))
    awaited.wrote(Side.SUPER, KEY, "10")
    assert not awaited.is_behind(Side.SUPER, KEY, entry(10))


def test_absence_answers_a_delete_only():
    awaited = Expectations()
    awaited.deleted(Side.SUPER, KEY, entry(9))
    assert awaited.is_behind(Side.SUPER, KEY, entry(9))
    assert not awaited.is_behind(Side.SUPER, KEY, None)
    awaited.wrote(Side.SUPER, KEY, "10")
    assert awaited.is_behind(Side.SUPER, KEY, None)
    awaited.seen(Side.SUPER, KEY, None)  # made, and deleted by somebody
    assert not awaited.is_behind(Side.SUPER, KEY, None)


def test_a_write_without_a_version_waits_for_anything_newer():
    awaited = Expectations()
    awaited.changed(Side.TENANT, KEY, entry(9))
    assert awaited.is_behind(Side.TENANT, KEY, entry(9))
    assert not awaited.is_behind(Side.TENANT, KEY, entry(10))


def test_an_echo_that_never_comes_is_given_up():
    clock = Clock()
    awaited = Expectations(clock)
    awaited.wrote(Side.SUPER, KEY, "10")
    clock.now += PATIENCE_SECONDS
    assert not awaited.is_behind(Side.SUPER, KEY, None)


def of(awaited: Expectations, *revisions: int) -> list[News]:
    """What events of these versions are taken for."""
    return [awaited.seen(Side.TENANT, KEY, entry(revision)) for revision in revisions]


def test_an_echo_of_what_was_taken_is_quiet_and_what_follows_is_not():
    awaited = Expectations()
    awaited.wrote(Side.TENANT, KEY, "10", taken=True)
    assert of(awaited, 10, 11) == [News.QUIET, News.FOREIGN]


def test_an_echo_of_what_was_not_taken_is_not_quiet():
    awaited = Expectations()
    awaited.wrote(Side.TENANT, KEY, "10")
    assert of(awaited, 10) == [News.OURS]


def test_an_echo_that_somebody_came_for_is_not_quiet():
    awaited = Expectations()
    awaited.wrote(Side.TENANT, KEY, "10", taken=True)
    assert awaited.is_behind(Side.TENANT, KEY, entry(9))
    assert of(awaited, 10) == [News.OURS]


def test_two_writes_in_a_row_are_quiet_with_or_without_a_version_of_the_first():
    awaited = Expectations()
    for first in (lambda: awaited.changed(Side.TENANT, KEY, entry(7), taken=True), None):
        if first is not None:
            first()
        else:
            awaited.wrote(Side.TENANT, KEY, "8", taken=True)
        awaited.wrote(Side.TENANT, KEY, "10", taken=True)
        assert of(awaited, 8, 10, 11) == [News.QUIET, News.QUIET, News.FOREIGN]


@pytest.mark.parametrize(
    "revisions", [(7, 10), (8, 9, 10), (7, 8, 9, 10)], ids=["before", "between", "both"]
)
def test_no_change_of_others_beside_our_writes_is_missed(revisions):
    """The last echo wakes: the worker then sees what somebody else has done meanwhile."""
    awaited = Expectations()
    if len(revisions) > 2:
        awaited.wrote(Side.TENANT, KEY, "8", taken=True)
    awaited.wrote(Side.TENANT, KEY, "10", taken=True)
    assert of(awaited, *revisions)[-1] is News.OURS


def test_a_change_of_others_before_an_echo_without_a_version_leaves_the_echo_to_wake():
    awaited = Expectations()
    awaited.changed(Side.TENANT, KEY, entry(7), taken=True)
    assert News.FOREIGN in of(awaited, 8, 9)


def write(awaited: Expectations, version: str, *, taken: bool = True) -> None:
    """A write is answered, of which somebody is woken when it was not taken as it was sent."""
    awaited.wrote(Side.TENANT, KEY, version, taken=taken)


def delete(awaited: Expectations) -> None:
    """A delete is answered, without a version."""
    awaited.deleted(Side.TENANT, KEY, entry(7), taken=True)


@pytest.mark.parametrize(
    ("kept", "write", "is_news"),
    [
        ((10,), lambda awaited: write(awaited, "10"), False),
        ((10,), lambda awaited: write(awaited, "10", taken=False), True),
        ((9,), lambda awaited: write(awaited, "10"), True),
        ((11,), lambda awaited: write(awaited, "10"), True),
        ((9, 10), lambda awaited: write(awaited, "10"), True),
        ((8,), lambda awaited: awaited.changed(Side.TENANT, KEY, entry(7), taken=True), False),
        ((9,), lambda awaited: awaited.changed(Side.TENANT, KEY, entry(7), taken=True), False),
        ((7,), lambda awaited: awaited.changed(Side.TENANT, KEY, entry(7), taken=True), True),
        ((8, 9), lambda awaited: awaited.changed(Side.TENANT, KEY, entry(7), taken=True), True),
        ((8,), delete, False),
        ((10,), lambda awaited: awaited.wrote(Side.SUPER, KEY, "10", taken=True), True),
        ((10,), lambda _: None, True),
    ],
)
def test_an_event_before_the_answer_is_news_unless_it_is_the_only_one_and_the_echo(
    kept, write, is_news
):
    awaited = Expectations()
    for revision in kept:
        awaited.keep(Side.TENANT, KEY, entry(revision))
    write(awaited)
    assert awaited.worked_on(KEY) is is_news
    assert not awaited.worked_on(KEY), "told once"


def test_an_echo_that_came_before_the_answer_is_not_waited_for_once_more():
    awaited = Expectations()
    awaited.keep(Side.TENANT, KEY, entry(10))
    write(awaited, "10")
    assert of(awaited, 11) == [News.FOREIGN]
    assert not awaited.is_behind(Side.TENANT, KEY, entry(9))


def test_of_an_object_that_changes_on_and_on_no_more_is_kept_than_tells_that_it_did():
    awaited = Expectations()
    for revision in range(10, 10_000):
        awaited.keep(Side.TENANT, KEY, entry(revision))
    assert len(awaited._early[KEY]) == MOST_KEPT
    write(awaited, "10")
    assert awaited.worked_on(KEY)


def test_two_echoes_before_their_answers_are_known_each():
    awaited = Expectations()
    for revision in (10, 12):
        awaited.keep(Side.TENANT, KEY, entry(revision))
        write(awaited, str(revision))
    assert not awaited.worked_on(KEY)


def test_the_second_of_two_writes_does_not_answer_for_what_came_before_the_first():
    awaited = Expectations()
    write(awaited, "10")  # its echo is still to come
    awaited.keep(Side.TENANT, KEY, entry(12))
    write(awaited, "12")
    assert awaited.worked_on(KEY)


def test_the_end_of_an_object_ends_what_was_kept_of_that_side():
    awaited = Expectations()
    awaited.keep(Side.TENANT, KEY, entry(10))
    awaited.seen(Side.TENANT, KEY, None)
    assert not awaited.worked_on(KEY)
    awaited.keep(Side.SUPER, KEY, entry(10))
    awaited.seen(Side.TENANT, KEY, None)
    assert awaited.worked_on(KEY)
