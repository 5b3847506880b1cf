"""Timeouts after which a pod is tried in another super cluster."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest

from syncer.rules.placement import reschedule_timeouts


@pytest.mark.parametrize(
    ("condition", "left"),
    [
        ({}, None),
        ({"status": "True"}, None),
        ({"reason": "SchedulingGated"}, None),
        ({"lastTransitionTime": "soon"}, None),
        ({"lastTransitionTime": "2026-01-01T00:00:20Z"}, 10.0),
        ({"lastTransitionTime": "2026-01-01T00:00:00Z"}, -10.0),
    ],
)
def test_the_time_that_is_left(condition: Any, left: float | None):
    now = datetime.fromisoformat("2026-01-01T00:00:40+00:00")
    said = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", **condition}
    twin = {"spec": {}, "status": {"conditions": [said] if condition else []}}
    assert reschedule_timeouts.compute_seconds_left(twin, now, scaling=None) == left
    if left is not None:
        assert reschedule_timeouts.compute_seconds_left(twin, now, scaling=100.0) == 800.0
        assert (
            reschedule_timeouts.compute_seconds_left(
                {**twin, "spec": {"nodeName": "n"}}, now, scaling=None
            )
            is None
        )
