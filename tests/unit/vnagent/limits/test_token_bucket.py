"""Turns: a burst, then one at a time. Looking costs nothing."""

from vnagent.limits.token_bucket import TenantBuckets, TokenBucket


def test_a_burst_then_one_by_one():
    """A caller that hammers gets one turn per interval, and its refused calls change nothing."""
    bucket = TokenBucket(3, 5.0)
    taken = []
    for tenth in range(301):
        now = tenth / 10
        if not bucket.get_wait(now):
            bucket.take(now)
            taken.append(now)
    assert taken == [0, 0.1, 0.2, 5, 10, 15, 20, 25, 30]


def test_a_pause_reports_how_long():
    """Down to 0, and then it has a turn."""
    bucket = TokenBucket(1, 5.0)
    assert bucket.get_wait(100) == 0
    bucket.take(100)
    assert bucket.get_wait(100) == 5
    assert bucket.get_wait(103) == 2
    assert bucket.get_wait(105) == 0


def test_looking_is_not_taking():
    """Otherwise callers that leave would starve those that stay."""
    bucket = TokenBucket(1, 5.0)
    bucket.take(0)
    for _ in range(100):
        bucket.get_wait(1)
    assert bucket.get_wait(5) == 0


def test_turns_that_no_one_took_come_back():
    """The number is never above the burst."""
    bucket = TokenBucket(2, 1.0)
    for now in (0, 0, 100, 100):
        assert bucket.get_wait(now) == 0
        bucket.take(now)
    assert bucket.get_wait(100) == 1


def test_tenants_have_turns_of_their_own_and_are_forgotten():
    """A caller that hammers takes nothing from another. The memory does not grow."""
    buckets = TenantBuckets(2, 1.0)
    assert [buckets.take("a", 0) for _ in range(4)] == [True, True, False, False]
    assert buckets.take("b", 0)
    assert len(buckets) == 2
    assert buckets.take("a", 1)
    for number in range(1000):
        buckets.take(f"tenant-{number}", 10.0 + 2 * number)
    assert len(buckets) == 1


def test_who_takes_more_than_there_is_owes_it():
    buckets = TenantBuckets(3, 1.0)
    assert buckets.take("a", 0.0)
    buckets.charge("a", 0.0, 4)
    assert [buckets.take("a", now) for now in (0.0, 2.9, 3.0)] == [False, False, True]
    assert buckets.take("b", 0.0)
