"""The tracked list of mutants that survive, `known.yaml`, each with its reason.

Hazard: a row must have a reason, otherwise it is an excuse. `survivors` refuses one without.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import yaml

from tools.mutants.results import ChangeLocation, Mutant

HERE = Path(__file__).resolve().parent


@dataclass(frozen=True, slots=True)
class KnownSurvivor:
    """A change that no test can notice, or that none needs to."""

    place: ChangeLocation
    why: str


def survivors(text: str | None = None) -> list[KnownSurvivor]:
    """Return the list. Raises ValueError for a row without a reason, or a duplicate."""
    rows = yaml.safe_load((HERE / "known.yaml").read_text() if text is None else text) or []
    found: list[KnownSurvivor] = []
    for row in rows:
        place = ChangeLocation(
            row["module"], row["function"], row["was"].strip(), (row["becomes"] or "").strip()
        )
        why = " ".join((row.get("why") or "").split())
        if not why:
            raise ValueError(f"known.yaml lists a mutant of {place.function} without a reason")
        if any(place == other.place for other in found):
            raise ValueError(
                f"known.yaml lists a mutant of {place.function} twice: {place.becomes}"
            )
        found.append(KnownSurvivor(place, why))
    return found


def rows(mutants: Iterable[Mutant]) -> str:
    """Return rows for the list, their reasons still to be written."""
    listed = [{**each._asdict(), "why": ""} for each in dict.fromkeys(m.place for m in mutants)]
    return yaml.safe_dump(listed, sort_keys=False, width=110) if listed else ""
