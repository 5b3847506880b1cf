"""Pods of a target that a test loses."""

from __future__ import annotations

from syncer.safety.pod_loss_guard import Muster

IDENTITY = "0b7c4a52-4bd2-4a3e-9c6e-111111111111"


class Field:
    """A muster with a clock and a number of pods that the test sets."""

    def __init__(self, there: int = 0) -> None:
        self.now, self.there, self.changes = 1000.0, there, 0
        self.muster = Muster(
            name="c2",
            identity=IDENTITY,
            there=lambda: self.there,
            changed=self._changed,
            clock=lambda: self.now,
        )

    def _changed(self) -> None:
        self.changes += 1

    def lose(self, *numbers: int, tenant: str = "t") -> None:
        for number in numbers:
            self.muster.absent(tenant, f"u{number}")
