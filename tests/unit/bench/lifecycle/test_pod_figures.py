"""Figures of lives, of calls and of changes, from made-up stamps."""

import pytest

from bench.lifecycle import changes, pod_figures, requests
from bench.lifecycle.changes import ChangeTarget
from bench.lifecycle.load import RequestTimes
from bench.lifecycle.observations import ObservedTimes
from bench.reports import report


def seen(**by_side: dict[str, dict[str, float]]) -> ObservedTimes:
    return ObservedTimes(
        {
            (side, "Pod", name): stamps
            for side, pods in by_side.items()
            for name, stamps in pods.items()
        }
    )


TIMES = RequestTimes(sent={"a": 10.0, "b": 10.5}, answered={"a": 10.01, "b": 10.52})
LIFE = seen(
    super={
        "a": {"added": 10.03, "bound": 10.1, "ready": 10.2, "marked": 20.05, "gone": 20.1},
        "b": {"added": 10.53, "bound": 10.6, "ready": 10.7, "marked": 20.15, "gone": 20.2},
    },
    tenant={
        "a": {"added": 10.02, "bound": 10.11, "ready": 10.21, "gone": 20.3},
        "b": {"added": 10.52, "bound": 10.62, "ready": 12.0, "gone": 20.5},
    },
)


def test_creation_counts_from_the_first_request_to_the_last_ready():
    found = pod_figures.creation(TIMES, LIFE, "tenant")
    assert found["create_s"] == pytest.approx(2.0)
    assert found["pods_per_s"] == pytest.approx(1.0)
    assert found["ready_ms"]["p50"] == pytest.approx(210)
    assert found["ready_ms"]["p99"] == pytest.approx(1500)
    assert found["down_create_ms"]["worst"] == pytest.approx(20)
    assert found["up_ready_ms"]["p99"] == pytest.approx(1300)


def test_the_direct_way_has_no_way_down_or_up():
    found = pod_figures.creation(TIMES, LIFE, "super")
    assert found["create_s"] == pytest.approx(0.7)
    assert not [key for key in found if key.startswith(("up_", "down_"))]


def test_deletion_counts_until_the_last_is_gone():
    found = pod_figures.deletion(
        RequestTimes({"a": 20.0, "b": 20.1}, {"a": 20.01, "b": 20.11}), LIFE, "tenant"
    )
    assert found["delete_s"] == pytest.approx(0.5)
    assert found["gone_ms"]["worst"] == pytest.approx(400)
    assert found["up_gone_ms"]["worst"] == pytest.approx(300)


def test_leases_events_and_watches_are_no_requests_of_a_life():
    counted = {
        ("super", "create", "pods"): 10,
        ("tenant", "patch", "pods/status"): 20,
        ("tenant", "get", "secrets"): 5,
        ("tenant", "create", "events"): 60,
        ("super", "update", "leases"): 3,
        ("super", "watch", "pods"): 4,
    }
    found = requests.summed(counted, 10)
    assert (found["writes"], found["reads"]) == (3.0, 0.5)
    assert found["each"]["tenant create events"] == 6.0


def test_an_overtaken_change_is_not_late_and_a_lost_last_one_is_missing():
    targets = {("Pod", name): ChangeTarget(name, None, "", "Pod") for name in "ab"}
    answered = {("Pod", "a", 1): 1.0, ("Pod", "a", 2): 2.0, ("Pod", "b", 1): 1.0}
    found = changes.carried(answered, targets, seen(tenant={"a": {"status:2": 2.03}}))
    assert (found["changes"], found["arrived"]) == (3, 1)
    assert (found["coalesced"], found["last_ones_missing"]) == (1, 1)
    assert found["late_ms"]["Pod"]["p50"] == pytest.approx(30)


@pytest.mark.parametrize(
    ("kind", "shown", "body"),
    [
        ("Pod", "status:7", b'{"status": {"message": "7"}}'),
        ("ConfigMap", "seq:7", b'{"data": {"seq": "7"}}'),
        ("Secret", "seq:Nw==", b'{"data": {"seq": "Nw=="}}'),
    ],
)
def test_a_change_is_found_again_by_what_was_written(kind: str, shown: str, body: bytes):
    target = ChangeTarget("x", None, "", kind)
    assert target.shown(7) == shown
    assert target.body(7) == body


def run(pods_per_s: float, ready: float) -> dict[str, object]:
    return {
        "pods_per_s": pods_per_s,
        "ready_ms": {"p50": ready, "p99": 2 * ready},
        "delete_s": 2.0,
        "cpu_s_per_1000": {"syncer": 1.0},
    }


def test_the_table_compares_pair_by_pair():
    runs = {"direct": [run(100, 10), run(50, 20)], "syncer": [run(50, 15), run(25, 30)]}
    text = report.table(
        {
            "asked": {"profile": "burst", "pods": 1, "shape": "bare", "tenants": 1},
            "noise": {"load_1min": 0.0, "median_ms": 1.0, "spread": 0.0},
            "cores": 2,
            "python": "Python 3.11",
            "runs": runs,
        }
    )
    assert report.compared(runs["syncer"], runs["direct"])["pods/s"].width == 0.0
    assert "syncer / direct: pods/s                0.50 (0.50 to 0.50)" in text
    assert "syncer - direct: Ready p50 ms          7.50 (5.00 to 10.00)" in text
    assert "syncer RSS" not in text  # nothing measured it
