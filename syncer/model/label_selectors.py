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
from syncer.model.field_rules import ALLOW, FREE, Each, Only, Verdict
from syncer.model.rejections import Problem
from tenancy.policies import Metadata

_SET = frozenset({"In", "NotIn"})

SELECTOR: Mapping[str, Verdict] = {
    "matchExpressions": Each(
        {
            "key": ALLOW,
            "operator": Only(
                _SET | {"Exists", "DoesNotExist"}, "malformed", "use an operator of the API"
            ),
            "values": ALLOW,
        }
    ),
    "matchLabels": FREE,
}


def problems(selector: Mapping[str, Any], path: str, passing: Metadata) -> Iterator[Problem]:
    """Yield the problems that give a pod selector another meaning in the super cluster.

    The selector was walked by its table. `passing` is the part of the policy that decides which
    labels are synced.
    """
    yield from dropped(selector.get("matchLabels") or {}, f"{path}.matchLabels", passing)
    for index, item in enumerate(selector.get("matchExpressions") or ()):
        where = f"{path}.matchExpressions[{index}]"
        yield from broken(item, where)
        yield from dropped([item.get("key")], where, passing)


def broken(item: Mapping[str, Any], path: str) -> Iterator[Problem]:
    """Yield the problems of one expression itself."""
    values, operator = item.get("values") or [], item.get("operator")
    is_named = isinstance(item.get("key"), str) and bool(operator)
    if not is_named or not isinstance(values, list) or bool(values) != (operator in _SET):
        text = "must have a key, an operator and its values; correct the object"
        yield Problem("malformed", path, text)


def dropped(keys: Any, path: str, passing: Metadata) -> Iterator[Problem]:
    """Yield a problem for each label key that no twin of a pod has."""
    for key in keys:
        if isinstance(key, str) and not object_meta.passes_label(key, passing):
            text = (
                f"selects by the label {key}, which does not leave this cluster; use a label of"
                " your own"
            )
            yield Problem("selector-label", path, text)


def matches(selector: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    """Return whether a walked selector selects an object with these labels."""
    wanted = selector.get("matchLabels") or {}
    if any(key not in labels or labels[key] != value for key, value in wanted.items()):
        return False
    return all(holds(item, labels) for item in selector.get("matchExpressions") or ())


def holds(item: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
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
