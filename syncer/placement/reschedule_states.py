"""Memory of the attempts to place one pod.

Owns the tried clusters and the times that reschedule decisions depend on. Must not decide.
"""

from collections.abc import Collection


class RescheduleState:
    """Memory of the attempts to place one pod. Times are of the event loop's clock."""

    __slots__ = ("_is_refused", "_retry_at", "_scale_up_at", "_tried", "_unanswered_create_at")

    def __init__(self) -> None:
        self._tried: set[str] = set()
        self._is_refused = False
        self._unanswered_create_at: float | None = None
        self._scale_up_at: float | None = None
        self._retry_at = 0.0

    @property
    def tried_clusters(self) -> Collection[str]:
        """Clusters in which no node was found for the pod."""
        return self._tried

    @property
    def is_refused(self) -> bool:
        """Whether its assigned cluster refuses to create it, because a quota is used up."""
        return self._is_refused

    @property
    def retry_at(self) -> float:
        """Time until which the pod stays where it is, because all clusters were tried."""
        return self._retry_at

    def record_tried(self, name: str) -> None:
        """Record that no node was found in its assigned cluster, which ends that attempt."""
        self._tried.add(name)
        self._is_refused, self._scale_up_at = False, None

    def start_over(self, retry_at: float) -> None:
        """Forget the tried clusters, because all were tried. The next attempt is at `retry_at`."""
        self._tried.clear()
        self._retry_at = retry_at

    def record_refused(self) -> None:
        """Record that the assigned cluster refuses the pod."""
        self._is_refused = True

    def record_scale_up(self, now: float) -> None:
        """Record that an autoscaler reported a scale-up."""
        self._scale_up_at = now

    def get_scale_up_age(self, now: float) -> float | None:
        """Return the seconds since the last scale-up, or None without any."""
        return None if self._scale_up_at is None else now - self._scale_up_at

    def record_unanswered_create(self, now: float) -> None:
        """Record that a create was sent and never answered."""
        self._unanswered_create_at = now

    def clear_unanswered_create(self) -> None:
        """Forget the create, because its cluster has no twin."""
        self._unanswered_create_at = None

    def get_unanswered_age(self, now: float) -> float | None:
        """Return the seconds since the create without answer, or None without any."""
        return None if self._unanswered_create_at is None else now - self._unanswered_create_at
