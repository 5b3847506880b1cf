import pytest

from kubeio.controller.round_robin import CREDIT, GroupRing, QueueGroup

MANY = 1000


def run_turns(ring: GroupRing[str], waiting: dict[str, int], most: int = MANY) -> str:
    """Run turns of one key each. Returns the groups in the order of their turns."""
    groups = {name: QueueGroup[str](name) for name in waiting}
    for name, count in waiting.items():
        if count:
            ring.add(groups[name])
    order = ""
    while ring and len(order) < most:
        group = ring.peek()
        waiting[group.name] -= 1
        order += group.name
        if not waiting[group.name]:
            ring.remove(group.name)
        ring.finish_turn(group, waiting[group.name])
    return order


def test_groups_take_turns():
    assert run_turns(GroupRing(), {"a": 3, "b": 3, "c": 1}) == "abcabab"


@pytest.mark.parametrize(
    ("waiting", "turns_in_a_row"),
    [(1, 1), (CREDIT, CREDIT), (CREDIT + 20, 2)],
    ids=["one key", "as many keys as credit", "too many keys for credit"],
)
def test_group_that_was_idle_comes_first(waiting, turns_in_a_row):
    ring, busy = GroupRing[str](), {"a": MANY, "b": MANY}
    run_turns(ring, busy, most=40)
    order = run_turns(ring, {**busy, "i": waiting}, most=40)
    assert order.count("i") >= turns_in_a_row
    assert order.lstrip("i") == order[turns_in_a_row:]


def test_group_that_returns_has_no_second_credit():
    ring, busy = GroupRing[str](), {"a": MANY, "b": MANY}
    run_turns(ring, busy, most=40)
    order = "".join(run_turns(ring, {**busy, "i": 1}, most=3) for _ in range(4 * CREDIT))
    first, rest = order[: 3 * CREDIT], order[3 * CREDIT :]
    assert first.count("i") == CREDIT
    assert rest.count("a") >= rest.count("i") - 1
    assert rest.count("b") >= rest.count("i") - 1


def test_removed_group_has_no_turn():
    ring, one, other = GroupRing[str](), QueueGroup[str]("one"), QueueGroup[str]("other")
    for group in (one, other, one):
        ring.add(group)
    ring.remove("one")
    assert ring.peek() is other
    ring.forget("other")
    assert not ring
