"""Faults that both drivers share: which one a step chooses, and which request it strikes."""

from __future__ import annotations

import pytest

from tests.chaos import faults
from tests.chaos.faults import ArmedFault
from tests.chaos.memory import network
from tests.chaos.processes import faults as proxied


@pytest.mark.parametrize("table", [network.FAULTS, proxied.FAULTS], ids=["memory", "processes"])
def test_each_driver_has_every_shared_fault(table):
    assert set(faults.METHODS) <= set(table)
    assert set(faults.ANSWERS) <= set(faults.METHODS)


@pytest.mark.parametrize(
    ("numbers", "expected"),
    [
        ((0, 0, 0, 0, 0), ArmedFault("super", "a", 0.01, 0, 1)),
        ((0, 4, 3, 4, 4), ArmedFault("super", "b", 4.0, 8, 20)),
        ((0, 998, 997, 996, 999), ArmedFault("super", "c", 0.2, 0, 20)),
    ],
)
def test_numbers_choose_the_fault(numbers, expected):
    assert faults.arm("super", ("a", "b", "c"), numbers) == expected


@pytest.mark.parametrize(
    ("armed", "struck"),
    [
        ([ArmedFault("super", "500", 0.0, 0, 2)], [0, 1]),
        ([ArmedFault("super", "500", 0.0, 2, 1)], [2]),
        ([ArmedFault("tenant0", "500", 0.0, 0, 9)], []),
        ([ArmedFault("super", "409", 0.0, 0, 9)], []),
        ([ArmedFault("super", "500", 0.0, 1, 1), ArmedFault("super", "500", 0.0, 0, 1)], [0, 1]),
    ],
    ids=["twice", "after two requests", "another side", "another request", "two armed"],
)
def test_armed_fault_strikes_its_requests_alone(armed, struck):
    found = [
        number
        for number in range(5)
        if faults.take_strike(armed, "super", lambda kind: kind == "500") is not None
    ]
    assert found == struck


@pytest.mark.parametrize(
    ("numbers", "cut", "held"),
    [
        ((0, 1, 0), "abcd", "abcd"),
        ((0, 0, 1), "b", "ab"),
        ((0, 2, 0), "ad", "abcd"),
        ((0, 3, 3), "abcd", "abcd"),
    ],
)
def test_watches_that_break_or_fall_behind(numbers, cut, held):
    assert "".join(faults.select_cut("abcd", numbers)) == cut
    assert "".join(faults.select_held("abcd", numbers)) == held


def test_held_lines_come_in_every_order():
    lines = [b"one\n", b"two\n"]
    orders = {
        number: b"".join(faults.get_order((0, 0, 0, number))(list(lines))) for number in range(6)
    }
    assert set(orders.values()) == {
        b"one\ntwo\n",
        b"one\none\ntwo\ntwo\n",
        b"two\none\n",
        b"one\ntwo\none\ntwo\n",
        b"one\ntw\n",
    }
