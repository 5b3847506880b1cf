"""Size limits of network policies, as written and as rendered.

Pure. Owns the limits and their message. Must not know how peers are rewritten.

Hazard: every policy must be checked against the limits. A block is rendered without every address
of the super cluster inside it, and a selector as the namespaces that it selects. Without a limit,
one object of one tenant would delay all other tenants for as long as that takes.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from syncer.model.rejections import RejectedError, RejectionProblem

MAX_WRITTEN_ITEMS = 2000
"""Maximum number of rules, peers and exceptions of a policy together."""
MAX_SELECTOR_ITEMS = 1000
"""Maximum number of labels, expressions and values of the selector of a policy's pods. Each pod of
the namespace is compared with it."""
MAX_RENDERED_ITEMS = 20_000
"""Maximum number of networks and namespaces of the rendered policy."""
MAX_COMPARED_LABELS = 100_000
"""Maximum number of labels and values of the namespace selectors, times the tenant's namespaces."""


def _build_problem(what: str) -> RejectionProblem:
    return RejectionProblem("too-large", "spec", f"{what}. Use several policies, or wider blocks")


def check_written_size(spec: Mapping[str, Any]) -> Iterator[RejectionProblem]:
    """Yield a problem when a policy, walked by its table, has too many parts."""
    selector = spec.get("podSelector") or {}
    size = count_selector_items(selector)
    if size > MAX_SELECTOR_ITEMS:
        text = f"podSelector has {size} labels and values (limit {MAX_SELECTOR_ITEMS})"
        yield _build_problem(text)
    count = 0
    for field, peers in (("ingress", "from"), ("egress", "to")):
        for rule in spec.get(field) or ():
            found = rule.get(peers) or ()
            count += 1 + len(found)
            for peer in found:
                excepts = (peer.get("ipBlock") or {}).get("except")
                count += len(excepts) if isinstance(excepts, list) else 0
    if count > MAX_WRITTEN_ITEMS:
        yield _build_problem(f"has {count} rules, peers and exceptions (limit {MAX_WRITTEN_ITEMS})")


def count_selector_items(selector: Mapping[str, Any]) -> int:
    """Return the number of labels, expressions and values of a walked selector."""
    expressions = selector.get("matchExpressions") or ()
    values = (item.get("values") or () for item in expressions)
    count = sum(1 + (len(found) if isinstance(found, list) else 0) for found in values)
    return len(selector.get("matchLabels") or ()) + count


class PolicySizeBudget:
    """Remaining allowance for one policy. Raises RejectedError when it is used up."""

    def __init__(self) -> None:
        self._rendered = MAX_RENDERED_ITEMS
        self._compared = MAX_COMPARED_LABELS

    def take_rendered(self, count: int) -> None:
        """Subtract a number of networks or namespaces before they are written."""
        self._rendered -= count
        if self._rendered < 0:
            text = f"results in more than {MAX_RENDERED_ITEMS} networks and namespaces"
            raise RejectedError(_build_problem(text))

    def take_compared(self, selector: Mapping[str, Any], namespaces: int) -> None:
        """Subtract the comparison of a selector with a number of namespaces before it starts."""
        items = selector.get("matchExpressions") or ()
        weight = len(selector.get("matchLabels") or ())
        weight += sum(1 + len(item.get("values") or ()) for item in items)
        self._compared -= weight * namespaces
        if self._compared < 0:
            text = "selects namespaces by more labels and values than the syncer compares"
            raise RejectedError(_build_problem(text))
