"""ConfigMaps and Secrets of the super cluster that a policy gives to a tenant.

Pure. Owns which source may be shared, and the object that the tenant gets. Must not know how
objects are read and written.

Hazard: an object must be built from nothing. The labels and annotations of its source are meant for
the super cluster. Hazard: a namespace of a tenant may never be a source. Otherwise a policy could
give the credentials of one tenant to another.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from kubeio import Object
from tenancy import wellknown
from tenancy.policies import SharedKind, SharedObjects
from tenancy.resources import CONFIG_MAPS, SECRETS, Resource

ENABLED = "enabled"
"""Value of the label of a source namespace."""
DEFAULT_NAMESPACE = "kube-public"
"""Namespace of the tenant that gets the objects, if the policy names none."""
MAX_OBJECTS = 200
"""Maximum number of objects that one tenant gets."""
MAX_OBJECT_BYTES = 512 * 1024
"""Maximum size of one source in bytes, as JSON. The answer of a tenant's API is limited, too."""
RESOURCES: Mapping[SharedKind, Resource] = {"ConfigMap": CONFIG_MAPS, "Secret": SECRETS}

_KEPT_TYPES = frozenset(
    {"Opaque", "kubernetes.io/dockerconfigjson", "kubernetes.io/dockercfg", "kubernetes.io/tls"}
)
"""Types of Secrets that are kept. Any other type that is shared becomes Opaque."""
_NEVER_SHARED_TYPES = frozenset(
    {"kubernetes.io/service-account-token", "bootstrap.kubernetes.io/token", "helm.sh/release.v1"}
)
_ROOT_CA = "kube-root-ca.crt"
"""ConfigMap that each cluster has in every namespace, with its own authority."""
_TENANT_LABELS = frozenset(
    {
        wellknown.CONTROLLED,
        wellknown.CLUSTER,
        wellknown.NAMESPACE,
        wellknown.VC_NAME,
        wellknown.VC_UID,
    }
)
_TENANT_ANNOTATIONS = frozenset(
    {wellknown.ROOT_NAMESPACE, wellknown.CLUSTER, wellknown.VC_UID, wellknown.UID}
)
_SYSTEM_NAMESPACES = frozenset({"kube-system", "kube-node-lease"})
_CONTENT_FIELDS = ("data", "binaryData", "type")

ObjectKey = tuple[SharedKind, str, str]
"""Kind, namespace and name of an object in the tenant."""


class SharedWish(NamedTuple):
    """Objects that a tenant should have, and the reason for each source that is left out."""

    objects: Mapping[ObjectKey, Object]
    problems: tuple[str, ...]


def find_namespace_problem(
    name: str, metadata: Mapping[str, Any] | None, components_namespace: str
) -> str:
    """Return why a namespace of the super cluster is no source, as the rest of a sentence.

    `metadata` is that of the namespace, or None if it does not exist.
    """
    if metadata is None:
        return "does not exist. Create it, or remove it from the TenantPolicy"
    labels, annotations = metadata.get("labels") or {}, metadata.get("annotations") or {}
    if labels.keys() & _TENANT_LABELS or annotations.keys() & _TENANT_ANNOTATIONS:
        return "belongs to a tenant and is never a source. Use another namespace"
    if name == components_namespace or name in _SYSTEM_NAMESPACES:
        return "has credentials of the super cluster and is never a source. Use another namespace"
    if labels.get(wellknown.SHARED_SOURCE) != ENABLED:
        return f"is no source. Allow it with the label {wellknown.SHARED_SOURCE}={ENABLED}"
    return ""


def is_selected(rule: SharedObjects, source: Mapping[str, Any]) -> bool:
    """Return whether a rule selects an object of its namespace."""
    metadata = source["metadata"]
    labels = metadata.get("labels") or {}
    if not rule.match_labels or metadata.get("deletionTimestamp"):
        return False
    if rule.kind == "ConfigMap" and metadata["name"] == _ROOT_CA:
        return False
    return all(labels.get(key) == value for key, value in rule.match_labels.items())


def select_namespaces(
    rule: SharedObjects, namespaces: Mapping[str, Mapping[str, str]]
) -> list[str]:
    """Return the tenant namespaces that get the objects of a rule, from all with their labels."""
    named = rule.tenant_namespaces
    if not named and not rule.tenant_namespace_labels:
        named = (DEFAULT_NAMESPACE,)
    wanted = rule.tenant_namespace_labels
    return sorted(
        name
        for name, labels in namespaces.items()
        if name in named
        or (wanted and all(labels.get(key) == value for key, value in wanted.items()))
    )


def build_wish(
    sources: Iterable[tuple[SharedObjects, Mapping[str, Any]]],
    namespaces: Mapping[str, Mapping[str, str]],
) -> SharedWish:
    """Return the objects of a tenant, from the selected sources, each with its rule.

    `namespaces` are those of the tenant, with their labels. If two sources have one name, each
    namespace gets the first one in the order of the policy. Two rules may select one source.
    """
    objects: dict[ObjectKey, Object] = {}
    origins: dict[ObjectKey, str] = {}
    problems: list[str] = []
    for rule, source in sources:
        where = f"{rule.kind} {rule.namespace}/{source['metadata']['name']}"
        problem = _find_source_problem(rule.kind, source)
        if problem:
            problems.append(f"{where} {problem}.")
            continue
        for namespace in select_namespaces(rule, namespaces):
            key: ObjectKey = (rule.kind, namespace, source["metadata"]["name"])
            if key in objects:
                problem = f"{where} has the name of another shared object. Rename one of them."
                if origins[key] != where and problem not in problems:
                    problems.append(problem)
                continue  # the next namespace may have no such object
            if len(objects) >= MAX_OBJECTS:
                problems.append(
                    f"{where} is left out, because a tenant gets at most {MAX_OBJECTS} objects."
                    " Select fewer objects or namespaces."
                )
                break
            objects[key], origins[key] = build_object(rule.kind, namespace, source), where
    return SharedWish(objects, tuple(problems))


def _find_source_problem(kind: SharedKind, source: Mapping[str, Any]) -> str:
    if kind == "Secret" and source.get("type") in _NEVER_SHARED_TYPES:
        return f"has the type {source['type']}, which is never shared. Use another Secret"
    size = len(json.dumps({field: source.get(field) for field in _CONTENT_FIELDS}))
    if size > MAX_OBJECT_BYTES:
        return f"has {size} bytes, and the limit is {MAX_OBJECT_BYTES}. Make it smaller"
    return ""


def build_object(kind: SharedKind, namespace: str, source: Mapping[str, Any]) -> Object:
    """Return the object that the tenant gets."""
    content = {field: source[field] for field in ("data", "binaryData") if source.get(field)}
    if kind == "Secret":
        found = source.get("type") or "Opaque"
        content["type"] = found if found in _KEPT_TYPES else "Opaque"
    return {
        "apiVersion": "v1",
        "kind": kind,
        "metadata": {
            "name": source["metadata"]["name"],
            "namespace": namespace,
            "labels": {wellknown.SHARED: "true"},
            "annotations": {wellknown.LAST_WRITTEN_DIGEST: compute_digest(content)},
        },
        **content,
    }


def compute_digest(body: Mapping[str, Any]) -> str:
    """Return a digest of the content of an object."""
    content = {field: body[field] for field in _CONTENT_FIELDS if body.get(field)}
    text = json.dumps(content, sort_keys=True).encode(errors="replace")
    return hashlib.sha256(text).hexdigest()[:32]


def is_own(metadata: Mapping[str, Any]) -> bool:
    """Return whether an object in the tenant is shared, and not the tenant's own."""
    return (metadata.get("labels") or {}).get(wellknown.SHARED) == "true"


def is_current(live: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    """Return whether an object in the tenant is as it should be."""
    metadata, ours = live["metadata"], wanted["metadata"]
    return (
        not live.get("immutable")
        and all((live.get(field) or None) == wanted.get(field) for field in _CONTENT_FIELDS)
        and (metadata.get("labels") or {}) == ours["labels"]
        and (metadata.get("annotations") or {}) == ours["annotations"]
    )


def was_edited(live: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    """Return whether a difference is an edit in the tenant, and not a change of the source."""
    annotations = live["metadata"].get("annotations") or {}
    ours = wanted["metadata"]["annotations"][wellknown.LAST_WRITTEN_DIGEST]
    written = annotations.get(wellknown.LAST_WRITTEN_DIGEST)
    return written == ours or compute_digest(live) != written


def must_recreate(live: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    """Return whether the API refuses the change: an immutable object, or another type."""
    return bool(live.get("immutable")) or live.get("type") != wanted.get("type")


def build_replacement(live: Mapping[str, Any], wanted: Object) -> Object:
    """Return the PUT body that makes an object as it should be. It keeps its finalizers."""
    there = live["metadata"]
    kept = {field: there[field] for field in ("finalizers",) if field in there}
    identity = {"uid": there["uid"], "resourceVersion": there["resourceVersion"]}
    return {**wanted, "metadata": {**wanted["metadata"], **identity, **kept}}
