"""Parts of a pod's usage. `test_usage` has whole pods."""

from __future__ import annotations

from typing import Any

import pytest

from syncer.rules.quota import pod_usage


@pytest.mark.parametrize("phase", ["Succeeded", "Failed", "Running", "Pending", ""])
def test_a_pod_has_ended_by_its_phase(phase: str):
    assert pod_usage.is_terminal({"status": {"phase": phase}}) is (phase in ("Succeeded", "Failed"))


def test_limits_of_the_whole_pod_are_its_requests_where_it_has_none():
    pod: dict[str, Any] = {
        "spec": {
            "containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}],
            "resources": {"limits": {"cpu": "4", "memory": "1Ki"}},
        }
    }
    assert pod_usage.compute_total(pod, "requests") == {"cpu": 1000, "memory": 1024_000}
    assert pod_usage.compute_total(pod, "limits") == {"cpu": 4000, "memory": 1024_000}
