"""Results of the checks of `kubectl vc target doctor`.

Owns their form. Must not know the checks.
"""

from dataclasses import dataclass
from typing import Literal

CheckState = Literal["ok", "note", "wrong", "unknown"]


@dataclass(frozen=True, slots=True)
class CheckResult:
    """The result of one check."""

    target: str
    check: str
    result: CheckState
    message: str
