"""What is remembered between two keys: echoes, silences, flapping, needs and nodes."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubeio.cache.store import Entry, parse
from kubeio.controller.worker import Wait
from kubeio.resource_version import revision_of
from syncer.model.keys import HOME, Key, group_of
from syncer.model.pod_index import PodIndex
from syncer.model.references import (
    ACCOUNT_TOKEN,
    POD_TOKEN,
    Ref,
    References,
    is_reserved_name,
    needs_of,
    refs_of,
)
from syncer.safety.circuit_breaker import FAILURES, Breaker
from syncer.safety.expectations import MOST_KEPT, PATIENCE_SECONDS, Expectations, News, Side
from syncer.safety.hot_loop_guard import PAUSE_SECONDS, WINDOW_SECONDS, WRITES, Fuse
from syncer.tenants import grace_timers, lost_twins, session_memory, waiters

KEY = Key("vc", HOME, "Pod", "web", "p")


class Clock:
    """A time that only tests move."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


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


@pytest.mark.parametrize(
    ("said", "number"), [("12", 12), ("", 0), ("\u00b2", 0), ("x", 0), ("9" * 19, 10**19 - 1)]
)
def test_a_revision_is_a_number_of_64_bits_or_none(said, number):
    assert revision_of(said) == number
    assert revision_of("9" * 5000) == 0


def test_silence_opens_the_breaker_and_one_probe_at_a_time_passes():
    """REL-16."""
    clock = Clock()
    breaker = Breaker(clock)
    for _ in range(FAILURES):
        breaker.check()
        breaker.failed()
    with pytest.raises(Wait) as waited:
        breaker.check()
    assert waited.value.after
    clock.now += 60
    breaker.check()  # the probe
    with pytest.raises(Wait):
        breaker.check()
    breaker.answered()
    breaker.check()


def test_an_answer_in_between_keeps_it_closed():
    breaker = Breaker(Clock())
    for _ in range(FAILURES * 3):
        breaker.failed()
        breaker.answered()
    breaker.check()


def test_a_key_that_flaps_is_slowed_and_never_stopped():
    """REL-38."""
    clock = Clock()
    fuse = Fuse(clock)
    for _ in range(WRITES):
        fuse.wrote(KEY)
    assert fuse.pause(KEY) == 0
    fuse.wrote(KEY)
    assert fuse.pause(KEY) == PAUSE_SECONDS
    clock.now += PAUSE_SECONDS
    assert fuse.pause(KEY) == 0
    clock.now += WINDOW_SECONDS
    fuse.wrote(KEY)
    assert fuse.pause(KEY) == 0


POD = {
    "metadata": {"name": "p", "namespace": "web", "uid": "u"},
    "spec": {
        "serviceAccountName": "robot",
        "imagePullSecrets": [{"name": "pull"}],
        "volumes": [
            {"name": "a", "secret": {"secretName": "s1"}},
            {"name": "b", "configMap": {"name": "c1"}},
            {
                "name": "c",
                "projected": {
                    "sources": [
                        {"secret": {"name": "s2"}},
                        {"configMap": {"name": "c2"}},
                        {"serviceAccountToken": {"path": "t"}},
                        {"serviceAccountToken": {"path": "v", "audience": "vault"}},
                    ]
                },
            },
            {"name": "d", "emptyDir": {}},
        ],
        "initContainers": [{"envFrom": [{"configMapRef": {"name": "c3"}}]}],
        "containers": [
            {
                "envFrom": [{"secretRef": {"name": "s3"}}],
                "env": [
                    {"name": "A", "valueFrom": {"secretKeyRef": {"name": "s4", "key": "k"}}},
                    {"name": "B", "valueFrom": {"configMapKeyRef": {"name": "c4", "key": "k"}}},
                    {"name": "C", "value": "plain"},
                ],
            }
        ],
        "ephemeralContainers": [{"envFrom": [{"secretRef": {"name": "s5"}}]}],
    },
}


def test_every_place_that_names_an_object_is_walked():
    found = refs_of(POD["spec"])
    assert {ref.name for ref in found if ref.kind == "Secret"} == {
        "pull",
        "s1",
        "s2",
        "s3",
        "s4",
        "s5",
    }
    assert {ref.name for ref in found if ref.kind == "ConfigMap"} == {"c1", "c2", "c3", "c4"}
    tokens = {Ref(ACCOUNT_TOKEN, "robot"), Ref(POD_TOKEN, "u")}
    assert needs_of(POD) == found | tokens


@pytest.mark.parametrize("spec", [{"volumes": "none"}, {"containers": [3]}, {"containers": {}}])
def test_a_malformed_pod_needs_nothing(spec):
    assert refs_of(spec) == frozenset()
    sources = [{"serviceAccountToken": {"audience": "vault"}}]
    bound = {"volumes": [{"projected": {"sources": sources}}]}
    assert needs_of({"metadata": {}, "spec": bound}) == frozenset()
    assert needs_of({"metadata": {"uid": "u"}, "spec": spec}) == frozenset()


@pytest.mark.parametrize(
    ("kind", "name", "reserved"),
    [
        ("Secret", "vc-token-abc", True),
        ("Secret", "token", False),
        ("ConfigMap", "tenant-kube-root-ca.crt", True),
        ("ConfigMap", "kube-root-ca.crt", False),
        ("ConfigMap", "vc-token-abc", False),
    ],
)
def test_reserved_names(kind, name, reserved):
    assert is_reserved_name(kind, name) is reserved


pods = st.sampled_from(["p1", "p2", "p3"])
refs = st.frozensets(
    st.builds(Ref, st.sampled_from(["Secret", "ConfigMap"]), st.sampled_from("ab"))
)


@given(st.lists(st.tuples(pods, refs), max_size=20))
def test_the_reverse_index_says_what_the_pods_say(steps):
    index, truth = References(), {}
    for pod, needed in steps:
        changed = index.set("web", pod, needed)
        assert changed == truth.get(pod, frozenset()) ^ needed
        truth[pod] = needed
        for kind in ("Secret", "ConfigMap"):
            for name in "ab":
                ref = Ref(kind, name)
                users = {pod for pod, needs in truth.items() if ref in needs}
                assert index.users("web", ref) == users
                assert index.is_used("web", ref) == bool(users)
                assert index.is_shared("web", ref) == (len(users) > 1)
                assert not index.is_used("other", ref)


def test_a_field_that_a_tenant_leaves_out_is_tried_again_after_a_while():
    clock = Clock()
    memory = session_memory.Reminders(clock)
    assert not memory.is_left_out("declaredFeatures")
    memory.saw_left_out(["declaredFeatures"])
    assert memory.is_left_out("declaredFeatures")
    assert not memory.is_left_out("features")
    clock.now += session_memory.LEFT_OUT_SECONDS
    assert not memory.is_left_out("declaredFeatures")


def test_the_pod_index_follows_needs_and_nodes():
    index = PodIndex()
    first = entry(1, metadata={"generation": 1}, spec=POD["spec"])
    assert Ref("Secret", "s1") in index.set(None, first).refs
    bound = entry(2, metadata={"generation": 1}, spec={**POD["spec"], "nodeName": "n"})
    changes = index.set(first, bound)
    assert (changes.refs, changes.nodes) == ((), ("n",))
    assert index.is_on_node("n")
    assert index.on_node("n") == (("web", "p"),)
    gone = index.drop(bound)
    assert Ref("Secret", "s1") in gone.refs
    assert gone.nodes == ("n",)
    assert not index.is_on_node("n")
    assert not index.references.is_used("web", Ref("Secret", "s1"))


def test_pods_of_daemon_sets_keep_no_node():
    index = PodIndex()
    owner = {"kind": "DaemonSet", "name": "d", "uid": "d", "controller": True}
    index.set(None, entry(1, metadata={"ownerReferences": [owner]}, spec={"nodeName": "n"}))
    assert not index.is_on_node("n")


def test_a_malformed_pod_is_on_no_node():
    index = PodIndex()
    index.set(None, entry(1, spec={"nodeName": ["n"]}))
    assert index.nodes() == ()


def test_queues_are_fair_between_tenants_and_between_the_super_clusters_of_each():
    assert group_of(KEY) == "vc"
    assert group_of(KEY._replace(super_cluster="c2")) == "vc@c2"


# --- what one key has to tell another -------------------------------------------------------------


def test_who_waits_is_remembered_up_to_an_end(monkeypatch):
    monkeypatch.setattr(waiters, "MAX_WAITERS", 10)
    memory = waiters.Waiters()

    def key(name: str) -> Key:
        return KEY._replace(name=name)

    for number in range(30):
        memory.wait_for(key("never"), key(f"p{number}"))
    assert len(memory.waiting_for(key("never"))) == 10
    for number in range(30):
        memory.wait_for(key(f"d{number}"), key("p"))
    waiting = [number for number in range(30) if memory.waiting_for(key(f"d{number}"))]
    assert waiting == list(range(20, 30))
    memory.wait_for(key("d"), key("p"))
    memory.wait_for(key("d"), key("p"))
    assert memory._waiters == 1
    assert memory.waiting_for(key("d")) == {key("p")}
    assert memory._waiters == 0


def test_what_lingers_is_remembered_up_to_an_end(monkeypatch):
    monkeypatch.setattr(grace_timers, "MAX_UNUSED", 5)
    clock = Clock()
    memory = grace_timers.GraceTimers(clock)
    for number in range(20):
        assert memory.left_to_linger(KEY._replace(name=str(number))) == memory.linger_seconds
    assert len(memory._unused) == 5
    clock.now += memory.linger_seconds
    assert memory.left_to_linger(KEY._replace(name="19")) == 0
    assert len(memory._unused) == 4


def test_an_event_is_told_again_only_in_another_state():
    """REL-80."""
    memory = session_memory.Reminders(Clock())
    memory.told(KEY, {"count": 1})
    assert memory.has_told(KEY)
    assert memory.was_told(KEY, {"count": 1})
    assert not memory.was_told(KEY, {"count": 2})


def test_a_twin_that_was_seen_to_go_is_remembered_by_the_pods_uid(monkeypatch):
    monkeypatch.setattr(lost_twins, "MAX_LOST_TWINS", 3)
    memory = lost_twins.LostTwins()
    for number in range(5):
        memory.saw_bound_twin_end(f"u{number}", was_deleting=number == 4, is_certain=True)
    assert memory.saw_twin_end("u4")
    memory.saw_bound_twin_end("u4", was_deleting=True, is_certain=False)
    assert not memory.saw_twin_end("u4")  # perhaps it only lost its labels
    assert not memory.saw_twin_end("u3")
    assert [memory.had_bound_twin(f"u{number}") for number in range(5)] == [False] * 2 + [True] * 3
    assert [memory.saw_twin_deleted(f"u{number}") for number in range(5)] == [False] * 4 + [True]
