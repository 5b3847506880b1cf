"""The queue between many hands: fair in any order of events, and nothing lost between workers."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from structlog.testing import capture_logs

from kubeio import errors
from kubeio.controller import fair_queue, round_robin
from kubeio.controller.fair_queue import FairQueue, QueueOptions
from kubeio.controller.worker import Done, NotReadyYet, RequeueAfter, Worker

WEIGHTS = {"a": 1, "b": 1, "c": 2, "d": 3}
LIMIT = 3
SHARE = 3
_KEYS = [f"{group}/{lane}{number}" for group in WEIGHTS for lane in "hl" for number in range(3)]

# Adding is one event, so that a script can starve a group on purpose.
SCRIPTS = st.lists(
    st.sampled_from(_KEYS) | st.just("take") | st.integers(0, 11), min_size=20, max_size=150
)
"""What happens: a key is wanted, one is taken, or the n-th of those in hand is given back."""


class GroupWaits:
    """A queue, and how long each group has been passed over while it could be served."""

    def __init__(self) -> None:
        self.queue: FairQueue[str] = FairQueue(
            QueueOptions(weight=WEIGHTS.__getitem__, max_in_flight=LIMIT),
            group=lambda key: key[0],
            clock=lambda: 0.0,
        )
        self.waiting: set[str] = set()
        self.again: set[str] = set()
        self.in_hand: list[str] = []
        self.passed = Counter[str]()
        self.highs = 0

    def can_be_served(self, lane: str) -> set[str]:
        """Return the groups that have a key of a lane and a free place."""
        places = Counter(key[0] for key in self.in_hand)
        return {key[0] for key in self.waiting if key[2] == lane and places[key[0]] < LIMIT}

    def add(self, key: str) -> None:
        """Want a key. It keeps to the lane in its name."""
        self.queue.add(key, low=key[2] == "l")
        (self.again if key in self.in_hand else self.waiting).add(key)

    def take(self) -> None:
        """Take a key and see that no one was passed over for too long."""
        high, low = self.can_be_served("h"), self.can_be_served("l")
        key = self.queue.take()
        if key is None:
            assert not high
            assert not low
            return
        assert key in self.waiting, "nobody wanted it"
        self.waiting.discard(key)
        self.in_hand.append(key)
        if key[2] == "l":
            self.highs = 0
            return
        self.highs = self.highs + 1 if low else 0
        assert self.highs <= SHARE, "the low lane starves"
        for group in high - {key[0]}:
            self.passed[group] += 1
            others = sum(WEIGHTS[other] for other in WEIGHTS if other != group)
            most = (round_robin.CREDIT + 2) * others
            assert self.passed[group] <= most, f"{group} is passed over"
        self.passed[key[0]] = 0
        self._forget_idle()

    def give_back(self, number: int) -> None:
        """Give a key back."""
        if self.in_hand:
            key = self.in_hand.pop(number % len(self.in_hand))
            self.queue.done(key)
            if key in self.again:
                self.again.discard(key)
                self.waiting.add(key)
        self._forget_idle()

    def _forget_idle(self) -> None:
        for group in WEIGHTS.keys() - self.can_be_served("h"):
            self.passed[group] = 0


def check_fairness(script: list[str | int]) -> None:
    """Play a script, in which the low lane's turn comes soon, and credit is small."""
    fairness = GroupWaits()
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(fair_queue, "LOW_LANE_SHARE", SHARE)
        patched.setattr(round_robin, "CREDIT", 1)
        for event in script:
            if event == "take":
                fairness.take()
            elif isinstance(event, int):
                fairness.give_back(event)
            else:
                fairness.add(event)


@settings(max_examples=40, deadline=None)
@given(SCRIPTS)
def test_no_client_that_can_be_served_is_passed_over_for_more_rounds_than_credit_has(script):
    check_fairness(script)


KEYS = [f"{group}{number}" for group in "xyz" for number in range(3)]


class InterleavedWorkers:
    """Workers that are slow, fail and wish again, and hands that want keys meanwhile."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)  # noqa: S311 - replays by its seed
        self.queue: FairQueue[str] = FairQueue(
            QueueOptions(max_in_flight=2, base_delay=1e-5, max_delay=1e-4), group=lambda key: key[0]
        )
        self.wanted = Counter[str]()
        self.settled = Counter[str]()
        self.in_hand: set[str] = set()

    async def reconcile(self, key: str) -> Done | RequeueAfter:
        """Work on a key: settled is what was wanted when the work began."""
        assert key not in self.in_hand, "two workers on one key"
        self.in_hand.add(key)
        seen = self.wanted[key]
        try:
            for _ in range(self.chance.randrange(4)):
                await asyncio.sleep(0)
            match self.chance.randrange(8):
                case 0:
                    raise NotReadyYet("for something")
                case 1:
                    raise errors.Conflict("somebody was faster")
                case 2:
                    raise errors.Unavailable("nobody there")
                case 3:
                    raise ValueError("a fault of ours")
                case 4:
                    self.settled[key] = seen
                    return RequeueAfter(1e-5)
            self.settled[key] = seen
            return Done()
        finally:
            self.in_hand.discard(key)

    async def want(self) -> None:
        """Want keys now and then, each in its own way."""
        for _ in range(self.chance.randrange(1, 30)):
            key = self.chance.choice(KEYS)
            self.wanted[key] += 1
            match self.chance.randrange(3):
                case 0:
                    self.queue.add(key, low=True)
                case 1:
                    self.queue.add_after(key, 1e-5)
                case _:
                    self.queue.add(key)
            for _ in range(self.chance.randrange(3)):
                await asyncio.sleep(0)

    async def run(self) -> None:
        """Let all of them loose, then see that everything wanted was settled."""
        worker = Worker(self.queue, self.reconcile, name="test", count=4)
        working = asyncio.ensure_future(worker.run())
        impatient = asyncio.ensure_future(self.queue.get())
        await asyncio.gather(*(self.want() for _ in range(3)), _ended(impatient, self.queue))
        async with asyncio.timeout(20):
            while any(self.settled[key] < count for key, count in self.wanted.items()):
                assert not working.done()
                await asyncio.sleep(0)
        self.queue.close()
        await working


async def _ended(waiter: asyncio.Future[str], keys: FairQueue[str]) -> None:
    """Give up waiting for a key. One that was given out all the same goes back."""
    await asyncio.sleep(0)
    waiter.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        key = await waiter
        keys.add(key)
        keys.done(key)


def check_hands(seed: int) -> None:
    """Let the hands of a seed loose, and their complaints go nowhere."""
    with capture_logs():
        asyncio.run(InterleavedWorkers(seed).run())


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_nothing_wanted_is_lost_between_workers_that_fail(seed):
    check_hands(seed)
