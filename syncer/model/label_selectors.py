"""Label selectors that are synced to the super cluster: allowed keys, and matching.

Pure. Owns the verdict table of a selector, and the rule on keys. The twin of a pod has only the
labels that are synced. A selector with another key would match a different set of pods in the super
cluster, so it holds its object back. Must not know the selected objects.

Hazard: an absent selector selects nothing, but an empty selector selects everything. Confusing them
inverts the meaning.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from syncer.model import object_meta
from syncer.model.field_rules import ALLOW_MAP, ALLOW_SCALAR, AllowValues, FieldRule, ListOfObjects
from syncer.model.rejections import RejectionProblem
from tenancy.policies import MetadataSpec

_SET_OPERATORS = frozenset({"In", "NotIn"})

SELECTOR: Mapping[str, FieldRule] = {
    "matchExpressions": ListOfObjects(
        {
            "key": ALLOW_SCALAR,
            "operator": AllowValues(
                _SET_OPERATORS | {"Exists", "DoesNotExist"},
                "malformed",
                "use an operator of the API",
            ),
            "values": ALLOW_SCALAR,
        }
    ),
    "matchLabels": ALLOW_MAP,
}


def find_problems(
    selector: Mapping[str, Any], path: str, passing: MetadataSpec
) -> Iterator[RejectionProblem]:
    """Yield the problems that give a pod selector another meaning in the super cluster.

    The selector was walked by its table. `passing` is the part of the policy that decides which
    labels are synced.
    """
    yield from find_dropped_key_problems(
        selector.get("matchLabels") or {}, f"{path}.matchLabels", passing
    )
    for index, item in enumerate(selector.get("matchExpressions") or ()):
        where = f"{path}.matchExpressions[{index}]"
        yield from find_expression_problems(item, where)
        yield from find_dropped_key_problems([item.get("key")], where, passing)


def find_expression_problems(item: Mapping[str, Any], path: str) -> Iterator[RejectionProblem]:
    """Yield the problems of one expression itself."""
    values, operator = item.get("values") or [], item.get("operator")
    is_named = isinstance(item.get("key"), str) and bool(operator)
    if not is_named or not isinstance(values, list) or bool(values) != (operator in _SET_OPERATORS):
        text = "must have a key, an operator and its values; correct the object"
        yield RejectionProblem("malformed", path, text)


def find_dropped_key_problems(
    keys: Any, path: str, passing: MetadataSpec
) -> Iterator[RejectionProblem]:
    """Yield a problem for each label key that no twin of a pod has."""
    for key in keys:
        if isinstance(key, str) and not object_meta.is_label_synced(key, passing):
            text = (
                f"selects by the label {key}, which does not leave this cluster; use a label of"
                " your own"
            )
            yield RejectionProblem("selector-label", path, text)


def matches(selector: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    """Return whether a walked selector selects an object with these labels."""
    wanted = selector.get("matchLabels") or {}
    if any(key not in labels or labels[key] != value for key, value in wanted.items()):
        return False
    return all(matches_expression(item, labels) for item in selector.get("matchExpressions") or ())


def matches_expression(item: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    """Return whether one walked expression selects an object with these labels."""
    key, values = item.get("key", ""), item.get("values") or ()
    match item.get("operator"):
        case "In":
            return key in labels and labels[key] in values
        case "NotIn":
            return key not in labels or labels[key] not in values
        case "Exists":
            return key in labels
        case "DoesNotExist":
            return key not in labels
    return False
