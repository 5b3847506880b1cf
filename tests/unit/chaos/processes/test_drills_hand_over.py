"""From the end of a holder to the first write of who follows it, as audit logs tell it."""

from __future__ import annotations

import math
from datetime import datetime
from typing import Any

import pytest

from tests.chaos.processes.drills import DrillOptions
from tests.chaos.processes.run import DrillReport
from tests.support.replicas import ReplicaPair

KILLED = datetime.fromisoformat("2026-01-01T00:00:10.000000Z").timestamp()


class NamedReplica:
    """A replica, or a plane with an audit log."""

    def __init__(self, name: str, *events: dict[str, Any]) -> None:
        self.name, self._events = name, events

    def audit_events(self, _: object) -> tuple[dict[str, Any], ...]:
        return self._events


def written(
    second: str, by: str = "two", verb: str = "create", resource: str = "pods", code: int = 201
) -> dict[str, Any]:
    return {
        "verb": verb,
        "stage": "ResponseComplete",
        "userAgent": f"agent/{by}",
        "objectRef": {"resource": resource, "namespace": "n", "name": "p"},
        "responseStatus": {"code": code},
        "stageTimestamp": f"2026-01-01T00:00:{second}Z",
    }


def hand_over(*planes: tuple[dict[str, Any], ...]) -> float:
    one, two = NamedReplica("one"), NamedReplica("two")
    logs = [NamedReplica("plane", *events) for events in planes]
    pair = ReplicaPair((one, two), client=None, lease=("n", "l"), agent="agent", planes=logs)  # type: ignore[arg-type]
    return pair.hand_over(two, KILLED, [None] * len(logs))  # type: ignore[arg-type, list-item]


def test_the_first_accepted_write_of_the_other_counts_in_whichever_cluster():
    others = (
        written("11.000000", by="one"),
        written("12.000000", code=409),
        written("13.000000", verb="get", code=200),
        written("14.000000", resource="leases", verb="update", code=200),
        written("19.000000"),
    )
    assert hand_over(others) == pytest.approx(9.0)
    assert hand_over(others, (written("18.250000"),)) == pytest.approx(8.25)
    assert math.isnan(hand_over(others[:4]))


def test_a_report_reports_it_beside_the_goal():
    report = DrillReport("follow", DrillOptions(count=2, seed=1), hand_overs=[8.0, 7.0, 9.5])
    told = "hand-over 8.0 s (goal 10), from kill -9 to the first accepted write of the other:"
    assert told in str(report)
    assert "median of 3, 7.0 to 9.5" in str(report)
    assert "hand-over" not in str(DrillReport("kill", DrillOptions(count=2, seed=1)))
