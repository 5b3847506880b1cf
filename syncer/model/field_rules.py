"""Verdicts on the leaves of a tenant's spec, and the walk that builds a new object from them.

Owns the vocabulary of verdict tables and the walk. The largest table is
`syncer.rules.pods.pod_fields`. Must not know any kind.

Hazard: the walk must copy only leaves that a verdict names, and must reject a leaf that has a value
but no verdict. Otherwise a field of a newer API version is synced unchecked.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from syncer.model.rejections import RejectionProblem

Json = Any
_SCALARS = (str, int, float, bool)
_MAX_SHOWN_CHARACTERS = 60  # characters of a refused value in an Event


@dataclass(frozen=True, slots=True)
class AllowScalar:
    """Verdict: a scalar, or a list of scalars, is synced unchanged."""


@dataclass(frozen=True, slots=True)
class AllowMap:
    """Verdict: a map with keys of the tenant's choice and scalar values is synced unchanged.

    A key that is one of `closed` rejects the object.
    """

    closed: frozenset[str] = frozenset()
    rule: str = ""
    text: str = ""


@dataclass(frozen=True, slots=True)
class AllowValues:
    """Verdict: a scalar, or each item of a list of scalars, is synced if it is one of `values`."""

    values: frozenset[Json]
    rule: str
    text: str


@dataclass(frozen=True, slots=True)
class RefuseField:
    """Verdict: any value rejects the object."""

    rule: str
    text: str


@dataclass(frozen=True, slots=True)
class DropField:
    """Verdict: the leaf is left out without an Event, for this reason."""

    reason: str


@dataclass(frozen=True, slots=True)
class BuiltField:
    """Verdict: the walk leaves the leaf out, and the named module translates the tenant's value."""

    module: str
    text: str = ""
    """The result of the translation, for the user's page."""


@dataclass(frozen=True, slots=True)
class ObjectFields:
    """Verdict: an object with these fields."""

    fields: Mapping[str, "FieldRule"]


@dataclass(frozen=True, slots=True)
class ListOfObjects:
    """Verdict: a list of objects with these fields."""

    fields: Mapping[str, "FieldRule"]


@dataclass(frozen=True, slots=True)
class AllowTree:
    """Verdict: any value is synced unchanged, unless a field below it has one of these names."""

    closed: frozenset[str]
    rule: str
    text: str


FieldRule = (
    AllowScalar
    | AllowTree
    | AllowMap
    | AllowValues
    | RefuseField
    | DropField
    | BuiltField
    | ObjectFields
    | ListOfObjects
)

ALLOW_SCALAR = AllowScalar()
ALLOW_MAP = AllowMap()


@dataclass(slots=True)
class FieldWalk:
    """One walk over one object. It collects the problems and returns the fields to sync."""

    problems: list[RejectionProblem] = field(default_factory=list)

    def walk_fields(
        self, value: Json, table: Mapping[str, FieldRule], path: str
    ) -> dict[str, Json]:
        """Return a copy of an object, built by its table."""
        if not isinstance(value, dict):
            self._report_malformed(path, "an object")
            return {}
        copied: dict[str, Json] = {}
        for name, inner in value.items():
            if inner is None:
                continue
            verdict, where = table.get(name), f"{path}.{name}"
            if verdict is None:
                self._report_unknown(inner, where)
                continue
            found = self._walk_leaf(inner, verdict, where)
            if found is not None:
                copied[name] = found
        return copied

    def _walk_leaf(self, value: Json, rule: FieldRule, path: str) -> Json:  # noqa: PLR0911
        match rule:
            case AllowScalar():
                return self._copy_scalars(value, path)
            case AllowMap():
                return self._copy_map(value, rule, path)
            case AllowTree():
                return self._copy_tree(value, rule, path)
            case AllowValues():
                return self._copy_allowed_values(value, rule, path)
            case RefuseField():
                if not _is_empty(value):
                    self.problems.append(RejectionProblem(rule.rule, path, rule.text))
                return None
            case DropField() | BuiltField():
                return None
            case ObjectFields():
                return self.walk_fields(value, rule.fields, path)
            case ListOfObjects():
                return self._walk_list(value, rule, path)

    def _walk_list(self, value: Json, rule: ListOfObjects, path: str) -> Json:
        if not isinstance(value, list):
            return self._report_malformed(path, "a list")
        return [
            self.walk_fields(item, rule.fields, f"{path}[{index}]")
            for index, item in enumerate(value)
        ]

    def _copy_scalars(self, value: Json, path: str) -> Json:
        if isinstance(value, list):
            if all(isinstance(item, _SCALARS) for item in value):
                return list(value)
            return self._report_malformed(path, "a list of plain values")
        if isinstance(value, _SCALARS):
            return value
        return self._report_malformed(path, "a plain value")

    def _copy_map(self, value: Json, rule: AllowMap, path: str) -> Json:
        if not isinstance(value, dict) or not all(
            isinstance(inner, _SCALARS) for inner in value.values()
        ):
            return self._report_malformed(path, "a map of plain values")
        closed = rule.closed.intersection(value)
        for name in sorted(closed):
            self._report_closed(rule, f"{path}.{name}")
        return {name: inner for name, inner in value.items() if name not in closed}

    def _copy_tree(self, value: Json, rule: AllowTree, path: str) -> Json:
        if isinstance(value, list):
            return [
                self._copy_tree(item, rule, f"{path}[{index}]") for index, item in enumerate(value)
            ]
        if not isinstance(value, dict):
            return value
        copied: dict[str, Json] = {}
        for name, inner in value.items():
            if name in rule.closed:
                self._report_closed(rule, f"{path}.{name}")
            else:
                copied[name] = self._copy_tree(inner, rule, f"{path}.{name}")
        return copied

    def _copy_allowed_values(self, value: Json, rule: AllowValues, path: str) -> Json:
        if _is_empty(value):
            return None
        copied = self._copy_scalars(value, path)
        for item in copied if isinstance(copied, list) else [copied]:
            if item is not None and item not in rule.values:
                text = f"must not be {str(item)[:_MAX_SHOWN_CHARACTERS]!r}. {rule.text}"
                self.problems.append(RejectionProblem(rule.rule, path, text))
        return copied

    def _report_closed(self, rule: AllowMap | AllowTree, path: str) -> None:
        self.problems.append(RejectionProblem(rule.rule, path, rule.text))

    def _report_unknown(self, value: Json, path: str) -> None:
        if not _is_empty(value):
            text = "is not known to this version. Leave it out, or ask for a newer version"
            self.problems.append(RejectionProblem("unknown-field", path, text))

    def _report_malformed(self, path: str, wanted: str) -> None:
        self.problems.append(
            RejectionProblem("malformed", path, f"must be {wanted}. Correct the object")
        )


def lift_rules(table: Mapping[str, FieldRule], rules: Collection[str]) -> Mapping[str, FieldRule]:
    """Return a table that allows the fields which these rules refuse or restrict."""
    return {name: _lift_rule(verdict, rules) for name, verdict in table.items()}


def _lift_rule(rule: FieldRule, rules: Collection[str]) -> FieldRule:
    match rule:
        case RefuseField() | AllowValues():
            return ALLOW_SCALAR if rule.rule in rules else rule
        case ObjectFields():
            return ObjectFields(lift_rules(rule.fields, rules))
        case ListOfObjects():
            return ListOfObjects(lift_rules(rule.fields, rules))
        case _:
            return rule


def _is_empty(value: Json) -> bool:
    """Return whether a value is empty. An object never is, because `emptyDir: {}` has a meaning."""
    return value is None or value is False or value in ("", [], 0)


def iterate_leaf_paths(
    table: Mapping[str, FieldRule], root: str
) -> Iterator[tuple[str, FieldRule]]:
    """Yield each leaf of a table with its path, in the spelling of the OpenAPI census."""
    for name, verdict in table.items():
        where = f"{root}.{name}"
        match verdict:
            case ObjectFields():
                yield from iterate_leaf_paths(verdict.fields, where)
            case ListOfObjects():
                yield from iterate_leaf_paths(verdict.fields, f"{where}[]")
            case _:
                yield where, verdict
