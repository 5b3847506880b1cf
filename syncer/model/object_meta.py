"""Metadata of twins, and the removal of super cluster names from texts. Pure.

Owns the rules on synced labels and annotations, the keys that are written to super objects, and the
replacement of super names in texts that are synced back to the tenant. Must not know specs.

Hazard: super metadata must be built from nothing. Otherwise a tenant's finalizer, owner reference
or reserved key would reach the super cluster.
"""

import base64
import hashlib
import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

import orjson

from kubeio import Object
from syncer.model import builtin_policy
from syncer.model.metadata import transparent_record
from syncer.model.rejections import RejectedError, RejectionProblem
from tenancy import ownership, wellknown
from tenancy.ownership import Tenant
from tenancy.policies import BASELINE_POLICY, WILDCARD_NAME, MetadataSpec

MAX_ANNOTATIONS_BYTES = 256 * 1024
"""Maximum size in bytes of the keys and values of all annotations of an object
(`TotalAnnotationSizeLimitB` of the API)."""
ANNOTATION_SIZES_FIELD = "annotationSizes"
"""Field of the metadata of an outline: the size in bytes of each annotation, by its key. Without it
an outline would have room for annotations that the whole object has no room for."""
_FOREIGN_BYTES = 16 * 1024
"""Share in bytes that is left to other writers of the super cluster, such as network plugins."""
_LATE_BYTES = 1024
"""Share in bytes of the records that are added to a built object, such as the revision."""
_MAX_OWNER_BYTES = 512
_MAX_KEYS_BYTES = 32_768  # share of MAX_ANNOTATIONS_BYTES
_LABEL_VALUE = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?")
_UNCOMPARED_ANNOTATIONS = frozenset({wellknown.NODE_CHOICE, wellknown.STORE_REVISION})
_MIRROR_DOMAIN = f"mirror.{wellknown.DOMAIN}"


def _is_domain_in(domain: str, parents: Iterable[str]) -> bool:
    """Return whether a domain is one of these or a subdomain of one.

    Only whole labels are compared, never mere suffixes.
    """
    return any(domain == parent or domain.endswith(f".{parent}") for parent in parents)


def is_plain_key(key: str) -> bool:
    """Return whether a key has neither a prefix nor a dot.

    Dotted keys without a prefix are names of the same kind as prefixed ones. Container runtimes and
    network plugins read them, such as `io.kubernetes.cri-o.Devices` and `run.oci.handler`.
    """
    return "/" not in key and "." not in key


def is_label_synced(key: str, passing: MetadataSpec = BASELINE_POLICY.metadata) -> bool:
    """Return whether a tenant's label is synced under its own key.

    A plain label is synced, and a label of a listed domain. The policy lists a dotted label without
    a prefix by its whole key.
    """
    if key.startswith(passing.opaque_prefixes) or wellknown.is_reserved_key(key):
        return False
    if is_plain_key(key) and key not in builtin_policy.TRIGGER_LABELS:
        return True
    domain = wellknown.get_key_domain(key).lower()
    return (domain or key) in passing.label_domains or domain in builtin_policy.SYNCED_LABEL_DOMAINS


def is_annotation_synced(
    kind: str, key: str, passing: MetadataSpec = BASELINE_POLICY.metadata
) -> bool:
    """Return whether a tenant's annotation is synced.

    An annotation is synced if its key is plain or is listed for its kind.
    """
    if key.startswith(passing.opaque_prefixes) or key in builtin_policy.NETWORK_ANNOTATIONS:
        return False
    if is_plain_key(key) or key in builtin_policy.SYNCED_ANNOTATIONS.get(kind, ()):
        return True
    listed = (*passing.annotations.get(kind, ()), *passing.annotations.get(WILDCARD_NAME, ()))
    return (
        key in listed and key != builtin_policy.LAST_APPLIED and not wellknown.is_reserved_key(key)
    )


def find_blocking_annotation(
    kind: str, annotations: Mapping[str, str], passing: MetadataSpec = BASELINE_POLICY.metadata
) -> RejectionProblem | None:
    """Return the problem of an annotation whose loss might change the object's meaning."""
    if kind not in builtin_policy.ANNOTATION_BLOCKED_KINDS:
        return None
    for key in _list_unknown_annotations(kind, annotations, passing):
        text = (
            "must not be set here, because the object could change its meaning without it. Remove"
            f" it, or ask your platform administrator to list it in {_format_policy_field(kind)}"
        )
        return RejectionProblem("annotation", f"metadata.annotations[{key}]", text)
    return None


def find_left_out_annotations(
    kind: str, annotations: Mapping[str, str], passing: MetadataSpec = BASELINE_POLICY.metadata
) -> RejectionProblem | None:
    """Return the notice of the annotations that are left out where nothing depends on them."""
    keys = _list_unknown_annotations(kind, annotations, passing)
    if not keys:
        return None
    text = (
        "is left out in the super cluster. If it is needed there, ask your platform administrator"
        f" to list it in {_format_policy_field(kind)}"
    )
    return RejectionProblem("annotation", f"metadata.annotations[{', '.join(keys)}]", text)


def _format_policy_field(kind: str) -> str:
    """Return the field of a TenantPolicy with the annotations of a kind that are synced."""
    return f"spec.metadata.annotations.{kind} of the TenantPolicy"


def _list_unknown_annotations(
    kind: str, annotations: Mapping[str, str], passing: MetadataSpec
) -> list[str]:
    """Return the annotations that are not synced and might have a meaning in the super cluster."""
    own = transparent_record.strip_super_keys({"annotations": annotations})["annotations"]
    return [
        key
        for key in sorted(own)
        if not (
            is_annotation_synced(kind, key, passing)
            or key.startswith(passing.opaque_prefixes)  # declared meaningless
            or wellknown.is_reserved_key(key)
            or key in builtin_policy.IGNORED_ANNOTATIONS
            or _is_domain_in(
                wellknown.get_key_domain(key).lower(), builtin_policy.IGNORED_ANNOTATION_DOMAINS
            )
        )
    ]


def filter_labels(
    metadata: Mapping[str, Any], passing: MetadataSpec = BASELINE_POLICY.metadata
) -> dict[str, str]:
    """Return the labels of a tenant object that are synced."""
    found = transparent_record.strip_super_keys(metadata).get("labels") or {}
    return {k: v for k, v in found.items() if is_label_synced(k, passing)}


def get_super_label_key(key: str, passing: MetadataSpec) -> str:
    """Return the key that a pod's label has in the super cluster."""
    return key if is_label_synced(key, passing) else wellknown.translate_label_key(key)


def translate_labels(labels: Mapping[str, Any], passing: MetadataSpec) -> dict[str, Any]:
    """Return the labels of a pod, or of a selector of pods, with their super cluster keys."""
    return {get_super_label_key(key, passing): value for key, value in labels.items()}


def filter_annotations(
    kind: str, metadata: Mapping[str, Any], passing: MetadataSpec = BASELINE_POLICY.metadata
) -> dict[str, str]:
    """Return the annotations of a tenant object that are synced."""
    found = transparent_record.strip_super_keys(metadata).get("annotations") or {}
    return {k: v for k, v in found.items() if is_annotation_synced(kind, k, passing)}


def build_super_metadata(
    kind: str,
    tenant: Tenant,
    tenant_metadata: Mapping[str, Any],
    *,
    super_namespace: str,
    super_name: str = "",
    passing: MetadataSpec = BASELINE_POLICY.metadata,
    extra_annotations: Mapping[str, str] | None = None,
    extra_labels: Mapping[str, str] | None = None,
    decided_annotations: Mapping[str, str] | None = None,
    referenced: Collection[str] = (),
    is_exposed: bool = True,
    rewritten: Mapping[str, str] | None = None,
) -> Object:
    """Return the metadata of a twin. `passing` is the metadata part of the policy.

    `decided_annotations` are recorded like the tenant's own. A later twin without one loses it.
    `referenced` are keys of annotations that the twin itself reads. `is_exposed` is False if no
    client outside of the cluster reaches the object. Then an unknown annotation is left out.
    `rewritten` are annotations of the tenant with the values for the super cluster. Raises
    RejectedError when an annotation holds the object back, or when the annotations are too large.
    """
    held = find_blocking_annotation(kind, tenant_metadata.get("annotations") or {}, passing)
    if held is not None and is_exposed:
        raise RejectedError(held)
    tenant_namespace = tenant_metadata.get("namespace", "")
    owner = encode_owner(tenant_metadata)
    labels = filter_labels(tenant_metadata, passing)
    if kind in builtin_policy.UNLABELLED_KINDS:
        listed = passing.label_domains
        labels = {k: v for k, v in labels.items() if wellknown.get_key_domain(k).lower() in listed}
    tenant_labels, translated = tenant_metadata.get("labels") or {}, dict[str, str]()
    if kind in builtin_policy.SELECTED_KINDS:
        translated = {k: v for k, v in tenant_labels.items() if not is_label_synced(k, passing)}
    added = {
        **(extra_annotations or {}),
        **({wellknown.OWNER: owner} if owner else {}),
        **ownership.build_owner_annotations(tenant, tenant_namespace, tenant_metadata["uid"]),
    }
    own = {
        **(decided_annotations or {}),
        **filter_annotations(kind, tenant_metadata, passing),
        **(rewritten or {}),
    }
    removable = (
        frozenset()
        if kind in builtin_policy.ANNOTATION_BLOCKED_KINDS
        else frozenset(own) - {*referenced}
    )
    sizes = measure_annotations(own)
    written = tenant_metadata.get(ANNOTATION_SIZES_FIELD)
    if isinstance(written, dict):
        whole = own.keys() - (rewritten or {}).keys()
        sizes |= {k: v for k, v in written.items() if k in whole and isinstance(v, int)}
    records = {
        wellknown.SYNCED_KEYS: encode_keys(labels, own),
        wellknown.LABEL_KEYS: encode_label_keys(translated),
    }
    annotations = _fit_annotations(own, sizes, added, records, removable=removable)
    return {
        "name": super_name or tenant_metadata["name"],
        "namespace": super_namespace,
        "labels": {
            **labels,
            **translate_labels(translated, passing),
            **(extra_labels or {}),
            **ownership.build_owner_labels(tenant, tenant_namespace),
        },
        "annotations": {**annotations, **added},
    }


def count_annotation_bytes(annotations: Mapping[str, str]) -> int:
    """Return the size in bytes of annotations, as the API counts it."""
    return sum(measure_annotations(annotations).values())


def measure_annotations(annotations: Mapping[str, Any]) -> dict[str, int]:
    """Return the size in bytes of each annotation with its key."""
    return {
        key: len(f"{key}{value}".encode(errors="replace")) for key, value in annotations.items()
    }


def _fit_annotations(
    own: dict[str, str],
    sizes: Mapping[str, int],
    added: Mapping[str, str],
    records: Mapping[str, str],
    *,
    removable: frozenset[str],
) -> dict[str, str]:
    """Return the tenant's annotations and the records of the keys, as far as there is room.

    The API limits the size of all annotations together, and the tenant may have used it up. The
    records are left out first. Then the largest of the tenant's `removable` annotations without a
    prefix are left out. They mean nothing in the super cluster. Raises RejectedError if the rest is
    still too large.
    """
    there = count_annotation_bytes(added)
    room = MAX_ANNOTATIONS_BYTES - _FOREIGN_BYTES - there
    record = {key: value for key, value in records.items() if value}
    size, kept = sum(sizes.values()), dict(own)
    if size + count_annotation_bytes(record) <= room:
        return {**kept, **record}
    for key in sorted(removable, key=lambda each: (-sizes[each], each)):
        if size <= room:
            break
        if not wellknown.get_key_domain(key):
            size -= sizes[key]
            del kept[key]
    if size + there > MAX_ANNOTATIONS_BYTES - _LATE_BYTES:
        text = (
            f"come to {size + there} bytes where it runs, with those that are added there, and the"
            f" limit is {MAX_ANNOTATIONS_BYTES}. Use fewer or shorter ones"
        )
        raise RejectedError(RejectionProblem("too-large", "metadata.annotations", text))
    return kept


def find_left_out(
    kind: str,
    tenant_metadata: Mapping[str, Any],
    twin_metadata: Mapping[str, Any],
    passing: MetadataSpec,
) -> list[RejectionProblem]:
    """Return a notice for the annotations that a twin lacks because there was no room."""
    own = filter_annotations(kind, tenant_metadata, passing)
    left_out = sorted(own.keys() - twin_metadata["annotations"].keys())
    if not left_out:
        return []
    more = f" and {len(left_out) - 1} more" if len(left_out) > 1 else ""
    text = (
        f"and those that are added where it runs are larger than {MAX_ANNOTATIONS_BYTES} bytes"
        f" together: {left_out[0]}{more} is left out there, and stays in your cluster. Use shorter"
        " ones"
    )
    return [RejectionProblem("too-large", "metadata.annotations", text)]


def build_controller_label(uid: str) -> str:
    """Return a controller's UID as the value of a label: a digest if it is no such value."""
    if _LABEL_VALUE.fullmatch(uid):
        return uid
    digest = hashlib.sha256(uid.encode(errors="replace")).digest()
    return base64.b32encode(digest).decode()[:16].lower()


def get_controller(metadata: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return the controlling owner reference, or None."""
    owners = metadata.get("ownerReferences") or ()
    return next((owner for owner in owners if owner.get("controller")), None)


def encode_owner(metadata: Mapping[str, Any]) -> str:
    """Return the kind and UID of the controller as JSON.

    Empty if there is no controller or the record is too long.
    """
    owner = get_controller(metadata)
    if owner is None:
        return ""
    record = json.dumps({"kind": owner.get("kind", ""), "uid": owner.get("uid", "")})
    return record if len(record) <= _MAX_OWNER_BYTES else ""


def encode_keys(labels: Iterable[str], annotations: Iterable[str]) -> str:
    """Return the record of the tenant's keys for a twin. Empty if it would be too long.

    A key that a webhook of the super cluster adds cannot be distinguished from a tenant's own key.
    Without the record the syncer would remove the key, and the webhook would add it again, in a
    loop.
    """
    record = orjson.dumps([sorted(labels), sorted(annotations)]).decode()
    return record if len(record) <= _MAX_KEYS_BYTES else ""


def encode_label_keys(keys: Iterable[str]) -> str:
    """Return the record of a pod's translated keys. Empty without any, or if it is too long."""
    record = orjson.dumps(sorted(keys)).decode()
    return record if record != "[]" and len(record) <= _MAX_KEYS_BYTES else ""


def _read_recorded_keys(annotations: Mapping[str, str]) -> Mapping[str, Collection[str]] | None:
    """Return the recorded keys of a twin, by field. None if it has no readable record."""
    try:
        labels, others = orjson.loads(annotations[wellknown.SYNCED_KEYS])
        return {"labels": frozenset(labels), "annotations": frozenset(others)}
    except (KeyError, ValueError, TypeError):
        return None


def build_mirror_key(field: str, key: str) -> str:
    """Return the annotation that provides a dropped label or annotation to the downward API."""
    digest = hashlib.sha256(f"{field}/{key}".encode()).digest()
    return f"{_MIRROR_DOMAIN}/{base64.b32encode(digest).decode()[:16].lower()}"


def is_own_key(key: str) -> bool:
    """Return whether the syncer wrote a key of a super object."""
    return wellknown.is_reserved_key(key)


def build_metadata_patch(
    kind: str, live: Mapping[str, Any], desired: Mapping[str, Any]
) -> dict[str, dict[str, str | None]]:
    """Return the merge patch of labels and annotations. Empty if nothing differs.

    A recorded key belongs to the tenant and is removed when the tenant no longer has it. All other
    keys belong to the super cluster and stay. In a twin without a record, every key that the tenant
    could have set belongs to the tenant.

    Two keys are not compared. The recorded revision follows other changes and causes none. The node
    choice cannot change on a pod: a pod is recreated for another one.
    """
    recorded = _read_recorded_keys(live.get("annotations") or {})
    patch: dict[str, dict[str, str | None]] = {}
    for field in ("labels", "annotations"):
        there, wanted = live.get(field) or {}, desired.get(field) or {}
        changed: dict[str, str | None] = {
            key: value
            for key, value in wanted.items()
            if there.get(key) != value and key not in _UNCOMPARED_ANNOTATIONS
        }
        for key in there:
            if key in wanted or key in _UNCOMPARED_ANNOTATIONS:
                continue
            if recorded is not None:
                from_tenant = key in recorded[field]
            else:
                from_tenant = _may_be_tenant_key(kind, field, key)
            if from_tenant or is_own_key(key):
                changed[key] = None
        if changed:
            patch[field] = changed
    return patch


def list_tenant_keys(kind: str, super_metadata: Mapping[str, Any], field: str) -> Collection[str]:
    """Return the keys of a super object that the tenant set, or may have set."""
    recorded = _read_recorded_keys(super_metadata.get("annotations") or {})
    if recorded is not None:
        return recorded[field]
    return [key for key in super_metadata.get(field) or () if _may_be_tenant_key(kind, field, key)]


def _may_be_tenant_key(kind: str, field: str, key: str) -> bool:
    return is_label_synced(key) if field == "labels" else is_annotation_synced(kind, key)


def build_merge_patch(old: Mapping[str, Any], new: Mapping[str, Any]) -> Object:
    """Return the JSON merge patch that turns `old` into `new`. Lists are replaced as a whole."""
    patch: Object = {key: None for key in old if key not in new}
    for key, value in new.items():
        before = old.get(key)
        if before == value and key in old:
            continue
        if isinstance(value, dict) and isinstance(before, dict):
            patch[key] = build_merge_patch(before, value)
        else:
            patch[key] = value
    return patch


def replace_names(text: str, pairs: Sequence[tuple[str, str]]) -> str:
    """Return a text with names of the super cluster replaced, in this order."""
    for theirs, ours in pairs:
        if theirs:
            text = text.replace(theirs, ours)
    return text


def replace_names_in(value: Any, pairs: Sequence[tuple[str, str]]) -> Any:
    """Return a value with every text in it scrubbed.

    A value without any such name is returned as the same object.
    """
    text = orjson.dumps(value)
    if not any(theirs and theirs.encode() in text for theirs, _ in pairs):
        return value
    return _replace_in_value(value, pairs)


def _replace_in_value(value: Any, pairs: Sequence[tuple[str, str]]) -> Any:
    if isinstance(value, str):
        return replace_names(value, pairs)
    if isinstance(value, list):
        return [_replace_in_value(item, pairs) for item in value]
    if isinstance(value, dict):
        return {key: _replace_in_value(item, pairs) for key, item in value.items()}
    return value


def build_name_pairs(
    tenant: Tenant, super_namespace: str, tenant_namespace: str, *uids: tuple[str, str]
) -> list[tuple[str, str]]:
    """Return the replacements for texts about one object: its namespace, the root and its UIDs."""
    return [
        (super_namespace, tenant_namespace),
        (f"{tenant.root}-", ""),
        (tenant.root, ""),
        *(spelled for pair in uids for spelled in _iterate_uid_spellings(*pair)),
    ]


def _iterate_uid_spellings(theirs: str, ours: str) -> Iterator[tuple[str, str]]:
    """Yield the spellings of a UID.

    Names of cgroups have underscores, and some spellings have no hyphens.
    """
    for hyphen in ("-", "_", ""):
        for form in (str, str.upper):
            yield form(theirs.replace("-", hyphen)), form(ours.replace("-", hyphen))
