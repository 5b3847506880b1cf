"""A counter that only grows, over pods that come and go."""

from hypothesis import given
from hypothesis import strategies as st

from vnagent.nodeapi import cpu_counters as module
from vnagent.nodeapi.cpu_counters import CpuCounters, PodUsage

SECOND = 1_000_000_000


def figures(**seconds: float) -> dict[str, PodUsage]:
    """Return figures of pods without a time."""
    return {uid: PodUsage(round(value * SECOND)) for uid, value in seconds.items()}


def taken(at: float, **seconds: float) -> dict[str, PodUsage]:
    """Return figures of one moment."""
    return {uid: PodUsage(round(value * SECOND), at) for uid, value in seconds.items()}


def test_time_of_pods_that_went_stays():
    """A fall would be read as a restart, and all of it counted again."""
    totals = CpuCounters()
    assert totals.update_total("t", {"a", "b"}, figures(a=100, b=10)) == 110 * SECOND
    assert totals.update_total("t", {"b"}, figures(b=12)) == 112 * SECOND
    assert totals.update_total("t", {"b", "c"}, figures(b=12, c=1)) == 113 * SECOND
    assert totals.update_total("t", set(), {}) == 113 * SECOND
    assert totals.update_total("t", {"d"}, figures(d=1)) == 114 * SECOND


def test_a_pod_without_figures_has_not_gone():
    """Otherwise it would be counted twice after its return."""
    totals = CpuCounters()
    totals.update_total("t", {"a"}, figures(a=100))
    assert totals.update_total("t", {"a"}, {}) == 100 * SECOND
    assert totals.update_total("t", {"a"}, figures(a=101)) == 101 * SECOND
    assert totals.update_total("t", {"a"}, figures(a=99)) == 101 * SECOND


def test_a_pod_that_is_missing_from_one_list_is_counted_once():
    """As one that is there twice while it is replaced, or that an older list does not have yet."""
    totals = CpuCounters()
    totals.update_total("t", {"a", "b"}, figures(a=100, b=1))
    for _ in range(3):
        assert totals.update_total("t", {"b"}, figures(b=1)) == 101 * SECOND
        assert totals.update_total("t", {"a", "b"}, figures(a=100, b=1)) == 101 * SECOND
        assert totals.update_total("t", set(), {}) == 101 * SECOND


def test_a_counter_that_began_again_goes_on_from_where_it_was():
    """A later figure that is lower. Each of its lives counts once."""
    totals = CpuCounters()
    steps = [(1, 100, 100), (2, 3, 103), (3, 5, 105), (4, 1, 106), (5, 200, 305)]
    for at, shown, total in steps:
        assert totals.update_total("t", {"a"}, taken(at, a=shown)) == total * SECOND


def test_an_older_figure_reports_nothing():
    """Two answers came in another order than they were taken: before and after a restart."""
    totals = CpuCounters()
    totals.update_total("t", {"a"}, taken(5, a=100))
    assert totals.update_total("t", {"a"}, taken(4, a=99)) == 100 * SECOND
    assert totals.update_total("t", {"a"}, taken(6, a=2)) == 102 * SECOND
    assert totals.update_total("t", {"a"}, taken(5, a=100)) == 102 * SECOND
    assert totals.update_total("t", {"a"}, figures(a=100)) == 102 * SECOND
    assert totals.update_total("t", {"a"}, taken(7, a=3)) == 103 * SECOND


def test_a_rounding_is_no_restart():
    """The text of one figure has nanoseconds in one answer, and a float of seconds in another."""
    totals = CpuCounters()
    totals.update_total("t", {"a"}, {"a": PodUsage(10**16 + 2, 1.0)})
    assert totals.update_total("t", {"a"}, {"a": PodUsage(10**16, 1.0004)}) == 10**16 + 2


def test_tenants_are_apart(monkeypatch):
    """The latest callers are remembered."""
    monkeypatch.setattr(module, "MAX_TENANTS", 2)
    totals = CpuCounters()
    assert totals.update_total("one", {"a"}, figures(a=5, foreign=7)) == 5 * SECOND
    assert totals.update_total("two", {"b"}, figures(b=3)) == 3 * SECOND
    totals.update_total("one", {"a"}, {})
    for number in range(10):
        totals.update_total(f"new-{number}", set(), {})
        assert totals.update_total("one", {"a"}, {}) == 5 * SECOND
    assert len(totals) == 2


def test_pods_that_left_long_ago_are_one_number():
    """The memory does not grow with the number of all pods that ever existed."""
    totals = CpuCounters()
    for number in range(1000):
        last = totals.update_total(
            "t", {"stays", str(number)}, figures(stays=1, **{str(number): 1})
        )
    assert last == 1001 * SECOND
    assert len(totals._counters["t"].pods) <= module.MAX_DEPARTED_PODS + 2


@given(
    st.lists(
        st.tuples(
            st.dictionaries(st.sampled_from("abc"), st.integers(0, 2**64)),
            st.sets(st.sampled_from("abc")),
            st.one_of(st.just(float("-inf")), st.integers(0, 5)),
        )
    )
)
def test_it_never_falls(steps):
    """It stays a number of 64 bits, whatever comes in whatever order."""
    totals, last = CpuCounters(), 0
    for shown, present, at in steps:
        found = totals.update_total(
            "t", present, {uid: PodUsage(value, at) for uid, value in shown.items()}
        )
        assert last <= found < 2**64
        last = found


@given(st.lists(st.tuples(st.integers(0, 10), st.booleans(), st.booleans()), max_size=30))
def test_each_second_is_counted_once(steps):
    """Against a pod whose true time is known: it works, restarts, and hides from some lists."""
    totals, true, shown, last = CpuCounters(), 0, 0, 0
    for at, (worked, restarts, hides) in enumerate(steps):
        if restarts:
            shown = 0
        true, shown = true + worked, shown + worked
        if not hides:
            last = totals.update_total("t", {"a", "b"}, taken(at, a=shown))
            # What was worked between the last look and a restart no one has seen.
            assert last <= true * SECOND
        else:
            assert totals.update_total("t", {"b"}, {}) == last
    assert last <= true * SECOND
