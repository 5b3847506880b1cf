"""Keys that take too much per second wait, and none tries without end."""

from __future__ import annotations

import pytest
from structlog.testing import capture_logs

from kubeio.controller.bucket_rate_limiter import MAX_DELAY_SECONDS, BucketRateLimiter
from kubeio.controller.worker import NotReadyYet


class Clock:
    """A time that a test moves."""

    now = 100.0

    def __call__(self) -> float:
        return self.now


def refuse(bucket: BucketRateLimiter, count: int = 1_000) -> float:
    """Return the delay of a key that has to wait."""
    with pytest.raises(NotReadyYet) as raised:
        bucket.take(count)
    assert raised.value.after is not None
    return raised.value.after


def test_a_burst_passes_and_then_the_rate_holds():
    clock = Clock()
    bucket = BucketRateLimiter(500.0, 3_000, clock=clock)
    for _ in range(3):
        bucket.take(1_000)
    assert refuse(bucket) == 0.001
    taken = 0
    for _ in range(1_000):
        clock.now += 0.1
        try:
            bucket.take(1_000)
        except NotReadyYet:
            continue
        taken += 1_000
    assert 49_000 <= taken <= 51_000


def test_an_idle_group_has_one_burst_and_not_more():
    clock = Clock()
    bucket = BucketRateLimiter(500.0, 3_000, clock=clock)
    clock.now += 1_000_000
    for _ in range(3):
        bucket.take(1_000)
    refuse(bucket)


def test_more_than_a_burst_passes_at_once_and_is_waited_for():
    bucket = BucketRateLimiter(500.0, 100, clock=Clock())
    bucket.take(2_000)
    assert refuse(bucket) == pytest.approx(3.8)


def test_waiting_keys_try_one_after_another_within_the_longest_delay():
    bucket = BucketRateLimiter(500.0, 1_000, clock=Clock())
    bucket.take(2_000)
    delays = [refuse(bucket) for _ in range(100)]
    assert delays[:3] == pytest.approx([2.0, 4.0, 6.0])
    assert max(delays) == MAX_DELAY_SECONDS


def test_the_log_has_one_line_a_minute():
    clock = Clock()
    bucket = BucketRateLimiter(1.0, 1_000, clock=clock)
    bucket.take(2_000)
    with capture_logs() as lines:
        for _ in range(5):
            refuse(bucket)
        clock.now += 61.0
        refuse(bucket)
    assert [line["event"] for line in lines] == ["rate.exceeded"] * 2
