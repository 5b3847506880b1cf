"""Rows of kinds that SyncRules declare, for one tenant.

Pure. A row has the same form as those of `syncer.rules.registry`, so the same reconciler, writer
and proofs work for it. Must not know how a rule was selected.

Hazard: the twin must be built from the rule's fields alone. A tenant owns the schema of its copy of
a CRD and may add any field to it.
"""

from collections import defaultdict, deque
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from kubeio import Object
from kubeio.cache.store import Entry
from syncer.model import mirrored_kinds, object_meta, replace_update
from syncer.model.field_rules import (
    AllowMap,
    AllowTree,
    FieldRule,
    FieldWalk,
    ListOfObjects,
    ObjectFields,
)
from syncer.model.mirrored_kinds import ComparedShape
from syncer.model.rejections import ForbiddenObjectError, RejectedError
from syncer.model.tenant_view import TenantView
from syncer.model.unstructured import as_mapping
from syncer.rules import status_ownership
from syncer.rules.custom import field_tables, hostnames, mirror_owner, references
from syncer.rules.registry import SyncDirection, SyncedKind, UpdateMethod
from syncer.rules.status_ownership import StatusOwnership
from tenancy import names
from tenancy.ownership import Tenant
from tenancy.sync_rules.specs import SyncRule, list_body_paths, list_status_paths
from tenancy.sync_rules.status_rules import get_built_in_kind

ITEM_NAME = "name"
"""Field that identifies an item of a list, if each item has another value."""
_SORTED = orjson.OPT_SORT_KEYS
_NO_FIELDS: Mapping[str, FieldRule] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class RuledKinds:
    """Kinds of one tenant that SyncRules declare, by the names of the kinds."""

    down: Mapping[str, SyncedKind]
    mirrors: Mapping[str, "RuledMirror"]
    rules: tuple[SyncRule, ...] = ()
    pod_followers: Mapping[str, SyncedKind]
    """Kinds of `down` with a copy in each super cluster that runs pods of the namespace."""

    def list_users(self, kind: str) -> list[str]:
        """Return the kinds whose objects may name a kind."""
        users = [rule for rule in self.rules if references.names_kind(rule, kind)]
        return [rule.resource.kind for rule in users]

    def list_host_kinds(self) -> list[str]:
        """Return the kinds whose objects have host names."""
        return [rule.resource.kind for rule in self.rules if rule.spec.hostnames]


def build_ruled_kinds(rules: Iterable[SyncRule], tenant: Tenant) -> RuledKinds:
    """Return the kinds that these rules declare for a tenant."""
    ordered = tuple(rules)
    by_kind = {rule.resource.kind: rule for rule in ordered}
    down = {
        kind: RuledKind(rule, by_kind, tenant).row for kind, rule in by_kind.items() if rule.is_down
    }
    return RuledKinds(
        down=down,
        pod_followers={kind: down[kind] for kind, rule in by_kind.items() if rule.follows_pods},
        mirrors={kind: RuledMirror(rule) for kind, rule in by_kind.items() if not rule.is_down},
        rules=ordered,
    )


class RuledKind:
    """One kind with the direction Down."""

    def __init__(
        self, rule: SyncRule, rules_by_kind: Mapping[str, SyncRule], tenant: Tenant
    ) -> None:
        """`rules_by_kind` are all rules of the tenant."""
        self.rule = rule
        self._rules_by_kind = rules_by_kind
        self._tenant = tenant
        self._table = field_tables.build_table(rule.name, list_body_paths(rule.spec))
        self._status = ShownStatus(rule)
        shows = rule.shows_status
        self.row = SyncedKind(
            resource=rule.resource,
            direction=SyncDirection.DOWN_UP if shows else SyncDirection.DOWN,
            update_method=UpdateMethod.REPLACE,
            build=self.build,
            change=self.build_change,
            is_wanted=self.is_wanted,
            has_grace_period=rule.follows_pods,
            status_owner=StatusOwnership(fields=frozenset(self._status.table)),
            list_references=self.list_references,
            list_awaited=self.list_awaited,
            show_status=self.show_status,
            build_status_up=self._status.build_patch if shows else None,
        )

    def is_wanted(self, entry: Entry, _: TenantView) -> bool:
        """Return whether the rule selects a tenant object."""
        return self.rule.spec.selector.matches(entry.labels)

    def list_references(self, own: Mapping[str, Any]) -> Collection[tuple[str, str, str]]:
        """Return kind, namespace and name of the ConfigMaps and Secrets that an object names."""
        return references.list_needs(self.rule, own)

    def list_awaited(self, own: Mapping[str, Any]) -> Collection[tuple[str, str, str]]:
        """Return field, namespace and name of the claims that an object names."""
        return references.list_claims(self.rule, own)

    def build(self, own: Mapping[str, Any], view: TenantView) -> Object:
        """Return the twin of a tenant object. Raises RejectedError."""
        metadata, rule = own["metadata"], self.rule
        body = {
            name: value
            for name, value in own.items()
            if name not in ("apiVersion", "kind", "metadata", "status")
        }
        walk = field_tables.RuleWalk(rule=rule.name)
        copied = walk.copy_fields(body, self._table)
        malformed = walk.problems or list(hostnames.find_malformed(rule, body))
        if walk.is_forbidden:
            raise ForbiddenObjectError(*malformed)
        if malformed:
            raise RejectedError(*malformed)
        foreign = list(hostnames.find_problems(rule, own, view))
        if foreign:
            raise ForbiddenObjectError(*foreign)
        rewriting = references.ReferenceWalk(rule, self._rules_by_kind, view, metadata["namespace"])
        rewriting.rewrite(copied)
        if rewriting.problems:
            refusal = ForbiddenObjectError if rewriting.is_forbidden else RejectedError
            raise refusal(*rewriting.problems)
        return {
            "apiVersion": rule.resource.api_version,
            "kind": rule.resource.kind,
            "metadata": object_meta.build_super_metadata(
                rule.resource.kind,
                view.tenant,
                metadata,
                super_namespace=view.get_super_namespace(metadata["namespace"]),
                passing=view.policy.metadata,
            ),
            **copied,
        }

    def build_change(self, live: Mapping[str, Any], twin: Object) -> Object | None:
        """Return the object to put in place of the live one, or None if it is up to date.

        Fields that the rule does not list belong to the super cluster and stay.
        """
        changes = object_meta.build_metadata_patch(twin["kind"], live["metadata"], twin["metadata"])
        wanted = {name: twin[name] for name in self._table if name in twin}
        merged = merge_listed(live, wanted, self._table)
        if not changes and all(
            _drop_empty(live.get(name)) == _drop_empty(merged.get(name)) for name in self._table
        ):
            return None
        kept = {name: value for name, value in live.items() if name != "metadata"}
        body = {name: value for name, value in merged.items() if value is not None}
        metadata = replace_update.build_metadata(live["metadata"], twin["metadata"], changes)
        return {
            **{name: value for name, value in kept.items() if name not in self._table},
            **body,
            "apiVersion": twin["apiVersion"],
            "kind": twin["kind"],
            "metadata": metadata,
        }

    def show_status(self, own: Mapping[str, Any], live: Mapping[str, Any]) -> Object:
        """Return a super object with the shown parts of its status, in the tenant's namespaces."""
        shown = self._status.copy_fields(live)
        references.restore_namespaces(
            shown, self.rule, own, self._rules_by_kind, self._get_super_namespace
        )
        return {**live, "status": shown}

    def _get_super_namespace(self, namespace: str) -> str:
        return names.build_super_namespace(self._tenant.root, self._tenant.uid, namespace)


class ShownStatus:
    """The parts of the status of one kind that tenants see."""

    def __init__(self, rule: SyncRule) -> None:
        status = field_tables.build_table(rule.name, list_status_paths(rule.spec))
        found = status.get("status")
        self._is_whole = isinstance(found, AllowTree)
        self._is_plain = isinstance(found, AllowMap)
        self._fixed_fields = get_built_in_kind(rule.resource).fixed_status_fields
        self.table = found.fields if isinstance(found, ObjectFields) else _NO_FIELDS

    def copy_fields(self, live: Mapping[str, Any]) -> dict[str, Any]:
        """Return the shown parts of a super object's status.

        Hazard: a field with the value null must be left out. Otherwise a merge patch removes it
        from the tenant's object, and the next pass writes it again.
        """
        found: Object = _drop_nulls(as_mapping(live.get("status")))
        if self._is_whole:
            return found
        if self._is_plain:
            return _take_plain(found)
        return field_tables.copy_status(found, self.table)

    def build_patch(
        self, own: Mapping[str, Any], live: Mapping[str, Any], types: Collection[str] = ()
    ) -> Object | None:
        """Return the merge patch of the tenant's status, or None. `live` has the shown status."""
        before, shown = as_mapping(own.get("status")), as_mapping(live.get("status"))
        owner = StatusOwnership(fields=frozenset(self._get_owned(before)))
        patch = status_ownership.build_patch(owner, before, shown, types)
        if not patch:
            return None
        patch = _clear_fixed_fields(self._fixed_fields, before, shown) or patch
        return {"metadata": {"uid": own["metadata"]["uid"]}, "status": patch}

    def _get_owned(self, before: Mapping[str, Any]) -> Iterable[str]:
        """Return the fields of a tenant's status that are removed if the super object lacks them.

        Conditions have types, and those of other writers stay.
        """
        if self._is_plain:
            return _take_plain(before)
        return before if self._is_whole else self.table


def _take_plain(status: Mapping[str, Any]) -> Object:
    """Return the plain values of a status."""
    return {name: value for name, value in status.items() if not isinstance(value, dict | list)}


def _drop_nulls(value: Any) -> Any:
    """Return a copy of a value without the fields that are null."""
    if isinstance(value, dict):
        return {name: _drop_nulls(inner) for name, inner in value.items() if inner is not None}
    return [_drop_nulls(item) for item in value] if isinstance(value, list) else value


def _clear_fixed_fields(
    fixed: Mapping[str, Collection[str]], before: Mapping[str, Any], shown: Mapping[str, Any]
) -> Object:
    """Return the patch that removes fields which the tenant's API server does not let change.

    Empty if there are none. The write of the removal queues the key again, which then writes the
    new value.
    """
    return {
        name: None
        for field, others in fixed.items()
        if before.get(field) is not None and before[field] != shown.get(field)
        for name in (field, *others)
        if name in before
    }


class RuledMirror:
    """One kind with the direction Mirror."""

    def __init__(self, rule: SyncRule) -> None:
        self.rule = rule
        self._table = field_tables.build_table(rule.name, list_body_paths(rule.spec))
        self._status = ShownStatus(rule)
        self.shape = ComparedShape(rule.resource, tuple(self._table))
        self.row = SyncedKind(
            resource=rule.resource,
            direction=SyncDirection.DOWN_UP,
            update_method=UpdateMethod.REPLACE,
            status_owner=StatusOwnership(fields=frozenset(self._status.table)),
            show_status=self.show_status,
            build_status_up=self._status.build_patch if rule.shows_status else None,
        )

    def get_source(self, tenant_namespace: str) -> str | None:
        """Return the super namespace whose objects a tenant namespace shows, or None."""
        mirror = self.rule.spec.mirror
        if mirror is None:
            return "" if not tenant_namespace else None
        return mirror.source_namespace if tenant_namespace == mirror.tenant_namespace else None

    def get_shown_namespace(self, super_namespace: str) -> str | None:
        """Return the tenant namespace that shows objects of a super namespace, or None."""
        mirror = self.rule.spec.mirror
        if mirror is None:
            return ""
        return mirror.tenant_namespace if super_namespace == mirror.source_namespace else None

    def is_selected(self, entry: Entry, view: TenantView) -> bool:
        """Return whether the rule shows a tenant a super object."""
        return mirror_owner.is_shown(self.rule, entry, view)

    def show_status(self, _: Mapping[str, Any], live: Mapping[str, Any]) -> Object:
        """Return a super object with the shown parts of its status."""
        return {**live, "status": self._status.copy_fields(live)}

    def build(self, super_x: Mapping[str, Any], view: TenantView) -> Object:
        """Return the object as a tenant sees it."""
        metadata = mirrored_kinds.build_mirror_metadata(super_x["metadata"])
        mirror = self.rule.spec.mirror
        if mirror is not None:
            metadata["namespace"] = mirror.tenant_namespace
        fields = {name: value for name, value in super_x.items() if name in self._table}
        copied = FieldWalk().walk_fields(fields, self._table, "")
        mirror_owner.restore_owner_namespace(self.rule, copied, view)
        return {
            "apiVersion": self.rule.resource.api_version,
            "kind": self.rule.resource.kind,
            "metadata": metadata,
            **copied,
        }


def merge_listed(
    live: Mapping[str, Any], wanted: Mapping[str, Any], table: Mapping[str, FieldRule]
) -> Object:
    """Return the live fields with the listed ones as wanted. Trees are taken whole.

    An object that is not wanted keeps its unlisted fields, and is dropped if it has none.
    """
    merged = dict(live)
    for name, rule in table.items():
        there, value = live.get(name), wanted.get(name)
        if isinstance(rule, ObjectFields) and isinstance(there, dict):
            found = merge_listed(there, as_mapping(value), rule.fields)
            merged[name] = found if found or value is not None else None
        elif isinstance(rule, ListOfObjects) and isinstance(there, list) and value is not None:
            merged[name] = _merge_items(there, value, rule.fields)
        else:
            merged[name] = value
        if merged[name] is None:
            del merged[name]
    return merged


def _merge_items(there: list[Any], wanted: list[Any], table: Mapping[str, FieldRule]) -> list[Any]:
    """Return the wanted items. Each keeps the unlisted fields of the live item that it stands for.

    Hazard: the place of an item proves nothing. Otherwise two items that change places exchange
    what a controller of the super cluster has written into them.
    """
    identify = _find_identity(there, wanted, table)
    found: defaultdict[Hashable, deque[dict[str, Any]]] = defaultdict(deque)
    for live in there:
        if isinstance(live, dict):
            found[identify(live)].append(live)
    merged: list[Any] = []
    for item in wanted:
        same = found[identify(item)] if isinstance(item, dict) else None
        merged.append(merge_listed(same.popleft(), item, table) if same else item)
    return merged


def _find_identity(
    there: list[Any], wanted: list[Any], table: Mapping[str, FieldRule]
) -> Callable[[dict[str, Any]], Hashable]:
    """Return the function that identifies an item: by its name, or by all its listed fields."""
    for items in (there, wanted):
        found = [each.get(ITEM_NAME) if isinstance(each, dict) else None for each in items]
        texts = {each for each in found if isinstance(each, str)}
        if ITEM_NAME not in table or len(texts) != len(items):
            return lambda item: orjson.dumps(_take_listed(item, table), option=_SORTED)
    return lambda item: str(item[ITEM_NAME])


def _take_listed(value: Mapping[str, Any], table: Mapping[str, FieldRule]) -> Object:
    """Return the listed fields of an object, without empty ones."""
    found: Object = {}
    for name, rule in table.items():
        inner = value.get(name)
        if isinstance(rule, ObjectFields) and isinstance(inner, dict):
            inner = _take_listed(inner, rule.fields)
        elif isinstance(rule, ListOfObjects) and isinstance(inner, list):
            inner = [
                _take_listed(each, rule.fields) if isinstance(each, dict) else each
                for each in inner
            ]
        if _drop_empty(inner) is not None:
            found[name] = inner
    return found


def _drop_empty(value: Any) -> Any:
    """Return None for a value that means the same as its absence."""
    return None if value in ({}, [], "") else value
