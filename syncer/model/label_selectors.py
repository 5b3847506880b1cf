"""Label selectors that are synced to the super cluster: translation of keys, and matching.

Pure. Owns the verdict table of a selector, and the translation of its keys. A super pod has each
label that is not synced under a translated key, so a selector of pods must name the same keys.
Otherwise it selects other pods in the super cluster. Must not know the selected objects.

Hazard: an absent selector selects nothing, but an empty selector selects everything. Confusing them
inverts the meaning.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from kubeio import Object
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
                "Use an operator of the API",
            ),
            "values": ALLOW_SCALAR,
        }
    ),
    "matchLabels": ALLOW_MAP,
}


def find_problems(selector: Mapping[str, Any], path: str) -> Iterator[RejectionProblem]:
    """Yield the problems of a selector that was walked by its table."""
    for index, item in enumerate(selector.get("matchExpressions") or ()):
        yield from find_expression_problems(item, f"{path}.matchExpressions[{index}]")


def translate_selector(selector: Mapping[str, Any], passing: MetadataSpec) -> Object:
    """Return a walked selector of pods with the keys that the labels of super pods have.

    `passing` is the part of the policy that decides which labels keep their keys.
    """
    found = dict(selector)
    if selector.get("matchLabels"):
        found["matchLabels"] = object_meta.translate_labels(selector["matchLabels"], passing)
    if selector.get("matchExpressions"):
        found["matchExpressions"] = [
            {**item, "key": object_meta.get_super_label_key(item["key"], passing)}
            if isinstance(item.get("key"), str)
            else item
            for item in selector["matchExpressions"]
        ]
    return found


def find_expression_problems(item: Mapping[str, Any], path: str) -> Iterator[RejectionProblem]:
    """Yield the problems of one expression itself."""
    values, operator = item.get("values") or [], item.get("operator")
    is_named = isinstance(item.get("key"), str) and bool(operator)
    if not is_named or not isinstance(values, list) or bool(values) != (operator in _SET_OPERATORS):
        text = "must have a key, an operator and its values. Correct the object"
        yield RejectionProblem("malformed", path, text)


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
