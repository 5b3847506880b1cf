"""Cases of the suite: parts of their names, which run alone, and how they are distributed. Pure.

Hazard: a case is known by its full name, which is also the regular expression for the suite. A name
that is not quoted whole runs its neighbours as well.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import yaml

_SUITE = "Kubernetes e2e suite"
"""Prefix of each name when the suite looks for cases to run."""


@dataclass(frozen=True, slots=True)
class ConformanceCase:
    """One case: its full name and the file of Kubernetes that holds it."""

    name: str
    file: str

    @property
    def group(self) -> str:
        """The special interest group in front of the name, for example `sig-node`."""
        return self.name.partition("]")[0].removeprefix("[")

    @property
    def is_serial(self) -> bool:
        """Whether no other case may run beside it."""
        return "[Serial]" in self.name

    @property
    def slug(self) -> str:
        """The name as a file's name, 100 characters at most."""
        return re.sub(r"[^a-z0-9]+", "-", self.name.lower()).strip("-")[:100].rstrip("-")


def identify(name: str) -> str:
    """Return a case's name with its tags in a fixed order. Minors order them differently."""
    tags = sorted(re.findall(r"\[[^\]]*\]", name))
    words = re.sub(r"\[[^\]]*\]", " ", name).split()
    return " ".join([*tags, *words])


def parse(text: str) -> list[ConformanceCase]:
    """The cases that `--list-conformance-tests` prints, in its order.

    Raises ValueError when two cases have one name.
    """
    found = [
        ConformanceCase(" ".join(row["codename"].split()), row["file"])
        for row in yaml.safe_load(text)
    ]
    names = [case.name for case in found]
    doubled = sorted({name for name in names if names.count(name) > 1})
    if doubled:
        raise ValueError(f"the suite has two cases named {doubled[0]!r}")
    return found


def chosen(cases: Sequence[ConformanceCase], names: Iterable[str]) -> list[ConformanceCase]:
    """The named cases, in the order of the suite.

    Raises ValueError for a name that the suite does not have.
    """
    wanted = list(names)
    known = {case.name for case in cases}
    strange = [name for name in wanted if name not in known]
    if strange:
        raise ValueError(f"the suite has no case {strange[0]!r}. It may have been renamed")
    return [case for case in cases if case.name in set(wanted)]


def focus(batch: Iterable[ConformanceCase]) -> str:
    """The expression that runs exactly these cases."""
    names = "|".join(re.escape(case.name) for case in batch)
    return f"^{_SUITE} (?:{names})$"


def batches(
    cases: Sequence[ConformanceCase], size: int, seconds: Mapping[str, float] | None = None
) -> list[list[ConformanceCase]]:
    """Deal cases out, `size` to a batch at most, those that took longest first.

    A case that takes long is alone, or what shares its batch would wait for it: the last batch
    decides when all is done. Neighbours in the suite are alike, and so are their times: they are
    dealt to different batches.
    """
    known = seconds or {}
    times = {case.name: _seconds(case, known) for case in cases}
    ordered = sorted(cases, key=lambda case: -times[case.name])
    slow = [case for case in ordered if times[case.name] >= _SLOW]
    rest = [case for case in ordered if times[case.name] < _SLOW]
    count = -(-len(rest) // size)
    return [[case] for case in slow] + [rest[start::count] for start in range(count)]


def _seconds(case: ConformanceCase, known: Mapping[str, float]) -> float:
    return known.get(case.name, _SLOW if "[Slow]" in case.name else 0.0)


_SLOW = 60.0
"""Seconds from which a case has a batch of its own."""
