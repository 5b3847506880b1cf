"""Highest numbers of violations that are allowed today. They may only shrink.

`tests/contract/prose.yaml` has one number for each package, top-level folder of a package, or file.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path

import yaml

from tools.packages import PRODUCT, PROGRAMS, ROOT
from tools.prose import measurement

FILE = ROOT / "tests/contract/prose.yaml"
PACKAGES = (*PRODUCT, *PROGRAMS)
_HEAD = """\
# Violations of the prose rules that are allowed today, for each folder and file. test_prose.py
# fails for a higher and for a lower number. `python -m tools.prose --record` lowers the numbers.
"""


def counted(strict: Iterable[Path] = ()) -> dict[str, int]:
    """Return the violations of each row that has some. Strictly checked pages are left out."""
    left_out = set(strict)
    paths = (p for p in measurement.files(PACKAGES, ROOT) if p not in left_out)
    rows = measurement.measure(paths, root=ROOT)
    found = {row.name: sum(1 for _ in row.violations()) for row in rows}
    return {name: number for name, number in sorted(found.items()) if number}


def recorded() -> dict[str, int]:
    """Return the numbers of the file."""
    read: dict[str, int] | None = yaml.safe_load(FILE.read_text()) if FILE.exists() else None
    return read or {}


def problems(found: Mapping[str, int], allowed: Mapping[str, int]) -> list[str]:
    """Return one sentence for each row with another number than the recorded one."""
    lines = []
    for name in sorted({*found, *allowed}):
        number, most = found.get(name, 0), allowed.get(name, 0)
        if number > most:
            lines.append(
                f"{name}: {number} violations of the prose rules, and {most} are allowed. Correct"
                f" the new sentences (list all with `python -m tools.prose --list {name}`)."
            )
        elif number < most:
            lines.append(
                f"{name}: {number} violations of the prose rules, and {most} are recorded. Lower"
                " the number with `python -m tools.prose --record`."
            )
    return lines


def raised(found: Mapping[str, int], allowed: Mapping[str, int]) -> list[str]:
    """Return the packages that have more violations than recorded. Moved modules raise nothing."""
    before, after = _packages(allowed), _packages(found)
    return [
        f"{name}: {after[name]} violations, and {before[name]} are recorded"
        for name in sorted(after)
        if after[name] > before[name]
    ]


def record(found: Mapping[str, int]) -> None:
    """Write the numbers."""
    FILE.write_text(_HEAD + yaml.safe_dump(dict(found), sort_keys=True))


def _packages(numbers: Mapping[str, int]) -> Counter[str]:
    totals: Counter[str] = Counter()
    for name, number in numbers.items():
        totals[name.partition("/")[0]] += number
    return totals
