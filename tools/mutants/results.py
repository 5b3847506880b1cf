"""Results of mutmut, as it left them in its folder.

Hazard: mutmut numbers the mutants of a function, and a change of the function numbers them again. A
mutant is therefore identified by its place: the module, the function, the old and the new lines.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

FOLDER = "mutants"
"""Where mutmut works, below the root."""
KILLED, SURVIVED, TIMEOUT, UNTESTED, UNCHECKED = (
    "killed",
    "survived",
    "timeout",
    "untested",
    "unchecked",
)
_STATES: Mapping[int | None, str] = {
    **dict.fromkeys((1, 3), KILLED),
    0: SURVIVED,
    **dict.fromkeys((-24, 24, 36, 152, 255), TIMEOUT),
    **dict.fromkeys((5, 33), UNTESTED),
    **dict.fromkeys((None, 2, -9, 137), UNCHECKED),
}
"""Results by exit code of the tests. A process that was killed from outside has no result. Every
other code is of a process that crashed, which is noticed.
"""


class ChangeLocation(NamedTuple):
    """Place of a change, with the old and the new lines."""

    module: str
    function: str
    """With its class, if it has one."""
    was: str
    becomes: str


class Mutant(NamedTuple):
    """One change, and what came of it."""

    name: str
    """As mutmut calls it."""
    state: str
    place: ChangeLocation

    @property
    def survived(self) -> bool:
        """Whether no test noticed it."""
        return self.state in (SURVIVED, UNTESTED)


def state_of(code: int | None) -> str:
    """Return what an exit code of a mutant's tests means."""
    return _STATES.get(code, KILLED)


def read(folder: Path) -> list[Mutant]:
    """Return all mutants of the last run."""
    return [mutant for path in sorted(folder.rglob("*.py.meta")) for mutant in _of(path, folder)]


def _of(path: Path, folder: Path) -> Iterator[Mutant]:
    source = path.relative_to(folder).with_suffix("")
    codes: dict[str, int | None] = json.loads(path.read_text())["exit_code_by_key"]
    for name, code in codes.items():
        state = state_of(code)
        was, becomes = _change(name, source) if state in (SURVIVED, UNTESTED) else ("", "")
        module, function = named(name)
        yield Mutant(name, state, ChangeLocation(module, function, was, becomes))


def named(name: str) -> tuple[str, str]:
    """Return module and function of a mutant: `a.b.xǁC.d__mutmut_1` has `a.b` and `C.d`."""
    module, _, mangled = name.partition("__mutmut_")[0].rpartition(".")
    if mangled.startswith("x_"):
        return module, mangled.removeprefix("x_")
    return module, mangled.removeprefix("xǁ").replace("ǁ", ".")


def _change(name: str, source: Path) -> tuple[str, str]:
    from mutmut.mutation import diff_apply  # noqa: PLC0415 - only where mutants are made

    shown: Any = diff_apply.get_diff_for_mutant(name, path=source)
    return changed(str(shown))


def changed(diff: str) -> tuple[str, str]:
    """Return the lines that a unified diff takes away and those that it puts there."""
    return _signed(diff, "-"), _signed(diff, "+")


def _signed(diff: str, sign: str) -> str:
    found = (line for line in diff.splitlines() if line.startswith(sign))
    return "\n".join(line[1:].strip() for line in found if not line.startswith(3 * sign))
