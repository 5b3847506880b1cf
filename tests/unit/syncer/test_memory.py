"""What is remembered between two keys: echoes, silences, flapping, needs and nodes."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubeio.store import Entry, parse
from kubeio.worker import Wait
from syncer.breaker import FAILURES, Breaker
from syncer.expectations import PATIENCE_SECONDS, Expectations, Side, revision_of
from syncer.fuse import PAUSE_SECONDS, WINDOW_SECONDS, WRITES, Fuse
from syncer.keys import HOME, Key, group_of
from syncer.pod_index import PodIndex
from syncer.references import (
    ACCOUNT_TOKEN,
    POD_TOKEN,
    Ref,
    References,
    is_reserved_name,
    needs_of,
    refs_of,
)

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


@pytest.mark.parametrize(
    ("said", "number"), [("12", 12), ("", 0), ("\u00b2", 0), ("x", 0), ("9" * 19, 10**19 - 1)]
)
def test_a_revision_is_a_number_of_64_bits_or_none(said, number):
    assert revision_of(said) == number
    assert revision_of("9" * 5000) == 0


def test_silence_opens_the_breaker_and_one_probe_at_a_time_passes():
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
                assert not index.is_used("other", ref)


def test_the_pod_index_follows_needs_and_nodes():
    index = PodIndex()
    first = entry(1, metadata={"generation": 1}, spec=POD["spec"])
    assert Ref("Secret", "s1") in index.set(None, first).refs
    bound = entry(2, metadata={"generation": 1}, spec={**POD["spec"], "nodeName": "n"})
    changes = index.set(first, bound)
    assert (changes.refs, changes.nodes) == ((), ("n",))
    assert index.is_on_node("n")
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


def test_queues_are_fair_between_tenants():
    assert group_of(KEY) == "vc"
