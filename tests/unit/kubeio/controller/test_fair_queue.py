"""The queue's promises, tried by a state machine against a plain model, and by hand."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from kubeio.controller.fair_queue import LOW_LANE_SHARE, FairQueue, QueueOptions
from kubeio.controller.round_robin import CREDIT

LIMIT = 2
GROUPS = ("red", "green")
KEYS = st.sampled_from([f"{group}/{number}" for group in GROUPS for number in range(4)])


class QueueClock:
    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


def _queue(clock=None, **options):
    defaults = {"max_in_flight": 100, "base_delay": 1.0, "max_delay": 60.0}
    return FairQueue(
        QueueOptions(**(defaults | options)),
        group=lambda key: key.split("/")[0],
        clock=clock or QueueClock(),
        chance=lambda: 1.0,
    )


def _drain(queue):
    order = []
    while (key := queue.take()) is not None:
        order.append(key)
        queue.done(key)
    return order


class QueueMachine(RuleBasedStateMachine):
    """No wish is lost, no key has two workers, no group has more than its places."""

    def __init__(self):
        super().__init__()
        self.clock = QueueClock()
        self.queue = _queue(self.clock, max_in_flight=LIMIT)
        self.wanted = set()  # ready now, or dirty while worked on
        self.due = {}  # wished for later
        self.working = set()

    def _mature(self):
        for key, due in list(self.due.items()):
            if due <= self.clock.now:
                del self.due[key]
                self.wanted.add(key)

    @rule(key=KEYS, low=st.booleans(), first=st.booleans())
    def add(self, key, low, first):
        self._mature()
        self.queue.add(key, low=low, first=first)
        self.wanted.add(key)
        self.due.pop(key, None)

    @rule(key=KEYS, seconds=st.integers(1, 20), low=st.booleans())
    def add_after(self, key, seconds, low):
        self.queue._promote_due()
        self._mature()
        self.queue.add_after(key, float(seconds), low=low)
        if key not in self.wanted:
            due = self.clock.now + seconds
            self.due[key] = min(self.due.get(key, due), due)

    @rule(key=KEYS, patient=st.booleans())
    def retry(self, key, patient):
        self.queue._promote_due()
        self._mature()
        seconds = self.queue.add_rate_limited(key, patient=patient)
        assert 0 < seconds <= 60.0
        if key not in self.wanted:
            due = self.clock.now + seconds
            self.due[key] = min(self.due.get(key, due), due)

    @rule(key=KEYS)
    def forget(self, key):
        self.queue.forget(key)
        assert self.queue.count_requeues(key) == 0

    @rule(seconds=st.integers(1, 30))
    def pass_time(self, seconds):
        self.clock.now += seconds

    @rule()
    def take(self):
        self._mature()
        key = self.queue.take()
        if key is None:
            places = Counter(k.split("/")[0] for k in self.working)
            stuck = [
                k for k in self.wanted if k not in self.working and places[k.split("/")[0]] < LIMIT
            ]
            assert stuck == [], "keys that could be worked on are not given out"
            return
        assert key not in self.working, "two workers on one key"
        assert key in self.wanted, "nobody wanted this"
        self.wanted.discard(key)
        self.working.add(key)

    @precondition(lambda self: self.working)
    @rule(data=st.data())
    def done(self, data):
        key = data.draw(st.sampled_from(sorted(self.working)))
        self.queue.done(key)
        self.working.discard(key)

    @rule(group=st.sampled_from(GROUPS))
    def drop_group(self, group):
        self._mature()
        self.queue.drop_group(group)
        self.wanted = {key for key in self.wanted if not key.startswith(f"{group}/")}
        self.due = {k: v for k, v in self.due.items() if not k.startswith(f"{group}/")}

    @invariant()
    def what_is_known_of_failing_keys_is_known_of_no_others(self):
        assert self.queue._delayed_until.keys() == self.queue._failures.keys()

    @invariant()
    def places_are_limited(self):
        places = Counter(key.split("/")[0] for key in self.working)
        assert all(count <= LIMIT for count in places.values())
        seen = self.queue.snapshot()
        assert set(seen["processing"]) == self.working
        in_hand = {f"{group}/{number}" for group in GROUPS for number in range(4)}
        assert {key for key in in_hand if self.queue.is_processing(key)} == self.working

    @invariant()
    def depth_is_what_waits(self):
        self.queue._promote_due()
        self._mature()
        assert len(self.queue) == len(self.wanted - self.working)

    def teardown(self):
        for key in self.working:
            self.queue.done(key)
        self._mature()
        seen = set()
        for _ in range(3):
            seen.update(_drain(self.queue))
            self.clock.now += 100.0
        assert seen == self.wanted | set(self.due), "a wish was lost or invented"
        left = self.queue.snapshot()
        assert (left["groups"], left["delayed"], left["dirty"]) == ({}, {}, [])


TestQueueMachine = QueueMachine.TestCase
TestQueueMachine.settings = settings(max_examples=150, stateful_step_count=60, deadline=None)


@given(sizes=st.lists(st.integers(1, 30), min_size=1, max_size=6))
def test_groups_with_work_take_turns(sizes):
    """REL-76: one key each, however many are wanted."""
    queue = _queue()
    for group, size in enumerate(sizes):
        for number in range(size):
            queue.add(f"g{group}/{number}")
    served = Counter()
    order = _drain(queue)
    assert sorted(order) == sorted(f"g{g}/{n}" for g, size in enumerate(sizes) for n in range(size))
    for key in order:
        served[key.split("/")[0]] += 1
        waiting = [f"g{g}" for g, size in enumerate(sizes) if served[f"g{g}"] < size]
        counts = [served[group] for group in waiting]
        assert not counts or max(counts) - min(counts) <= CREDIT + 2
    large = [key.split("/")[0] for key in order if sizes[int(key[1 : key.index("/")])] == 30]
    for begin in range(0, len(large) - 10 * len(set(large)), len(set(large)) or 1):
        turns = large[begin : begin + len(set(large))]
        assert len(set(turns)) == len(turns), "equals are served in turn"


def test_a_newcomer_waits_for_one_round_at_most():
    queue = _queue()
    for group in range(5):
        for number in range(1000):
            queue.add(f"greedy{group}/{number}")
    for _ in range(37):
        queue.done(queue.take())
    queue.add("victim/1")
    before = 0
    while (key := queue.take()) != "victim/1":
        queue.done(key)
        before += 1
    assert before <= 5


def _with_greedy(**options):
    queue = _queue(**options)
    for group in range(5):
        for number in range(1000):
            queue.add(f"greedy{group}/{number}")
    for _ in range(100):
        queue.done(queue.take())
    return queue


def _passed_before_each(queue, keys):
    """Return how many keys of others came before each of these, one wanted after the other."""
    found = []
    for wanted in keys:
        queue.add(wanted)
        before = 0
        while (key := queue.take()) != wanted:
            queue.done(key)
            before += 1
        queue.done(wanted)
        found.append(before)
    return found


def test_what_an_idle_group_wants_now_and_then_comes_before_what_others_want_all_the_time():
    queue = _with_greedy()
    assert _passed_before_each(queue, [f"small/{n}" for n in range(CREDIT)]) == [0] * CREDIT


def test_a_group_that_goes_on_wanting_comes_in_its_turn_like_the_others():
    queue = _with_greedy()
    passed = _passed_before_each(queue, [f"small/{n}" for n in range(100)])
    assert passed[-50:] == [5] * 50


def test_a_group_with_much_to_do_has_no_start_on_others():
    queue = _with_greedy()
    for number in range(1000):
        queue.add(f"late/{number}")
    served = Counter(key.split("/")[0] for key in (queue.take() for _ in range(60)))
    assert max(served.values()) - min(served.values()) <= 2, served


def test_turns_that_were_taken_from_no_one_do_not_count():
    queue = _queue()
    for number in range(100):
        queue.add(f"busy/{number}")
        queue.done(queue.take())
    for number in range(CREDIT):
        queue.add(f"other/{number}")
    queue.add("busy/again")
    assert [queue.take() for _ in range(2)] == ["other/0", "busy/again"]


def test_a_dropped_group_begins_again():
    queue = _with_greedy()
    _passed_before_each(queue, [f"small/{n}" for n in range(50)])
    queue.drop_group("small")
    assert _passed_before_each(queue, ["small/again"]) == [0]


def test_weights_are_keys_in_a_row():
    queue = _queue(weight=lambda group: 3 if group == "big" else 1)
    for number in range(6):
        queue.add(f"big/{number}")
        queue.add(f"small/{number}")
    order = [key.split("/")[0] for key in _drain(queue)]
    assert order[:8] == ["big"] * 3 + ["small"] + ["big"] * 3 + ["small"]


def test_another_weight_counts_from_the_next_turn_on():
    weights = {"big": 3, "small": 1}
    queue = _queue(weight=weights.__getitem__)
    for number in range(20):
        queue.add(f"big/{number}")
        queue.add(f"small/{number}")
    for _ in range(4):
        queue.done(queue.take())
    weights["big"] = 2
    order = [key.split("/")[0] for key in _drain(queue)]
    assert order[:6] == ["big"] * 2 + ["small"] + ["big"] * 2 + ["small"]


def test_low_keys_come_after_high_ones_but_come():
    """REL-80."""
    queue = _queue()
    queue.add("a/low", low=True)
    for number in range(100):
        queue.add(f"b/{number}")
    order = _drain(queue)
    assert order.index("a/low") == LOW_LANE_SHARE


def test_a_low_key_that_becomes_urgent_moves_up_and_not_down_again():
    queue = _queue()
    queue.add("a/1", low=True)
    queue.add("a/2")
    queue.add("a/1")
    queue.add("a/1", low=True)
    queue.add("b/1", low=True)
    assert _drain(queue) == ["a/2", "a/1", "b/1"]


@pytest.mark.parametrize("before", [None, False, True], ids=["new", "high", "low"])
def test_what_others_wait_for_goes_before_them_and_passes_no_other_group(before):
    queue = _queue()
    for key in ("red/1", "green/1", "red/2", "green/2"):
        queue.add(key)
    if before is not None:
        queue.add("green/first", low=before)
    queue.add("green/first", first=True)
    assert _drain(queue) == ["red/1", "green/first", "red/2", "green/1", "green/2"]


def test_a_greedy_group_has_its_places_and_nothing_else():
    """REL-76."""
    queue = _queue(max_in_flight=3)
    for number in range(10):
        queue.add(f"greedy/{number}")
    held = [queue.take() for _ in range(3)]
    assert queue.take() is None
    queue.add("other/1")
    assert queue.take() == "other/1"
    queue.done(held[0])
    assert queue.take() == "greedy/3"


def test_a_full_group_stays_full_when_more_comes():
    queue = _queue(max_in_flight=1)
    queue.add("a/1")
    assert queue.take() == "a/1"
    queue.add("a/2")
    queue.add("a/3", low=True)
    assert queue.take() is None


def test_what_became_urgent_while_worked_on_stays_urgent():
    queue = _queue()
    queue.add("a/1")
    queue.take()
    queue.add("a/1")
    queue.add("a/1", low=True)
    queue.add("b/1", low=True)
    queue.add("b/2")
    queue.done("a/1")
    assert _drain(queue) == ["b/2", "a/1", "b/1"]


def test_delays_double_per_key_until_forgotten():
    queue = _queue()
    assert [queue.add_rate_limited("a/1") for _ in range(8)] == [1, 2, 4, 8, 16, 32, 60, 60]
    assert queue.add_rate_limited("a/2") == 1
    queue.forget("a/1")
    assert queue.add_rate_limited("a/1") == 1


def test_an_earlier_wish_replaces_a_later_one_and_not_the_other_way_round():
    clock = QueueClock()
    queue = _queue(clock)
    queue.add_after("a/1", 100)
    queue.add_after("a/1", 10)
    queue.add_after("a/1", 50)
    clock.now = 10.0
    assert _drain(queue) == ["a/1"]
    clock.now = 200.0
    assert _drain(queue) == []


def test_a_delay_that_was_replaced_rings_no_more():
    clock = QueueClock()
    queue = _queue(clock)
    queue.add_after("a/1", 100)
    queue.add("a/1")
    assert _drain(queue) == ["a/1"]
    queue.add_after("a/1", 500)
    clock.now = 100.0
    assert _drain(queue) == []
    clock.now = 500.0
    assert _drain(queue) == ["a/1"]


def test_working_on_a_key_ends_its_pending_delay():
    clock = QueueClock()
    queue = _queue(clock)
    queue.add_after("a/1", 100)
    queue.add("a/1")
    assert _drain(queue) == ["a/1"]
    clock.now = 200.0
    assert _drain(queue) == []


def test_a_far_delay_renewed_often_leaves_no_heap_behind():
    queue = _queue()
    for _ in range(10_000):
        queue.add("a/1")
        queue.add_after(queue.take(), 3600)
        queue.done("a/1")
    assert len(queue._heap) < 3000


def test_a_dropped_group_that_comes_back_still_never_has_two_workers():
    """REL-11."""
    queue = _queue()
    queue.add("a/1")
    queue.take()
    queue.drop_group("a")
    queue.add("a/1")
    assert queue.take() is None
    queue.done("a/1")
    assert queue.take() == "a/1"


def test_giving_back_what_was_not_taken_is_a_bug():
    with pytest.raises(KeyError):
        _queue().done("a/1")


def test_the_snapshot_reports_what_is_going_on():
    clock = QueueClock()
    queue = _queue(clock, name="q")
    queue.add("a/1")
    queue.add("a/2", low=True)
    queue.add_after("b/1", 5)
    queue.add_rate_limited("c/1")
    queue.take()
    queue.add("a/1")
    clock.now = 2.0
    seen = queue.snapshot()
    assert seen["groups"]["a"] == {"high": [], "low": ["a/2"], "in_flight": 1, "weight": 1}
    assert seen["processing"] == {"a/1": 2.0}
    assert seen["dirty"] == ["a/1"]
    assert seen["delayed"] == {"b/1": 3.0, "c/1": -1.0}
    assert seen["failures"] == {"c/1": 1}
    assert queue.unfinished_work_seconds() == 2.0


def test_keys_that_failed_can_be_hurried_and_nothing_else_is():
    clock = QueueClock()
    queue = _queue(clock)
    for key in ("red/1", "red/2", "red/3", "green/1"):
        queue.add_rate_limited(key)
        queue.add_rate_limited(key)
    queue.add_after("red/4", 30.0)  # wished for later, never failed
    assert queue.retry_group_now("red", limit=1) == 1
    assert _drain(queue) == ["red/1"]
    assert queue.count_requeues("red/1") == 2  # it only tries
    queue.add_rate_limited("red/1")
    assert queue.retry_group_now("red", limit=1) == 1
    assert _drain(queue) == ["red/2"]
    assert queue.retry_group_now("red", forget=True) == 2
    assert set(_drain(queue)) == {"red/1", "red/3"}
    assert queue.count_requeues("red/3") == 0
    assert queue.count_requeues("green/1") == 2
    clock.now = 100.0
    assert set(_drain(queue)) == {"red/4", "green/1"}


def test_a_key_has_been_wanted_since_its_first_try_until_one_succeeds():
    clock = QueueClock()
    queue = _queue(clock)
    queue.add("red/1")
    clock.now = 2.0
    assert queue.get_age("red/1") is None  # no one works on it
    key = queue.take()
    assert queue.get_age(key) == 2.0
    queue.add_rate_limited(key)
    queue.done(key)
    clock.now = 10.0
    assert queue.take() == key
    assert queue.get_age(key) == 10.0
    queue.forget(key)  # it succeeded
    queue.done(key)
    assert queue.get_age(key) is None
    queue.add(key)
    clock.now = 11.0
    assert queue.take() == key
    assert queue.get_age(key) == 1.0
    assert (queue.count_processing(), queue.longest_running_seconds()) == (1, 0.0)
    clock.now = 14.0
    assert queue.longest_running_seconds() == 3.0
    queue.done(key)
    assert (queue.count_processing(), queue.longest_running_seconds()) == (0, 0.0)


def test_a_group_that_is_dropped_leaves_no_age():
    queue = _queue(QueueClock())
    for key in ("red/1", "red/2", "green/1"):
        queue.add(key)
    for _ in range(3):
        key = queue.take()
        queue.add_rate_limited(key)
        queue.done(key)
    queue.drop_group("red")
    queue.forget("green/1")
    assert [queue.get_age(key) for key in ("red/1", "red/2", "green/1")] == [None] * 3
