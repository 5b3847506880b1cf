"""How large a network policy may be, as it is written and as it is rendered.

Pure. Owns the limits and the one sentence about them. Must not know how peers are rewritten.
Hazard: each block is written down less every address of the super cluster inside it, each selector
as the namespaces that it selects; without a limit, one object of one tenant would keep all others
waiting for as long as that takes.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from syncer.model.rejections import Problem, RejectedError

MAX_WRITTEN = 2000
"""Rules, peers and exceptions of a policy together."""
MAX_RENDERED = 20_000
"""Networks and namespaces that a policy comes to below."""
MAX_COMPARED = 100_000
"""Labels and values of its namespace selectors, times the namespaces of the tenant."""


def _problem(what: str) -> Problem:
    return Problem("too-large", "spec", f"{what}; use several policies, or wider blocks")


def written(spec: Mapping[str, Any]) -> Iterator[Problem]:
    """Yield a problem when a policy, walked by its table, has more than is looked at."""
    count = 0
    for field, peers in (("ingress", "from"), ("egress", "to")):
        for rule in spec.get(field) or ():
            found = rule.get(peers) or ()
            count += 1 + len(found)
            for peer in found:
                excepts = (peer.get("ipBlock") or {}).get("except")
                count += len(excepts) if isinstance(excepts, list) else 0
    if count > MAX_WRITTEN:
        yield _problem(f"has {count} rules, peers and exceptions, and {MAX_WRITTEN} are carried")


class Left:
    """What may still be done for one policy; raises RejectedError when it is used up."""

    def __init__(self) -> None:
        self._rendered = MAX_RENDERED
        self._compared = MAX_COMPARED

    def write(self, count: int) -> None:
        """Take so many networks or namespaces off, before they are written."""
        self._rendered -= count
        if self._rendered < 0:
            text = f"comes to more than {MAX_RENDERED} networks and namespaces where it counts"
            raise RejectedError(_problem(text))

    def compare(self, selector: Mapping[str, Any], namespaces: int) -> None:
        """Take the comparison of a selector with so many namespaces off, before it is made."""
        items = selector.get("matchExpressions") or ()
        weight = len(selector.get("matchLabels") or ())
        weight += sum(1 + len(item.get("values") or ()) for item in items)
        self._compared -= weight * namespaces
        if self._compared < 0:
            text = "selects namespaces by more labels and values than are looked at in all of yours"
            raise RejectedError(_problem(text))
