"""The differences between two normal forms, one line each. Pure.

Owns how items of lists are matched: by what names them where something does, else by their order in
sorted form, as most lists of the API are sets. Must not know what may differ.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tools.compare.normal_form import NormalForm

Json = Any
_NAMES = ("name", "type", "mountPath", "key", "port", "ip")
"""Fields that name an item of a list, the first that all have with different values."""
_ABSENT = object()
_SHOWN = 100


@dataclass(frozen=True, slots=True, order=True)
class Difference:
    """One place where two clusters show something else."""

    where: str
    """`Kind/name field.path`"""
    left: str
    right: str

    def __str__(self) -> str:
        """Return the line that is printed."""
        return f"{self.where}: {self.left} -> {self.right}"


def differences(left: NormalForm, right: NormalForm) -> list[Difference]:
    """Return all differences, in order."""
    found: list[Difference] = []
    for key in left.keys() | right.keys():
        here, there = left.get(key, _ABSENT), right.get(key, _ABSENT)
        if here is _ABSENT or there is _ABSENT:
            found.append(
                Difference(key, *("absent" if x is _ABSENT else "there" for x in (here, there)))
            )
        else:
            found += _between(here, there, f"{key} ", "")
    return sorted(found)


def _between(left: Json, right: Json, owner: str, path: str) -> Iterator[Difference]:
    if left == right:
        return
    parts = _parts(left, right)
    if parts is None:
        yield Difference(f"{owner}{path}", _shown(left), _shown(right))
        return
    for name, here, there in parts:
        yield from _between(here, there, owner, f"{path}{name}" if path else name.lstrip("."))


def _parts(left: Json, right: Json) -> list[tuple[str, Json, Json]] | None:
    """Return the parts of two values that can be taken apart alike, else None."""
    if isinstance(left, dict) and isinstance(right, dict):
        return _paired(left, right, ".{}")
    if not isinstance(left, list) or not isinstance(right, list):
        return None
    if not all(isinstance(item, dict) for item in (*left, *right)):
        return None
    name = next((name for name in _NAMES if _is_named(left, name) and _is_named(right, name)), None)
    if name is not None:
        return _paired({i[name]: i for i in left}, {i[name]: i for i in right}, "[{}]")
    here, there = (dict(enumerate(sorted(items, key=_text))) for items in (left, right))
    return _paired(here, there, "[{}]")


def _paired(
    left: Mapping[Any, Json], right: Mapping[Any, Json], form: str
) -> list[tuple[str, Json, Json]]:
    keys = sorted(left.keys() | right.keys())
    return [(form.format(k), left.get(k, _ABSENT), right.get(k, _ABSENT)) for k in keys]


def _is_named(items: list[Json], name: str) -> bool:
    values = [item.get(name) for item in items]
    return None not in values and len(set(values)) == len(values)


def _text(value: Json) -> str:
    return json.dumps(value, sort_keys=True)


def _shown(value: Json) -> str:
    if value is _ABSENT:
        return "absent"
    text = _text(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."
