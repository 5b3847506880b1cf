"""References in objects of SyncRules: from names of the tenant to names of the super cluster.

Pure. Names inside a namespace stay equal, because a super namespace keeps the names of objects.
Must not know how the named object is synced.

Hazard: a namespace in a reference must always be computed from the tenant's own root. Otherwise a
tenant reaches objects of another tenant, or of the platform, by the name of their namespace.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from kubeio.cache.store import Entry
from syncer.model import mirrored_kinds, references
from syncer.model.rejections import RejectionProblem
from syncer.model.tenant_view import TenantView
from syncer.rules.registry import KINDS_BY_NAME
from tenancy import wellknown
from tenancy.sync_rules import field_paths
from tenancy.sync_rules.checks import CLASS_KINDS, REFERENCE_KINDS
from tenancy.sync_rules.specs import RuleReference, SyncRule

REFERENCE = "sync-rule-reference"
OTHER_NAMESPACE = "another-namespace"
"""Replaces a namespace in a status that is not the tenant's."""


@dataclass(slots=True)
class ReferenceWalk:
    """One rewriting of the references of one object. It collects the problems."""

    rule: SyncRule
    rules_by_kind: Mapping[str, SyncRule]
    view: TenantView
    namespace: str
    """Namespace of the tenant object."""
    problems: list[RejectionProblem] = field(default_factory=list)

    def rewrite(self, copied: dict[str, Any]) -> None:
        """Rewrite all references of a copy in place."""
        for reference in self.rule.spec.references:
            for holder, key, where in iterate_places(copied, reference.path):
                if reference.form == "Name":
                    self._rewrite_name(reference, holder, key, where)
                elif isinstance(holder[key], dict):
                    self._rewrite_object(reference, holder[key], where)

    def _rewrite_name(self, reference: RuleReference, holder: Any, key: Any, where: str) -> None:
        kind, value = reference.kinds[0], holder[key]
        if isinstance(value, list):
            holder[key] = [self._get_super_name(kind, each, where) for each in value]
        elif value:
            holder[key] = self._get_super_name(kind, value, where)

    def _rewrite_object(self, reference: RuleReference, found: dict[str, Any], where: str) -> None:
        kind = found.get("kind") or reference.kinds[0]
        if kind not in reference.kinds:
            self._report(f"{where}.kind", f"must be {' or '.join(reference.kinds)}")
            return
        for name in ("group", "apiGroup"):
            if name in found and found[name] != self._get_group(kind):
                self._report(f"{where}.{name}", f"must be {self._get_group(kind)!r} for a {kind}")
        if "name" in found:
            found["name"] = self._get_super_name(kind, found["name"], f"{where}.name")
        self._rewrite_namespace(kind, found, f"{where}.namespace")

    def _rewrite_namespace(self, kind: str, found: dict[str, Any], where: str) -> None:
        given = found.get("namespace")
        if given is not None and not isinstance(given, str):
            self._report(where, "must be a name")
            return
        target = self.rules_by_kind.get(kind)
        if kind in CLASS_KINDS or (target is not None and not target.is_namespaced):
            if given:
                self._report(where, f"must be empty, because a {kind} has no namespace")
            return
        if target is not None and target.spec.mirror is not None:
            shown = target.spec.mirror
            if (given or self.namespace) == shown.tenant_namespace:
                found["namespace"] = shown.source_namespace
                return
            self._report(where, f"must be {shown.tenant_namespace}, where each {kind} is shown")
            return
        if given:
            found["namespace"] = self.view.get_super_namespace(given)

    def _get_super_name(self, kind: str, name: Any, where: str) -> Any:
        if not isinstance(name, str) or not name:
            self._report(where, "must be a name")
            return name
        if references.is_reserved_name(kind, name):
            self._report(where, "is reserved. Name another object")
        if kind in mirrored_kinds.MIRRORS_BY_KIND and not self.view.shows_class(kind, name):
            self._report(where, f"is no {kind} that this cluster offers. Choose another one")
        target = self.rules_by_kind.get(kind)
        if target is not None and not target.is_down and not self._is_offered(target, name):
            self._report(where, f"is no {kind} that this cluster offers. Choose another one")
        row = KINDS_BY_NAME.get(kind) if kind in REFERENCE_KINDS else None
        return row.super_name(name) if row is not None else name

    def _is_offered(self, target: SyncRule, name: str) -> bool:
        """Return whether a rule shows an object. The tenant may have another one of that name."""
        mirror = target.spec.mirror
        place = mirror.source_namespace if mirror is not None else ""
        entry = self.view.get_shown_source(target.resource.kind, place, name)
        return entry is not None and is_shown(target, entry)

    def _get_group(self, kind: str) -> str:
        target = self.rules_by_kind.get(kind)
        return target.resource.group if target is not None else CLASS_KINDS.get(kind, "")

    def _report(self, where: str, text: str) -> None:
        remedy = f"{text} (SyncRule {self.rule.name})"
        self.problems.append(RejectionProblem(REFERENCE, where, remedy))


def is_shown(rule: SyncRule, entry: Entry) -> bool:
    """Return whether a rule shows a super object. Copies of tenants are never shown."""
    return rule.spec.selector.matches(entry.labels) and wellknown.CONTROLLED not in entry.labels


def list_needs(rule: SyncRule, body: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    """Return kind, tenant namespace and name of each ConfigMap and Secret that an object names."""
    namespace = body["metadata"].get("namespace", "")
    found: list[tuple[Any, Any, Any]] = []
    for reference in rule.spec.references:
        for holder, key, _ in iterate_places(body, reference.path):
            value = holder[key]
            if reference.form == "Name":
                names = value if isinstance(value, list) else [value]
                found += [(reference.kinds[0], namespace, each) for each in names]
            elif isinstance(value, dict):
                kind = value.get("kind") or reference.kinds[0]
                found.append((kind, value.get("namespace") or namespace, value.get("name")))
    return [
        each
        for each in found
        if each[0] in ("ConfigMap", "Secret") and all(isinstance(part, str) for part in each)
    ]


def restore_namespaces(
    status: dict[str, Any],
    rule: SyncRule,
    own: Mapping[str, Any],
    rules_by_kind: Mapping[str, SyncRule],
    get_super_namespace: Callable[[str], str],
) -> None:
    """Replace the namespaces of references in a status with the tenant's names, in place."""
    namespace = own["metadata"].get("namespace", "")
    known = {get_super_namespace(namespace): namespace}
    for reference in rule.spec.references:
        for holder, key, _ in iterate_places(own, reference.path):
            given = holder[key].get("namespace") if isinstance(holder[key], dict) else None
            if isinstance(given, str) and given:
                known[get_super_namespace(given)] = given
    for each in rules_by_kind.values():
        if each.spec.mirror is not None:
            known[each.spec.mirror.source_namespace] = each.spec.mirror.tenant_namespace
    for path in rule.spec.status_references:
        for holder, key, _ in iterate_places({"status": status}, path):
            found = holder[key]
            if isinstance(found, dict) and found.get("namespace"):
                found["namespace"] = known.get(found["namespace"], OTHER_NAMESPACE)


def iterate_places(body: Any, path: str) -> Iterator[tuple[Any, Any, str]]:
    """Yield each place of a path: the object or list, the key in it, and the path as text."""
    yield from _iterate(body, field_paths.split_path(path), "")


def _iterate(value: Any, parts: list[str], where: str) -> Iterator[tuple[Any, Any, str]]:
    part, rest = parts[0], parts[1:]
    name, is_list = part.removesuffix("[]"), part.endswith("[]")
    if not isinstance(value, dict) or value.get(name) is None:
        return
    here = f"{where}.{name}" if where else name
    inner = value[name]
    if is_list and isinstance(inner, list):
        for index, item in enumerate(inner):
            there = f"{here}[{index}]"
            if rest:
                yield from _iterate(item, rest, there)
            else:
                yield inner, index, there
    elif not is_list:
        if rest:
            yield from _iterate(inner, rest, here)
        else:
            yield value, name, here
