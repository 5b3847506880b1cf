"""Differences that come back: how they are told apart, counted, parked and told."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubeio import errors
from syncer.controllers import parked_writes, sync_down, sync_up
from syncer.controllers.sync_up import Seen
from syncer.handlers.tenant_events import wire_tenant
from syncer.model import diff
from syncer.model.keys import HOME, Key
from syncer.rules import registry
from syncer.safety import hot_loop_guard as fuses
from syncer.safety.circuit_breaker import (
    FORGOTTEN_SECONDS,
    REFUSED,
    REFUSING_SECONDS,
    Refusals,
    _is_refusal,
    _written,
)
from syncer.safety.hot_loop_guard import (
    NEAR_SECONDS,
    PARK_SECONDS,
    PAUSE_SECONDS,
    REPEATS,
    WINDOW_SECONDS,
    WRITES,
    Fuse,
    Outcome,
    Part,
)
from tenancy import wellknown
from tests.unit.syncer.sessions import World
from tests.unit.syncer.test_memory import Clock

PART = Part(Key("vc", HOME, "Pod", "web", "p"), "super")
TWICE = [
    {"key": "a", "operator": "In", "values": ["1"]},
    {"key": "a", "operator": "NotIn", "values": ["2", "3"]},
]
CONTAINERS = [{"name": "a", "image": "i", "stdin": False}, {"name": "b", "image": "j"}]


@pytest.mark.parametrize(
    ("sent", "there", "gone"),
    [
        ({"spec": {"a": 1, "b": 2}}, {"spec": {"a": 1}}, ["spec.b"]),
        ({"spec": {"a": 1}}, {"spec": {"a": 2, "c": 3}}, []),
        ({"spec": {"off": False, "none": [], "empty": {}, "text": ""}}, {"spec": {}}, []),
        (
            {"spec": {"containers": CONTAINERS}},
            {"spec": {"containers": [{"name": "side"}, {"name": "b", "image": "x"}]}},
            ["spec.containers[a]"],
        ),
        (
            {"spec": {"containers": CONTAINERS}},
            {"spec": {"containers": [{"name": "b", "image": "j"}, {"name": "a"}]}},
            ["spec.containers[a].image"],
        ),
        ({"args": ["a", "b"]}, {"args": ["a"]}, ["args[1]"]),
        ({"matchExpressions": TWICE}, {"matchExpressions": TWICE}, []),
    ],
)
def test_what_a_server_dropped_is_named_and_what_it_changed_or_left_empty_is_not(sent, there, gone):
    assert diff.missing(sent, there) == gone


def test_what_differs_is_named_without_the_bookkeeping_of_a_write():
    body = {
        "metadata": {
            "uid": "u",
            "resourceVersion": "7",
            "labels": {"a": "1", "b": None},
            "annotations": {wellknown.STORE_REVISION: "9"},
        },
        "spec": {"x": 1},
    }
    there = {"metadata": {"uid": "v", "labels": {"a": "2", "b": "3"}}, "spec": {"x": 1}}
    assert diff.lacking(body, there) == ["metadata.labels.a", "metadata.labels.b"]
    assert diff.between({"data": {"a": "1"}}, {"data": {"a": "1", "b": "2"}}) == ["data.b"]


def test_a_difference_is_the_same_whatever_version_it_is_made_from_and_another_with_other_values():
    def digest(sent: str, there: str, version: str) -> bytes:
        body = {"metadata": {"uid": "u", "resourceVersion": version}, "data": {"a": sent}}
        return diff.digest(body, {"metadata": {"resourceVersion": version}, "data": {"a": there}})

    assert digest("1", "2", "7") == digest("1", "2", "8")
    body: dict[str, Any] = {"metadata": {"uid": "u"}, "data": {"a": "1"}}
    stamped = {**body, "metadata": {"uid": "u", "annotations": {wellknown.STORE_REVISION: "9"}}}
    assert diff.digest(body, {}) == diff.digest(stamped, {})
    assert digest("1", "2", "7") != digest("1", "3", "7")
    assert digest("1", "2", "7") != digest("2", "2", "7")


values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(0, 2), st.sampled_from("ab")),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.sampled_from(["name", "x", "y"]), inner)
    ),
    max_leaves=8,
)
bodies = st.dictionaries(st.sampled_from(["spec", "data", "metadata"]), values)


@given(bodies, bodies)
def test_no_body_stumbles_and_none_differs_from_itself(one, other):
    diff.lacking(one, other)
    diff.missing(one, other)
    assert diff.missing(one, one) == []


def tries(fuse: Fuse, times: int, *, digest: bytes = b"d", taken: bool = True) -> list[bool]:
    """Count a write some times."""
    return [fuse.tried(PART, digest, lambda: Outcome("spec.x", taken)) for _ in range(times)]


def test_the_fifth_write_of_a_difference_parks_it_for_a_while():
    """REL-38."""
    clock = Clock()
    fuse = Fuse(clock)
    assert tries(fuse, REPEATS) == [False] * (REPEATS - 1) + [True]
    assert fuse.is_parked(PART, b"d")
    assert not fuse.is_parked(PART, b"other")
    assert not fuse.is_parked(PART._replace(subresource="status"), b"d")
    assert fuse.parked() == {PART: "spec.x"}
    clock.now += PARK_SECONDS
    assert not fuse.is_parked(PART, b"d")
    assert tries(fuse, 1, taken=False) == [True]  # one more try, and it is parked again


def test_another_difference_and_another_occasion_begin_anew():
    clock = Clock()
    fuse = Fuse(clock)
    tries(fuse, REPEATS - 1)
    assert tries(fuse, 1, digest=b"other") == [False]
    tries(fuse, REPEATS - 1)
    clock.now += NEAR_SECONDS + 1
    assert tries(fuse, 1) == [False]  # drift of another day
    assert tries(fuse, REPEATS - 1) == [False] * (REPEATS - 2) + [True]
    # What the server does not take is no drift, however seldom it is tried.
    slow = Fuse(clock)
    found = []
    for _ in range(REPEATS):
        found += tries(slow, 1, taken=False)
        clock.now += 10 * NEAR_SECONDS
    assert found[-1]


def test_what_is_parked_ends_when_it_is_in_step_or_the_tenant_changes_the_object():
    clock = Clock()
    fuse = Fuse(clock)
    tries(fuse, REPEATS)
    assert not fuse.settled(PART)  # in step for a moment after our own write
    assert fuse.parked()
    clock.now += NEAR_SECONDS
    assert fuse.settled(PART)
    assert not fuse.parked()
    tries(fuse, REPEATS)
    fuse.forget(PART.key)
    assert not fuse.is_parked(PART, b"d")


class Counted(str):
    """A name that counts how often it is hashed or compared."""

    looks = 0
    __slots__ = ()

    def __hash__(self) -> int:
        Counted.looks += 1
        return super().__hash__()

    def __eq__(self, other: object) -> bool:
        Counted.looks += 1
        return super().__eq__(other)


def many_parts(count: int) -> list[Part]:
    """Return parts of so many objects."""
    return [Part(PART.key._replace(name=Counted(number)), "super") for number in range(count)]


def test_a_write_costs_the_same_however_many_objects_there_are():
    fuse, parts = Fuse(Clock()), many_parts(4300)
    Counted.looks = 0
    for part in parts:
        fuse.wrote(part.key)
        fuse.tried(part, b"d", lambda: Outcome("spec.x", taken=True))
        fuse.tried(part._replace(side="tenant"), b"d", lambda: Outcome("spec.x", taken=True))
    for part in parts:
        fuse.wrote(part.key)
        fuse.forget(part.key)
    assert Counted.looks < 100 * len(parts)
    assert not fuse._repeats
    assert not fuse._parts


def test_what_is_remembered_of_writes_has_an_end_and_what_is_over_goes_first(monkeypatch):
    monkeypatch.setattr(fuses, "_MANY", 10)
    monkeypatch.setattr(fuses, "_MOST", 20)
    clock = Clock()
    fuse, parts = Fuse(clock), many_parts(60)
    for part in parts[:30]:
        for _ in range(WRITES + 1):
            fuse.wrote(part.key)
        fuse.tried(part, b"d", lambda: Outcome("", taken=True))
    assert list(fuse._repeats) == parts[10:30]
    memories = (fuse._windows, fuse._paused, fuse._repeats, fuse._parts)
    assert [len(memory) for memory in memories] == [20, 20, 20, 20]
    clock.now += PARK_SECONDS
    fuse.settled(parts[29])
    for part in parts[30:35]:
        for _ in range(WRITES + 1):
            fuse.wrote(part.key)
        fuse.tried(part, b"d", lambda: Outcome("", taken=True))
    assert [len(memory) for memory in memories] == [10, 10, 10, 10]
    assert list(fuse._repeats)[-5:] == parts[30:35]


def test_what_still_counts_is_not_forgotten_before_there_is_too_much_of_it(monkeypatch):
    monkeypatch.setattr(fuses, "_MANY", 10)
    monkeypatch.setattr(fuses, "_MOST", 20)
    clock = Clock()
    clock.now = PARK_SECONDS
    fuse, parts = Fuse(clock), many_parts(20)
    for part in parts:
        fuse.tried(part, b"d", lambda: Outcome("", taken=True))
    assert list(fuse._repeats) == parts


def test_a_keys_window_is_over_at_its_end_and_a_pause_as_well():
    clock = Clock()
    fuse, key = Fuse(clock), PART.key
    for _ in range(WRITES):
        fuse.wrote(key)
    clock.now += WINDOW_SECONDS
    fuse.wrote(key)
    assert fuse.pause(key) == 0.0
    for _ in range(WRITES - 1):
        fuse.wrote(key)
    assert fuse.pause(key) == 0.0
    fuse.wrote(key)
    assert fuse.pause(key) == PAUSE_SECONDS
    clock.now += PAUSE_SECONDS - 1
    assert fuse.pause(key) == 1.0
    fuse.wrote(key)  # it waits anew after each further one
    assert fuse.pause(key) == PAUSE_SECONDS
    assert fuse.pause(key._replace(name="other")) == 0.0
    clock.now += PAUSE_SECONDS
    assert fuse.pause(key) == 0.0
    assert not fuse._paused


def test_what_is_known_of_a_difference():
    clock = Clock()
    fuse = Fuse(clock)
    assert not fuse.knows(PART)
    asked: list[str] = []

    def outcome() -> Outcome:
        asked.append("")
        return Outcome(f"spec.{len(asked)}", taken=True)

    assert not fuse.tried(PART, b"d", outcome)
    assert (fuse.knows(PART), asked) == (True, [])  # most are written once
    assert not fuse.knows(PART._replace(side="tenant"))
    clock.now += NEAR_SECONDS
    for _ in range(REPEATS - 2):
        assert not fuse.tried(PART, b"d", outcome)
    assert fuse.parked() == {}
    assert fuse.tried(PART, b"d", outcome)
    assert fuse.parked() == {PART: f"spec.{REPEATS - 1}"}
    clock.now += PARK_SECONDS - 1
    assert fuse.is_parked(PART, b"d")
    assert fuse.parked()
    clock.now += 1
    assert not fuse.is_parked(PART, b"d")
    assert fuse.parked() == {}


def test_what_settles_is_forgotten_and_only_what_was_parked_is_told():
    clock = Clock()
    fuse = Fuse(clock)
    assert not fuse.settled(PART)
    tries(fuse, 1)
    clock.now += NEAR_SECONDS - 1
    assert not fuse.settled(PART)
    assert fuse.knows(PART)
    clock.now += 1
    assert not fuse.settled(PART)  # it was never parked
    assert not fuse.knows(PART)
    assert not fuse._parts
    both = (PART, PART._replace(side="tenant"))
    for part in both:
        fuse.tried(part, b"d", lambda: Outcome("", taken=True))
    clock.now += NEAR_SECONDS
    fuse.settled(PART)
    assert (fuse.knows(both[0]), fuse.knows(both[1])) == (False, True)
    fuse.forget(PART.key)
    assert not fuse.knows(both[1])
    fuse.forget(PART.key)


async def test_a_status_that_the_tenants_api_does_not_take_is_told_once_and_left():
    world = World()
    entry = world.tenant_has("Pod", "p", spec={}, status={})
    kind, key = registry.BY_NAME["Pod"], world.key("Pod", "web", "p")
    body = {"metadata": {"uid": "p-uid"}, "status": {"newer": "x"}}
    for _ in range(REPEATS + 3):
        await sync_up.write(
            kind, key, body, world.session, subresource="status", seen=Seen(entry, entry.decode())
        )
    assert len(world.above.writes("Pod")) == REPEATS
    assert world.told() == [parked_writes.REASON]
    assert "status.newer" in world.above.bodies[-1]["message"]
    assert "Pod web/p status.newer" in parked_writes.sentence(world.link)


@pytest.mark.parametrize("kind", ["PersistentVolumeClaim", "Service"])
def test_our_own_status_that_comes_back_does_not_count_as_the_tenants_change(kind):
    """Neither kind counts its generations."""
    world = World()
    wire_tenant(world.session)
    world.tenant_has(kind, "c", spec={"x": 1})
    part = Part(world.key(kind, "web", "c"), parked_writes.TENANT, "status")
    for _ in range(REPEATS):
        world.session.fuse.tried(part, b"d", lambda: Outcome("status.x", taken=True))
    world.tenant_has(kind, "c", spec={"x": 1}, status={"x": 2}, metadata={"resourceVersion": "51"})
    assert world.session.fuse.is_parked(part, b"d")
    world.tenant_has(kind, "c", spec={"x": 2}, status={"x": 2}, metadata={"resourceVersion": "52"})
    assert not world.session.fuse.is_parked(part, b"d")


async def test_a_twin_that_is_put_back_is_parked_with_its_path():
    world = World()
    world.ready()
    world.session.pods.references.set("web", "user", {downward_ref("c")})
    world.tenant_has("ConfigMap", "c", data={"a": "1"})
    key = world.key("ConfigMap", "web", "c")
    for number in range(REPEATS + 2):
        revision = {"resourceVersion": str(2000 + number)}
        world.super_has("ConfigMap", "c", data={"a": "theirs"}, metadata=revision)
        await sync_down.reconcile(registry.BY_NAME["ConfigMap"], key, world.session)
    assert len(world.below.writes("ConfigMap")) == REPEATS
    assert world.told() == [parked_writes.REASON]
    assert "data.a" in world.above.bodies[-1]["message"]


def downward_ref(name: str) -> Any:
    """Return a need for a ConfigMap."""
    from syncer.model.references import Ref  # noqa: PLC0415 - only here

    return Ref("ConfigMap", name)


# --- a tenant that refuses writes -----------------------------------------------------------------


def test_a_tenant_that_takes_nothing_of_a_kind_is_said_to_refuse_it():
    clock = Clock()
    refusals = Refusals(clock)
    for _ in range(REFUSED):
        refusals.refused("pods/status", "denied by a webhook")
    assert refusals.problem() == ""  # not for long enough
    clock.now += REFUSING_SECONDS
    assert refusals.problem() == "writes of pods/status are refused: denied by a webhook"
    for _ in range(REFUSED):
        refusals.refused("events", "no events")
    clock.now += REFUSING_SECONDS
    assert refusals.problem() == "writes of events, pods/status are refused: no events"
    refusals.accepted("events")
    assert refusals.problem()
    refusals.accepted("pods/status")
    assert refusals.problem() == ""
    for _ in range(REFUSED):
        refusals.refused("pods", "no")
    clock.now += FORGOTTEN_SECONDS  # nobody tries it any more
    assert refusals.problem() == ""


@pytest.mark.parametrize(
    ("method", "path", "what"),
    [
        ("GET", "/api/v1/namespaces/web/pods/p", ""),
        ("PATCH", "/api/v1/namespaces/web/pods/p/status", "pods/status"),
        ("POST", "/api/v1/namespaces/web/pods/p/binding", "pods/binding"),
        ("POST", "/api/v1/namespaces/web/events", "events"),
        ("PATCH", "/api/v1/nodes/n", "nodes"),
        ("PATCH", "/api/v1/namespaces/web", "namespaces"),
        ("POST", "/apis/networking.k8s.io/v1/ipaddresses", "ipaddresses"),
    ],
)
def test_what_a_request_writes(method, path, what):
    assert _written(method, path) == what


def test_what_counts_as_refused():
    gone = errors.Forbidden("m", details={"causes": [{"reason": "NamespaceTerminating"}]})
    refused = (errors.Forbidden("m"), errors.Invalid("m"), errors.ServerProblem("m"))
    assert all(_is_refusal(problem) for problem in refused)
    others = (gone, errors.NotFound("m"), errors.Conflict("m"), errors.TooManyRequests("m"))
    assert not any(_is_refusal(problem) for problem in others)


@pytest.mark.parametrize(
    ("answer", "is_all"),
    [
        ({"metadata": {"resourceVersion": "2", "labels": {"a": "1"}}, "status": {"x": 2}}, True),
        ({"metadata": {"resourceVersion": "2", "labels": {"a": "2"}}, "status": {"x": 2}}, False),
        ({"metadata": {"resourceVersion": "2"}, "status": {"x": 2}}, False),
        (
            {"metadata": {"labels": {"a": "1"}}, "status": {"x": 2, "y": 1}},
            False,
        ),
        ({"metadata": {"labels": {"a": "1"}}, "status": {"x": 2}, "spec": {"b": 1}}, False),
        ({"metadata": {"generation": 2, "labels": {"a": "1"}}, "status": {"x": 2}}, False),
    ],
    ids=["ours", "label-changed", "label-gone", "status-besides", "spec-besides", "counted"],
)
def test_an_answer_that_holds_more_than_was_there_and_sent_is_not_all_ours(answer, is_all):
    before = {"metadata": {"resourceVersion": "1", "labels": {"a": "1"}}, "status": {"y": 1}}
    patch = {"metadata": {"uid": "u"}, "status": {"x": 2, "y": None}}
    before["metadata"]["uid"] = answer["metadata"]["uid"] = "u"
    assert diff.is_all(before, patch, answer) is is_all
