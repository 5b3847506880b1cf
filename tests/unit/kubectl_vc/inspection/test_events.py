"""Events as rows, the newest last."""

from datetime import UTC, datetime

from kubectl_vc.inspection import events

NOW = datetime(2026, 1, 1, 12, 0, tzinfo=UTC)


def event(name: str, **fields) -> dict:
    return {
        "metadata": {"name": name, "namespace": "ns", "uid": name},
        "involvedObject": {"kind": "Pod", "name": "etcd-0"},
        "type": "Warning",
        "reason": "BackOff",
        "message": "two\nlines",
        **fields,
    }


def test_rows_are_sorted_by_the_time_that_an_event_was_seen_last():
    found = [
        event("c", lastTimestamp="2026-01-01T11:59:00Z", count=3),
        event("a", eventTime="2026-01-01T11:00:00Z", lastTimestamp=None),
        event("b", series={"count": 2, "lastObservedTime": "2026-01-01T11:30:00Z"}),
    ]
    lines = events.build_table(found, NOW).splitlines()
    assert lines[0].split("   ")[0] == "NAMESPACE"
    assert [line.split("Warning")[0].split(None, 1)[1].strip() for line in lines[1:]] == [
        *("60m", "30m (x2)", "60s (x3)"),
    ]
    assert lines[3].endswith("pod/etcd-0   two lines")


def test_an_event_without_any_time_is_shown():
    assert events.build_row(event("a"), NOW)[1] == "<unknown>"
