import pytest

from vcmanager.phases.etcd.maintenance import choose_maintenance_step, compute_filling
from vcmanager.runtime.etcd_stores import EtcdObservation, Member, MemberStatus

LIMIT = 1000 * 2**20


def store(*sizes, leader=0, alarmed=(), away=()):
    """Return a store. Each member has its file and its data in percent of the limit."""
    members = tuple(
        Member(id=str(number), peer_url=f"https://etcd-{number}", ordinal=number)
        for number in range(len(sizes))
    )
    statuses = {
        str(number): MemberStatus(
            has_leader=True,
            is_leader=number == leader,
            size=size * LIMIT // 100,
            used=used * LIMIT // 100,
            limit=LIMIT,
        )
        for number, (size, used) in enumerate(sizes)
        if number not in away
    }
    return EtcdObservation(members=members, statuses=statuses, alarmed=frozenset(map(str, alarmed)))


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        pytest.param(store((50, 5)), ("settled", None), id="far from the limit"),
        pytest.param(store((79, 20)), ("settled", None), id="one member waits longer"),
        pytest.param(store((80, 20)), ("defragment", "0"), id="one member"),
        pytest.param(store((95, 94)), ("settled", None), id="nothing is free"),
        pytest.param(store((60, 20), (60, 20), (60, 20)), ("defragment", "1"), id="leader last"),
        pytest.param(store((60, 20), (20, 20), (60, 20)), ("defragment", "2"), id="one after one"),
        pytest.param(store((60, 20), (20, 20), (20, 20)), ("defragment", "0"), id="the leader"),
        pytest.param(
            store((60, 20), (60, 20), (60, 20), away={2}), ("settled", None), id="never two away"
        ),
        pytest.param(store((20, 20), (20, 20), (20, 20)), ("settled", None), id="done"),
        pytest.param(store((99, 98), alarmed=[0]), ("settled", None), id="full"),
        pytest.param(store((99, 90), alarmed=[0]), ("defragment", "0"), id="some is free"),
        pytest.param(store((89, 80), alarmed=[0]), ("disarm", "0"), id="room again"),
        pytest.param(store((50, 40), alarmed=[0]), ("disarm", "0"), id="the limit was raised"),
        pytest.param(
            store((50, 40), (95, 40), (50, 40), alarmed=[0, 1]),
            ("defragment", "1"),
            id="all need room",
        ),
        pytest.param(
            store((50, 40), (50, 40), (50, 40), alarmed=[1]), ("disarm", "1"), id="its own alarm"
        ),
    ],
)
def test_one_member_at_a_time_is_defragmented_and_the_alarm_ends_with_room(found, expected):
    """REL-122."""
    step = choose_maintenance_step(found)
    assert (step.action, step.member.id if step.member is not None else None) == expected


def test_an_etcd_that_does_not_report_its_limit_is_left_alone():
    status = MemberStatus(has_leader=True, is_leader=True, size=10, used=1)
    members = (Member(id="0", peer_url="u", ordinal=0),)
    found = EtcdObservation(members=members, statuses={"0": status})
    assert choose_maintenance_step(found).action == "settled"
    assert compute_filling(found, was_filling=False) is None


@pytest.mark.parametrize(
    ("found", "was_filling", "expected"),
    [
        (store((99, 74)), False, (False, "SpaceLeft")),
        (store((99, 75)), False, (True, "AboveThreshold")),
        (store((99, 70)), True, (True, "AboveThreshold")),
        (store((99, 69)), True, (False, "SpaceLeft")),
        (store((20, 10), (90, 80), (20, 10)), False, (True, "AboveThreshold")),
        (store((99, 10), alarmed=[0]), False, (True, "NoSpace")),
    ],
)
def test_filling_is_reported_before_the_limit_and_does_not_flap(found, was_filling, expected):
    """REL-122."""
    result = compute_filling(found, was_filling=was_filling)
    assert result is not None
    assert result[:2] == expected


def test_the_message_is_the_same_for_five_percent():
    messages = {compute_filling(store((99, used)), was_filling=False) for used in range(75, 80)}
    assert len(messages) == 1
    (found,) = messages
    assert "75 % of its limit of 1000 MiB" in found[2]
