"""`kubectl vc target list`: the table of targets."""

from __future__ import annotations

from datetime import UTC, datetime

from kubectl_vc.output.printers import OutputFormat
from kubectl_vc.target import listing
from tests.support.kubectl_vc.super_clusters import body


def test_the_table_of_targets():
    now = datetime(2026, 1, 2, tzinfo=UTC)
    lines = listing.build_table(
        [body(Ready="True", Reachable="True"), {"metadata": {"name": "new"}}],
        now=now,
        form=OutputFormat.WIDE,
    ).splitlines()
    assert lines[0].split() == [
        *("NAME", "READY", "REACHABLE", "AUTHORIZED", "VERSION", "NODES", "CPU", "MEMORY"),
        *("OVERLAP", "SECRET", "MESSAGE", "AGE"),
    ]
    assert lines[1].split()[:8] == [
        *("c2", "True", "True", "Unknown", "v1.36.4", "3", "12000m", "4096Mi"),
    ]
    assert lines[2].split()[:4] == ["new", "Unknown", "Unknown", "Unknown"]
