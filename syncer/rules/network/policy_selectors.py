"""Index of the pods that network policies of a tenant select, by direction.

Pure. Owns the index and the labels of super pods that follow from it. The default policies leave
out pods with these labels. Must not enqueue keys.

Hazard: a policy counts even if it was rejected, so the pods that it selects are closed rather than
open. A selector that cannot be read selects nothing, as no honest API server stores it.
"""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import msgspec

from kubeio.cache.store import Entry
from syncer.model import label_selectors
from syncer.rules.network import policy_size
from syncer.rules.network.default_policies import POLICED_LABELS
from syncer.rules.network.policy_peers import PolicyDirection


class _Expression(msgspec.Struct):
    key: str = ""
    operator: str = ""
    values: list[str] | None = None


class _Selector(msgspec.Struct, rename="camel", omit_defaults=True):
    match_labels: dict[str, str] | None = None
    match_expressions: list[_Expression] | None = None


class _Spec(msgspec.Struct, rename="camel"):
    pod_selector: _Selector | None = None
    policy_types: list[str] | None = None
    egress: list[msgspec.Raw] | None = None


class _Policy(msgspec.Struct):
    spec: _Spec | None = None


_DECODER = msgspec.json.Decoder(_Policy)
_EVERY_POD: Mapping[str, Any] = {}


class PolicySelector(NamedTuple):
    """Selector of the pods of one policy, and the directions that it polices."""

    selector: Mapping[str, Any]
    directions: frozenset[PolicyDirection]

    def selects(self, labels: Mapping[str, str]) -> bool:
        """Return whether the policy selects a pod with these labels."""
        return label_selectors.matches(self.selector, labels)


class PolicySelectors:
    """Selectors of the network policies of one tenant."""

    def __init__(self) -> None:
        self._by_namespace: dict[str, dict[str, PolicySelector]] = {}

    def set(self, old: Entry | None, new: Entry | None) -> Iterable[PolicySelector]:
        """Update the index with a policy. Return the selectors whose pods may have changed."""
        entry = new or old
        if entry is None:
            return ()
        found = self._by_namespace.setdefault(entry.namespace, {})
        before = found.pop(entry.name, None)
        now = parse_policy_selector(new) if new is not None and not new.deleting else None
        if now is not None:
            found[entry.name] = now
        if not found:
            del self._by_namespace[entry.namespace]
        return () if before == now else [each for each in (before, now) if each is not None]

    def build_labels(self, namespace: str, labels: Mapping[str, str]) -> dict[str, str]:
        """Return the labels of a super pod: the directions in which a policy selects the pod."""
        missing = set(PolicyDirection)
        for each in self._by_namespace.get(namespace, {}).values():
            if not missing.isdisjoint(each.directions) and each.selects(labels):
                missing -= each.directions
                if not missing:
                    break
        return {label: "true" for way, label in POLICED_LABELS.items() if way not in missing}


def parse_policy_selector(policy: Entry) -> PolicySelector | None:
    """Return the selector of a policy. None if it cannot be read, or polices no direction."""
    try:
        spec = _DECODER.decode(policy.body).spec or _Spec()
    except msgspec.DecodeError:
        return None
    types = spec.policy_types or ["Ingress", *(["Egress"] if spec.egress else [])]
    directions = frozenset(way for way in PolicyDirection if way.policy_type in types)
    selector = _convert_selector(spec.pod_selector) if spec.pod_selector else _EVERY_POD
    return PolicySelector(selector, directions) if directions else None


def _convert_selector(selector: _Selector) -> Mapping[str, Any]:
    """Return a selector for `label_selectors`. A selector that is too large selects every pod."""
    found: dict[str, Any] = msgspec.to_builtins(selector)
    is_large = policy_size.count_selector_items(found) > policy_size.MAX_SELECTOR_ITEMS
    return _EVERY_POD if is_large else found
