"""Label selectors on their way down: what they may name, and what they select.

Pure. Owns the verdict table of a selector, and the rule about keys: the twin of a pod has only the
labels that pass, so a selector that names another key would match more or less below than above,
and holds its object back. Must not know what is selected. Hazard: no selector selects nothing, an
empty one selects everything.
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
    """Yield what keeps a selector of pods, walked by its table, from meaning the same below.

    `passing` is the policy's word on which labels go down.
    """
    yield from dropped(selector.get("matchLabels") or {}, f"{path}.matchLabels", passing)
    for index, item in enumerate(selector.get("matchExpressions") or ()):
        where = f"{path}.matchExpressions[{index}]"
        yield from broken(item, where)
        yield from dropped([item.get("key")], where, passing)


def broken(item: Mapping[str, Any], path: str) -> Iterator[Problem]:
    """Yield what is wrong with one expression itself."""
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
    """Tell whether a walked selector selects an object with these labels."""
    wanted = selector.get("matchLabels") or {}
    if any(key not in labels or labels[key] != value for key, value in wanted.items()):
        return False
    return all(holds(item, labels) for item in selector.get("matchExpressions") or ())


def holds(item: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    """Tell whether one walked expression selects an object with these labels."""
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
