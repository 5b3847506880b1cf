"""Verdicts on the leaves of a tenant's spec, and the walk that builds a new object from them.

Owns the vocabulary of verdict tables and the walk. The largest table is
`syncer.rules.pods.pod_fields`. Must not know any kind.

Hazard: the walk must copy only leaves that a verdict names, and must reject a leaf that has a value
but no verdict. Otherwise a field of a newer API version is synced unchecked.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from syncer.model.rejections import Problem

Json = Any
_SCALARS = (str, int, float, bool)
_SHOWN = 60  # characters of a refused value in an Event


@dataclass(frozen=True, slots=True)
class Allow:
    """Verdict: a scalar, or a list of scalars, is synced unchanged."""


@dataclass(frozen=True, slots=True)
class Free:
    """Verdict: a map with keys of the tenant's choice and scalar values is synced unchanged."""


@dataclass(frozen=True, slots=True)
class Only:
    """Verdict: a scalar, or each item of a list of scalars, is synced if it is one of `values`."""

    values: frozenset[Json]
    rule: str
    text: str


@dataclass(frozen=True, slots=True)
class Refuse:
    """Verdict: any value rejects the object."""

    rule: str
    text: str


@dataclass(frozen=True, slots=True)
class Drop:
    """Verdict: the leaf is left out without an Event, for this reason."""

    why: str


@dataclass(frozen=True, slots=True)
class Written:
    """Verdict: the walk leaves the leaf out, and the named module translates the tenant's value."""

    by: str
    text: str = ""
    """The result of the translation, for the user's page."""


@dataclass(frozen=True, slots=True)
class Fields:
    """Verdict: an object with these fields."""

    fields: Mapping[str, "Verdict"]


@dataclass(frozen=True, slots=True)
class Each:
    """Verdict: a list of objects with these fields."""

    fields: Mapping[str, "Verdict"]


Verdict = Allow | Free | Only | Refuse | Drop | Written | Fields | Each

ALLOW = Allow()
FREE = Free()


@dataclass(slots=True)
class Walk:
    """One walk over one object. It collects the problems and returns the fields to sync."""

    problems: list[Problem] = field(default_factory=list)

    def fields(self, value: Json, table: Mapping[str, Verdict], path: str) -> dict[str, Json]:
        """Return a copy of an object, built by its table."""
        if not isinstance(value, dict):
            self._malformed(path, "an object")
            return {}
        copied: dict[str, Json] = {}
        for name, inner in value.items():
            if inner is None:
                continue
            verdict, where = table.get(name), f"{path}.{name}"
            if verdict is None:
                self._unknown(inner, where)
                continue
            found = self._leaf(inner, verdict, where)
            if found is not None:
                copied[name] = found
        return copied

    def _leaf(self, value: Json, verdict: Verdict, path: str) -> Json:  # noqa: PLR0911
        match verdict:
            case Allow():
                return self._scalars(value, path)
            case Free():
                return self._free(value, path)
            case Only():
                return self._only(value, verdict, path)
            case Refuse():
                if not _is_empty(value):
                    self.problems.append(Problem(verdict.rule, path, verdict.text))
                return None
            case Drop() | Written():
                return None
            case Fields():
                return self.fields(value, verdict.fields, path)
            case Each():
                return self._each(value, verdict, path)

    def _each(self, value: Json, verdict: Each, path: str) -> Json:
        if not isinstance(value, list):
            return self._malformed(path, "a list")
        return [
            self.fields(item, verdict.fields, f"{path}[{index}]")
            for index, item in enumerate(value)
        ]

    def _scalars(self, value: Json, path: str) -> Json:
        if isinstance(value, list):
            if all(isinstance(item, _SCALARS) for item in value):
                return list(value)
            return self._malformed(path, "a list of plain values")
        if isinstance(value, _SCALARS):
            return value
        return self._malformed(path, "a plain value")

    def _free(self, value: Json, path: str) -> Json:
        if isinstance(value, dict) and all(isinstance(inner, _SCALARS) for inner in value.values()):
            return dict(value)
        return self._malformed(path, "a map of plain values")

    def _only(self, value: Json, verdict: Only, path: str) -> Json:
        if _is_empty(value):
            return None
        copied = self._scalars(value, path)
        for item in copied if isinstance(copied, list) else [copied]:
            if item is not None and item not in verdict.values:
                text = f"must not be {str(item)[:_SHOWN]!r}; {verdict.text}"
                self.problems.append(Problem(verdict.rule, path, text))
        return copied

    def _unknown(self, value: Json, path: str) -> None:
        if not _is_empty(value):
            text = "is not known to this version; leave it out, or ask for a newer version"
            self.problems.append(Problem("unknown-field", path, text))

    def _malformed(self, path: str, wanted: str) -> None:
        self.problems.append(Problem("malformed", path, f"must be {wanted}; correct the object"))


def lifted(table: Mapping[str, Verdict], rules: Collection[str]) -> Mapping[str, Verdict]:
    """Return a table that allows the fields which these rules refuse or restrict."""
    return {name: _lifted(verdict, rules) for name, verdict in table.items()}


def _lifted(verdict: Verdict, rules: Collection[str]) -> Verdict:
    match verdict:
        case Refuse() | Only():
            return ALLOW if verdict.rule in rules else verdict
        case Fields():
            return Fields(lifted(verdict.fields, rules))
        case Each():
            return Each(lifted(verdict.fields, rules))
        case _:
            return verdict


def _is_empty(value: Json) -> bool:
    """Return whether a value is empty. An object never is, because `emptyDir: {}` has a meaning."""
    return value is None or value is False or value in ("", [], 0)


def paths(table: Mapping[str, Verdict], root: str) -> Iterator[tuple[str, Verdict]]:
    """Yield each leaf of a table with its path, in the spelling of the OpenAPI census."""
    for name, verdict in table.items():
        where = f"{root}.{name}"
        match verdict:
            case Fields():
                yield from paths(verdict.fields, where)
            case Each():
                yield from paths(verdict.fields, f"{where}[]")
            case _:
                yield where, verdict
