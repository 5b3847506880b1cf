"""The stages of a rotation, as a table, and under crashes at any point."""

from dataclasses import dataclass, field, replace
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.vcmanager.factories import NOW
from vcmanager.pki import rotation
from vcmanager.pki.authority import KeyPair
from vcmanager.pki.rotation import (
    AuthorityKeys,
    RotationRequest,
    RotationState,
    RotationWaits,
)

MINUTE = timedelta(minutes=1)
WAITS = RotationWaits(trust=10 * MINUTE, drop=60 * MINUTE)
COUNTED = RotationWaits(trust=10 * MINUTE, drop=60 * MINUTE, needs_census=True)
LIFELONG = RotationWaits(trust=10 * MINUTE, drop=60 * MINUTE, is_lifetime=True)
BEFORE = NOW - timedelta(days=1)
START = RotationRequest(start=NOW)
FORCED = RotationRequest(start=NOW, force_drop=NOW + MINUTE)
STALE_FORCE = RotationRequest(start=NOW, force_drop=BEFORE)


def state(stage, settled=None, requested=NOW):
    return RotationState(stage=stage, settled=settled, requested=requested)


ROWS = [
    # stage, settled, request, minutes later, move
    (RotationState(), RotationRequest(), 0, None),
    (RotationState(), START, 0, "start"),
    (state("stable"), START, 0, None),
    (state("stable", requested=BEFORE), START, 0, "start"),
    (state("trust-both"), START, 9999, None),
    (state("trust-both"), FORCED, 9999, None),
    (state("trust-both", NOW), START, 9, None),
    (state("trust-both", NOW), FORCED, 9, None),
    (state("trust-both", NOW), START, 10, "issue"),
    (state("trust-both", NOW), RotationRequest(), 10, "issue"),
    (state("issue-new"), FORCED, 9999, None),
    (state("issue-new", NOW), START, 59, None),
    (state("issue-new", NOW), START, 60, "drop"),
    (state("issue-new", NOW), FORCED, 4, None),
    (state("issue-new", NOW), FORCED, 5, "drop"),
    (state("issue-new", NOW), STALE_FORCE, 59, None),
    (state("issue-new", NOW), RotationRequest(), 60, "drop"),
]


@pytest.mark.parametrize(("before", "request_", "minutes", "move"), ROWS)
def test_a_move_is_due_only_after_its_stage_is_settled_and_its_wait_is_over(
    before, request_, minutes, move
):
    now = NOW + minutes * MINUTE
    assert rotation.choose_move(before, request_, WAITS, now=now) == move


def test_the_old_authority_is_kept_for_the_life_of_what_it_signed():
    found = rotation.compute_due(state("issue-new", NOW), START, LIFELONG, lifetime=90 * MINUTE)
    assert found == NOW + 90 * MINUTE
    assert rotation.compute_due(state("issue-new", NOW), START, LIFELONG) == NOW + 60 * MINUTE
    assert rotation.compute_due(state("issue-new", NOW), FORCED, LIFELONG) == NOW + 5 * MINUTE


def test_the_old_authority_is_kept_until_its_last_known_kubeconfig_ends():
    """REL-164: a lower spec.pkiExpireDays does not end the kubeconfigs of before."""
    before = replace(state("issue-new", NOW), signed_until=NOW + 300 * MINUTE)
    assert rotation.compute_due(before, START, LIFELONG) == NOW + 300 * MINUTE
    assert rotation.choose_move(before, START, LIFELONG, now=NOW + 299 * MINUTE) is None
    assert rotation.choose_move(before, START, LIFELONG, now=NOW + 300 * MINUTE) == "drop"
    assert rotation.choose_move(before, FORCED, LIFELONG, now=NOW + 5 * MINUTE) == "drop"


@pytest.mark.parametrize(
    ("request_", "minutes", "cleared", "is_due", "move"),
    [
        (START, 59, None, False, None),
        (START, 60, None, True, None),
        (START, 9999, None, True, None),
        (START, 60, NOW, False, "drop"),
        (START, 59, NOW, False, None),
        (FORCED, 5, None, False, "drop"),
        (STALE_FORCE, 60, None, True, None),
    ],
)
def test_a_counted_authority_is_dropped_after_its_census_or_by_force(
    request_, minutes, cleared, is_due, move
):
    before, now = replace(state("issue-new", NOW), cleared=cleared), NOW + minutes * MINUTE
    assert rotation.is_census_due(before, request_, COUNTED, now=now) == is_due
    assert rotation.choose_move(before, request_, COUNTED, now=now) == move
    assert not rotation.is_census_due(before, request_, WAITS, now=now)


def test_a_drop_forgets_what_was_counted():
    before = replace(state("issue-new", NOW), cleared=NOW, signed_until=NOW)
    after, _ = rotation.apply_move(
        "drop", before, AuthorityKeys(current=pair("b")), made=pair("c"), start=NOW
    )
    assert after == state("stable")


def test_each_authority_has_its_waits():
    assert set(rotation.WAITS) == {
        *("serving", "client", "etcd", "front-proxy", "agent-client", "service-account")
    }
    assert all(row.trust >= rotation.PROPAGATION for row in rotation.WAITS.values())
    assert all(row.drop >= rotation.PROPAGATION for row in rotation.WAITS.values())


def pair(name: str) -> KeyPair:
    return KeyPair(f"{name}\n".encode(), f"{name}-key".encode())


def test_the_old_key_is_removed_as_soon_as_the_new_one_signs():
    _, keys = rotation.apply_move(
        "start", RotationState(), AuthorityKeys(current=pair("a")), made=pair("b"), start=NOW
    )
    assert (keys.current, keys.build_trust()) == (pair("a"), b"a\nb\n")
    after, keys = rotation.apply_move(
        "issue", state("trust-both", NOW), keys, made=pair("c"), start=NOW
    )
    assert after == state("issue-new")
    assert (keys.current, keys.build_trust()) == (pair("b"), b"a\nb\n")
    assert keys.other is not None
    assert keys.other.key == b""
    after, keys = rotation.apply_move("drop", after, keys, made=pair("c"), start=NOW)
    assert after == state("stable")
    assert (keys.current, keys.build_trust()) == (pair("b"), b"b\n")


@dataclass
class Program:
    """A server or client that runs with the files of some earlier reconcile."""

    signer: str
    trusted: frozenset[str]


@dataclass
class World:
    """One authority, its stored state, and programs that get files one after the other."""

    stored: tuple[RotationState, AuthorityKeys] = field(
        default_factory=lambda: (RotationState(), AuthorityKeys(current=pair("0")))
    )
    programs: list[Program] = field(
        default_factory=lambda: [Program("0", frozenset({"0"})) for _ in range(3)]
    )
    now: int = 0
    made: int = 0
    request: RotationRequest = field(default_factory=RotationRequest)

    def wanted(self) -> Program:
        _, keys = self.stored
        trusted = frozenset(keys.build_trust().decode().split())
        return Program(keys.current.certificate.decode().strip(), trusted)

    def check(self) -> None:
        """Each program accepts each other one, whatever files they have."""
        for server in self.programs:
            assert all(server.signer in client.trusted for client in self.programs)


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("reconcile"), st.booleans()),
        st.tuples(st.just("settle"), st.booleans()),
        st.tuples(st.just("roll"), st.integers(0, 2)),
        st.tuples(st.just("wait"), st.integers(1, 90)),
        st.tuples(st.just("request"), st.booleans()),
    ),
    max_size=120,
)


def reconcile(world: World, *, crashes: bool) -> None:
    """Move on. A crash comes before the single write of state and keys."""
    now = NOW + world.now * MINUTE
    before, keys = world.stored
    move = rotation.choose_move(before, world.request, WAITS, now=now)
    if move is None or crashes:
        return
    world.made += 1
    world.stored = rotation.apply_move(
        move, before, keys, made=pair(str(world.made)), start=world.request.start
    )


def settle(world: World, *, crashes: bool) -> None:
    if not crashes and all(program == world.wanted() for program in world.programs):
        before, keys = world.stored
        world.stored = (rotation.settle(before, NOW + world.now * MINUTE), keys)


@given(STEPS)
def test_every_program_trusts_every_other_at_any_point_and_a_rotation_always_ends(steps):
    world = World()
    for kind, value in steps:
        if kind == "reconcile":
            reconcile(world, crashes=value)
        elif kind == "settle":
            settle(world, crashes=value)
        elif kind == "roll":
            world.programs[value] = world.wanted()
        elif kind == "wait":
            world.now += value
        else:
            now = NOW + world.now * MINUTE
            world.request = RotationRequest(start=now, force_drop=now if value else None)
        world.check()
    for _ in range(6):
        reconcile(world, crashes=False)
        for number in range(3):
            world.programs[number] = world.wanted()
            world.check()
        settle(world, crashes=False)
        world.now += 90
    assert world.stored[0].stage == "stable"
    assert len({program.signer for program in world.programs}) == 1
    assert all(program.trusted == {program.signer} for program in world.programs)


@pytest.mark.parametrize(
    ("before", "request_", "move"),
    [
        (RotationState(), RotationRequest(), None),
        (RotationState(), START, "replace"),
        (state("stable"), START, None),  # this request was served
        (state("trust-both"), START, "replace"),
        (state("trust-both", NOW), RotationRequest(), "replace"),
        (state("issue-new", NOW), START, None),
        (state("issue-new", NOW, requested=BEFORE), START, "replace"),
    ],
)
def test_an_ended_authority_is_replaced_in_one_move_on_request(before, request_, move):
    assert rotation.choose_move(before, request_, WAITS, now=NOW, is_ended=True) == move


@pytest.mark.parametrize(
    ("stage", "signs"), [("stable", "new"), ("trust-both", "next"), ("issue-new", "new")]
)
def test_only_the_replacement_of_an_ended_authority_is_trusted(stage, signs):
    keys = AuthorityKeys(current=pair("ended"), other=None if stage == "stable" else pair("next"))
    after, made = rotation.apply_move(
        "replace", state(stage, NOW, requested=BEFORE), keys, made=pair("new"), start=NOW
    )
    assert (after, made) == (state("stable"), AuthorityKeys(current=pair(signs)))
