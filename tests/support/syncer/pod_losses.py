"""Pods of a target that a test loses."""

from __future__ import annotations

from syncer.safety.pod_loss_guard import PodLossGuard

IDENTITY = "0b7c4a52-4bd2-4a3e-9c6e-111111111111"


class GuardedTarget:
    """A pod loss guard with a clock and a number of pods that the test sets."""

    def __init__(self, there: int = 0) -> None:
        self.now, self.there, self.changes = 1000.0, there, 0
        self.pod_loss_guard = PodLossGuard(
            name="c2",
            identity=IDENTITY,
            count_present=lambda: self.there,
            on_changed=self._on_changed,
            clock=lambda: self.now,
        )

    def _on_changed(self) -> None:
        self.changes += 1

    def lose(self, *numbers: int, tenant: str = "t") -> None:
        for number in numbers:
            self.pod_loss_guard.add_missing(tenant, f"u{number}")
