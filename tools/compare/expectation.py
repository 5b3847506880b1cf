"""The tracked list of expected differences, each with its reason.

Owns the reading of the list and the two ways to be unequal to it. Hazard: a pattern must not be
wider than its reason, otherwise it hides a fault. Each line names a path, and `*` stands for
repeated parts.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml

from tools.compare.differences import Difference


@dataclass(frozen=True, slots=True)
class ExpectedDifference:
    """Differences that one reason explains."""

    line: str
    """A difference as it is printed, with `*` for any text."""
    reason: str

    def covers(self, difference: Difference) -> bool:
        """Return whether a difference is one of these."""
        pattern = ".*".join(re.escape(part) for part in self.line.split("*"))
        return re.fullmatch(pattern, str(difference)) is not None


def read(path: Path) -> list[ExpectedDifference]:
    """Return the tracked list of a file."""
    return [
        ExpectedDifference(line, entry["reason"])
        for entry in yaml.safe_load(path.read_text())
        for line in entry["differences"]
    ]


def unequal(found: Iterable[Difference], expected: Sequence[ExpectedDifference]) -> list[str]:
    """Return what is found and not listed, and what is listed and not found."""
    differences = list(found)
    unlisted = [d for d in differences if not any(each.covers(d) for each in expected)]
    unseen = [each for each in expected if not any(each.covers(d) for d in differences)]
    return [
        *(f"not in the list: {difference}" for difference in unlisted),
        *(f"in the list, not found: {each.line}" for each in unseen),
    ]
