"""Facts that the observer reads from events."""

import json
from typing import Any

from bench.lifecycle.observer import FirstSeen
from kubeio.http.watch_decoder import WatchEvent


def event(kind: str, **parts: Any) -> WatchEvent:
    body = {"metadata": {"name": "p-1", "namespace": "n", **parts.pop("metadata", {})}, **parts}
    return WatchEvent(kind, json.dumps(body).encode())  # type: ignore[arg-type]


def test_the_first_sight_of_everything_is_kept():
    records = FirstSeen()
    records.begin("p-")
    ready = {"conditions": [{"type": "Ready", "status": "True"}], "message": "3"}
    for now, seen in enumerate(
        (
            event("ADDED"),
            event("MODIFIED", spec={"nodeName": "node-1"}),
            event("MODIFIED", spec={"nodeName": "node-1"}, status=ready),
            event("MODIFIED", spec={"nodeName": "node-1"}, status=ready),
            event("MODIFIED", metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"}),
            event("DELETED"),
        )
    ):
        records.take(float(now), "super", "super", "Pod", seen)
    assert records.stamps["super", "Pod", "p-1"] == {
        "added": 0.0,
        "bound": 1.0,
        "ready": 2.0,
        "status:3": 2.0,
        "marked": 4.0,
        "gone": 5.0,
    }
    assert records.counts["super", "Pod", "ready"] == 1
    assert records.events["super", "Pod"] == 6


def test_names_of_other_runs_are_passed_over():
    records = FirstSeen()
    records.begin("q-")
    records.take(1.0, "super", "super", "Pod", event("ADDED"))
    assert not records.stamps
    records.begin("p-")
    records.take(2.0, "super", "super", "ConfigMap", event("ADDED", data={"seq": "4"}))
    assert records.stamps["super", "ConfigMap", "p-1"] == {"added": 2.0, "seq:4": 2.0}
