"""Typed view of a SyncRule.

Pure. The CRD in `charts/virtual-cluster/files/crds/syncrules.yaml` is the source of the fields.
Must not know which kinds may be synced: `tenancy.sync_rules.checks` does.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import msgspec

from tenancy.resources import Resource
from tenancy.specs import InvalidSpecError
from tenancy.sync_rules import field_paths

Direction = Literal["Down", "Mirror"]
Placement = Literal["Home", "WithPods"]
StatusOwner = Literal["SuperCluster", "Tenant"]
Definition = Literal["Copy", "Equal", "BuiltIn"]
RemovalPolicy = Literal["Keep", "Delete"]
ReferenceForm = Literal["Object", "Name"]

OWNER_FIELDS = ("apiVersion", "kind", "name", "namespace")
"""Fields of a reference to the copy of a tenant. Its UID is one of the super cluster."""
REFERENCE_FIELDS = ("apiGroup", "group", "kind", "name", "namespace")
"""Fields of a reference that is an object. The syncer reads and writes them itself."""


class RuleResource(msgspec.Struct, frozen=True, kw_only=True):
    """Coordinates of the kind."""

    group: str
    version: str
    kind: str
    plural: str


class RuleSelector(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Labels that an object must all have. Empty selects every object."""

    match_labels: dict[str, str] = {}

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Return whether labels contain all labels of the selector."""
        return all(labels.get(key) == value for key, value in self.match_labels.items())


class RuleReference(msgspec.Struct, frozen=True, kw_only=True):
    """A field that names other objects."""

    path: str
    kinds: tuple[str, ...]
    """Kinds that it may name. The first one is the default of a reference without a kind."""
    form: ReferenceForm = "Object"
    required: bool = False
    """Whether an object without the reference is refused."""


class MirrorSpec(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Namespaces of a mirrored kind that has namespaces."""

    source_namespace: str
    tenant_namespace: str


class MirrorOwner(msgspec.Struct, frozen=True, kw_only=True):
    """A field of a mirrored kind that names the copy of the one tenant that sees the object."""

    path: str


class SyncRuleSpec(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """`SyncRule.spec`."""

    resource: RuleResource
    direction: Direction
    selector: RuleSelector = RuleSelector()
    virtual_cluster_selector: RuleSelector = RuleSelector()
    """Labels of the VirtualClusters that the rule applies to, among those whose policy names it."""
    fields: tuple[str, ...] = ()
    references: tuple[RuleReference, ...] = ()
    hostnames: tuple[str, ...] = ()
    """Paths of host names, which the policy judges as it judges the hosts of Ingresses."""
    status_fields: tuple[str, ...] = ()
    status_references: tuple[str, ...] = ()
    status_owner: StatusOwner = "SuperCluster"
    definition: Definition = "Copy"
    removal_policy: RemovalPolicy = "Keep"
    placement: Placement = "Home"
    mirror: MirrorSpec | None = None
    mirror_owner: MirrorOwner | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncRule:
    """One SyncRule."""

    name: str
    uid: str
    labels: Mapping[str, str]
    spec: SyncRuleSpec
    is_deleting: bool = False
    is_ready: bool = False
    """Whether vc-manager reports that the current generation may be used."""

    @property
    def resource(self) -> Resource:
        """Return the coordinates of the kind in an API."""
        found = self.spec.resource
        return Resource(found.group, found.version, found.plural, found.kind, self.is_namespaced)

    @property
    def is_namespaced(self) -> bool:
        """Whether objects of the kind have a namespace."""
        return self.spec.direction == "Down" or self.spec.mirror is not None

    @property
    def is_down(self) -> bool:
        """Whether tenant objects are copied to the super cluster."""
        return self.spec.direction == "Down"

    @property
    def follows_pods(self) -> bool:
        """Whether a copy is in each super cluster that runs pods of its namespace."""
        return self.is_down and self.spec.placement == "WithPods"

    @property
    def shows_status(self) -> bool:
        """Whether the status is synced back to the tenant."""
        return self.spec.status_owner == "SuperCluster" and bool(self.spec.status_fields)


def parse_sync_rule(body: Mapping[str, Any]) -> SyncRule:
    """Return the typed view of a SyncRule. Raises InvalidSpecError."""
    metadata = body["metadata"]
    where = f"SyncRule {metadata['name']}"
    try:
        spec = msgspec.convert(body.get("spec") or {}, SyncRuleSpec)
    except msgspec.ValidationError as problem:
        raise InvalidSpecError(f"{where}, spec: {problem}") from problem
    try:
        field_paths.build_tree(list_body_paths(spec))
        field_paths.build_tree(list_status_paths(spec))
    except InvalidSpecError as problem:
        raise InvalidSpecError(f"{where}, spec: {problem}") from problem
    return SyncRule(
        name=metadata["name"],
        uid=str(metadata.get("uid", "")),
        labels=metadata.get("labels") or {},
        spec=spec,
        is_deleting="deletionTimestamp" in metadata,
        is_ready=_is_ready(body),
    )


def list_body_paths(spec: SyncRuleSpec) -> list[str]:
    """Return all paths that pass outside of the status, with references, hosts and owners."""
    owner = spec.mirror_owner
    owned = [f"{owner.path}.{name}" for name in OWNER_FIELDS] if owner is not None else []
    return [*spec.fields, *spec.hostnames, *_list_reference_paths(spec.references), *owned]


def list_status_paths(spec: SyncRuleSpec) -> list[str]:
    """Return all paths of the status that are shown, with those of references."""
    added = [f"{path}.{each}" for path in spec.status_references for each in REFERENCE_FIELDS]
    return [*spec.status_fields, *added]


def _list_reference_paths(references: tuple[RuleReference, ...]) -> list[str]:
    found: list[str] = []
    for each in references:
        if each.form == "Name":
            found.append(each.path)
        else:
            found += [f"{each.path}.{name}" for name in REFERENCE_FIELDS]
    return found


def is_reported(body: Mapping[str, Any]) -> bool:
    """Return whether vc-manager has reported about the current generation."""
    return bool(_list_reported(body))


def _is_ready(body: Mapping[str, Any]) -> bool:
    return "True" in _list_reported(body)


def _list_reported(body: Mapping[str, Any]) -> list[Any]:
    """Return the status of the condition Ready of the current generation."""
    status = body.get("status")
    conditions = status.get("conditions") if isinstance(status, dict) else None
    generation = body["metadata"].get("generation")
    return [
        each.get("status")
        for each in conditions or ()
        if isinstance(each, dict)
        and each.get("type") == "Ready"
        and each.get("observedGeneration") == generation
    ]
