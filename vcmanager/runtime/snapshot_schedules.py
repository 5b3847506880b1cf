"""Schedules of snapshots, and whether they are overdue, for the metrics.

Owns the records, in memory and by namespace and name of the VirtualCluster. Must not decide.
"""

from telemetry import metrics


class SnapshotSchedules:
    """Schedules of all tenants."""

    def __init__(self) -> None:
        """Start without schedules."""
        self._overdue: dict[str, bool] = {}

    def set(self, identity: str, *, is_overdue: bool) -> None:
        """Record the state of a schedule."""
        self._overdue[identity] = is_overdue
        self._update_metrics()

    def remove(self, identity: str) -> None:
        """Delete the record of a schedule."""
        self._overdue.pop(identity, None)
        self._update_metrics()

    def _update_metrics(self) -> None:
        metrics.set_snapshot_schedules("scheduled", len(self._overdue))
        metrics.set_snapshot_schedules("overdue", sum(self._overdue.values()))
