"""Delays grow, end at the ceiling, and never end."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kubeio.backoff import Backoff, compute_delay


@given(failures=st.integers(min_value=0, max_value=10**9), chance=st.floats(0, 0.999))
def test_any_number_of_failures_has_a_delay_below_the_ceiling(failures, chance):
    found = compute_delay(failures, base=0.1, ceiling=30.0, chance=lambda: chance)
    assert 0.05 <= found <= 30.0


def test_delays_double_up_to_the_ceiling_and_start_again_after_progress():
    backoff = Backoff(base=1.0, ceiling=10.0, chance=lambda: 1.0)
    assert [backoff.next() for _ in range(6)] == [1, 2, 4, 8, 10, 10]
    backoff.reset()
    assert backoff.next() == 1


def test_jitter_takes_up_to_half():
    assert compute_delay(0, base=1.0, ceiling=10.0, chance=lambda: 0.0) == 0.5
