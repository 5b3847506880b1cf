"""The queue's promises, tried at length: the same properties as in the unit tests."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.kubeio.controller.test_fair_queue import QueueMachine
from tests.unit.kubeio.controller.test_fair_queue_interleaved import (
    SCRIPTS,
    check_fairness,
    check_hands,
)


class LongQueueMachine(QueueMachine):
    """The same machine with settings of its own."""


TestQueueMachine = LongQueueMachine.TestCase
TestQueueMachine.settings = settings(max_examples=400, stateful_step_count=80, deadline=None)


@settings(max_examples=1500, deadline=None)
@given(SCRIPTS)
def test_no_client_that_can_be_served_is_passed_over_for_more_rounds_than_credit_has(script):
    check_fairness(script)


@settings(max_examples=1000, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_nothing_wanted_is_lost_between_workers_that_fail(seed):
    check_hands(seed)
