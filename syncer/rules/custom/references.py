"""References in objects of SyncRules: from names of the tenant to names of the super cluster.

Pure. Names inside a namespace stay equal, because a super namespace keeps the names of objects.
Must not know how the named object is synced.

Hazard: a namespace in a reference must always be computed from the tenant's own root. Otherwise a
tenant reaches objects of another tenant, or of the platform, by the name of their namespace.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from syncer.model import mirrored_kinds, references
from syncer.model.rejections import RejectionProblem
from syncer.model.tenant_view import TenantView
from syncer.rules.custom import mirror_owner
from syncer.rules.network import ingress_paths
from syncer.rules.registry import KINDS_BY_NAME
from tenancy.sync_rules import field_paths
from tenancy.sync_rules.checks import CLASS_KINDS, REFERENCE_KINDS
from tenancy.sync_rules.specs import RuleReference, SyncRule

REFERENCE = "sync-rule-reference"
_NOT_SYNCED = (
    "names the kind {kind}, which is not synced for you. Name another kind, or ask your platform"
    " administrator to select its SyncRule in the TenantPolicy"
)


def names_kind(rule: SyncRule, kind: str) -> bool:
    """Return whether objects of a rule may name a kind."""
    return any(kind in each.kinds for each in rule.spec.references)


@dataclass(slots=True)
class ReferenceWalk:
    """One rewriting of the references of one object. It collects the problems."""

    rule: SyncRule
    rules_by_kind: Mapping[str, SyncRule]
    view: TenantView
    namespace: str
    """Namespace of the tenant object."""
    problems: list[RejectionProblem] = field(default_factory=list)
    is_forbidden: bool = False
    """Whether an existing copy must go, because it names what is not offered."""

    def rewrite(self, copied: dict[str, Any]) -> None:
        """Rewrite all references of a copy in place."""
        for reference in self.rule.spec.references:
            places = list(field_paths.iterate_places(copied, reference.path))
            if reference.required and not any(holder[key] for holder, key, _ in places):
                kinds = " or ".join(reference.kinds)
                self._report(reference.path, f"must be set. Name a {kinds} that you can see")
            for holder, key, where in places:
                if reference.form == "Name":
                    self._rewrite_name(reference, holder, key, where)
                elif isinstance(holder[key], dict):
                    self._rewrite_object(reference, holder[key], where)

    def _rewrite_name(self, reference: RuleReference, holder: Any, key: Any, where: str) -> None:
        kind, value = reference.kinds[0], holder[key]
        if value and not self._is_synced(kind):
            self._report(where, _NOT_SYNCED.format(kind=kind))
        elif isinstance(value, list):
            holder[key] = [self._get_super_name(kind, each, "", where) for each in value]
        elif value:
            holder[key] = self._get_super_name(kind, value, "", where)

    def _rewrite_object(self, reference: RuleReference, found: dict[str, Any], where: str) -> None:
        kind = found.get("kind") or reference.kinds[0]
        if kind not in reference.kinds:
            self._report(f"{where}.kind", f"must be {' or '.join(reference.kinds)}")
            return
        if not self._is_synced(kind):
            self._report(f"{where}.kind", _NOT_SYNCED.format(kind=kind))
            return
        for name in ("group", "apiGroup"):
            if name in found and found[name] != self._get_group(kind):
                self._report(f"{where}.{name}", f"must be {self._get_group(kind)!r} for a {kind}")
        if "name" in found:
            given = found.get("namespace")
            found["name"] = self._get_super_name(kind, found["name"], given, f"{where}.name")
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

    def _get_super_name(self, kind: str, name: Any, given: Any, where: str) -> Any:
        """Return the name in the super cluster. `given` is the namespace that the tenant names."""
        if not isinstance(name, str) or not name:
            self._report(where, "must be a name")
            return name
        if references.is_reserved_name(kind, name):
            self._report(where, "is reserved. Name another object")
        if kind in mirrored_kinds.MIRRORS_BY_KIND and not self.view.shows_class(kind, name):
            self._report(where, f"is no {kind} that this cluster offers. Choose another one")
        self._check_shown(kind, name, where)
        self._check_external_name(kind, given or self.namespace, name, where)
        row = KINDS_BY_NAME.get(kind) if kind in REFERENCE_KINDS else None
        return row.super_name(name) if row is not None else name

    def _check_shown(self, kind: str, name: str, where: str) -> None:
        """Report an object of a shown kind that the rule does not show.

        The tenant may have an object of any name itself, so the super object is read.
        """
        target = self.rules_by_kind.get(kind)
        if target is None or target.is_down:
            return
        mirror = target.spec.mirror
        source = mirror.source_namespace if mirror is not None else ""
        entry = self.view.get_shown_source(kind, source, name)
        if entry is None or not mirror_owner.is_shown(target, entry, self.view):
            self.is_forbidden |= entry is not None  # an absent one may just be recreated
            self._report(where, f"is no {kind} that this cluster offers. Choose another one")

    def _check_external_name(self, kind: str, namespace: Any, name: str, where: str) -> None:
        """Report a Service whose name a controller of the super cluster would resolve itself."""
        store = self.view.stores.get(kind) if kind == "Service" else None
        if store is None or self.view.policy.network.external_name_backends == "Allow":
            return
        if ingress_paths.is_external_name(store.get(namespace, name)):
            self.is_forbidden = True
            self._report(
                where,
                "names a Service of type ExternalName. Use a Service with a selector, or ask your"
                " platform administrator to set spec.network.externalNameBackends of the"
                " TenantPolicy",
            )

    def _is_synced(self, kind: str) -> bool:
        """Return whether the tenant has a kind. Otherwise no rule checks the named object."""
        return kind in REFERENCE_KINDS or kind in CLASS_KINDS or kind in self.rules_by_kind

    def _get_group(self, kind: str) -> str:
        target = self.rules_by_kind.get(kind)
        return target.resource.group if target is not None else CLASS_KINDS.get(kind, "")

    def _report(self, where: str, text: str) -> None:
        remedy = f"{text} (SyncRule {self.rule.name})"
        self.problems.append(RejectionProblem(REFERENCE, where, remedy))


def list_needs(rule: SyncRule, body: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    """Return kind, tenant namespace and name of each ConfigMap and Secret that an object names."""
    return [
        (kind, namespace, name)
        for _, kind, namespace, name in _iterate_named(rule, body)
        if kind in ("ConfigMap", "Secret")
    ]


def list_claims(rule: SyncRule, body: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    """Return field, tenant namespace and name of each claim that an object names."""
    return [
        (where, namespace, name)
        for where, kind, namespace, name in _iterate_named(rule, body)
        if kind == "PersistentVolumeClaim"
    ]


def _iterate_named(rule: SyncRule, body: Mapping[str, Any]) -> Iterator[tuple[str, str, str, str]]:
    """Yield field, kind, tenant namespace and name of each object that an object names."""
    namespace = body["metadata"].get("namespace", "")
    for reference in rule.spec.references:
        for holder, key, where in field_paths.iterate_places(body, reference.path):
            value = holder[key]
            found: list[tuple[Any, Any, Any]] = []
            if reference.form == "Name":
                names = value if isinstance(value, list) else [value]
                found = [(reference.kinds[0], namespace, each) for each in names]
            elif isinstance(value, dict):
                kind = value.get("kind") or reference.kinds[0]
                found = [(kind, value.get("namespace") or namespace, value.get("name"))]
            for kind, space, name in found:
                if isinstance(kind, str) and isinstance(space, str) and isinstance(name, str):
                    yield where, kind, space, name


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
        for holder, key, _ in field_paths.iterate_places(own, reference.path):
            given = holder[key].get("namespace") if isinstance(holder[key], dict) else None
            if isinstance(given, str) and given:
                known[get_super_namespace(given)] = given
    for each in rules_by_kind.values():
        if each.spec.mirror is not None:
            known[each.spec.mirror.source_namespace] = each.spec.mirror.tenant_namespace
    for path in rule.spec.status_references:
        for holder, key, _ in field_paths.iterate_places({"status": status}, path):
            found = holder[key]
            if isinstance(found, dict) and found.get("namespace"):
                found["namespace"] = known.get(found["namespace"], mirror_owner.OTHER_NAMESPACE)
