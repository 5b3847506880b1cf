"""Labels and annotations of a super object that are synced back to the tenant object.

Pure. Owns the choice of the keys, the limits on their size, and the patch of the tenant object.
Must not know the text of foreign names, which the caller replaces in each value before.

Hazard: a key that the tenant set must never be written or removed. The record of the keys proves
which ones belong to the super cluster.
"""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from kubeio import Object
from syncer.model import builtin_policy, object_meta
from syncer.model.metadata import transparent_record
from syncer.model.metadata.transparent_record import FIELDS
from syncer.model.rejections import RejectionProblem
from tenancy import wellknown
from tenancy.policies import WILDCARD_NAME, MetadataSpec

MAX_VALUE_LENGTH = 4096
"""Maximum length of a value in characters. Each word of it is compared with foreign names."""
MAX_KEYS = 64
"""Maximum number of labels, and of annotations, of one object."""
MAX_BYTES = 32 * 1024
"""Share in bytes of the annotations of a tenant object, with the record of the keys."""
_RECORD_BYTES_PER_KEY = 24  # digest, quotes and separators
_RECORD_BYTES = 128  # the key of the record and its frame

SuperKeys = Mapping[str, Mapping[str, str]]
"""Values by key, for each of `FIELDS`."""
_NOTHING: SuperKeys = {field: {} for field in FIELDS}


class MetadataChange(NamedTuple):
    """The merge patch of a tenant object's metadata, and the keys that have no room."""

    patch: dict[str, dict[str, str | None]]
    problems: tuple[RejectionProblem, ...]


def is_synced_back(kind: str, field: str, key: str, passing: MetadataSpec) -> bool:
    """Return whether a key of a super object is synced back, if the tenant did not set it."""
    is_named = key.startswith(passing.transparent_prefixes) or (
        field == "annotations" and key in _list_annotations(kind, passing)
    )
    return is_named and not _is_protected(key)


def _list_annotations(kind: str, passing: MetadataSpec) -> frozenset[str]:
    """Return the annotations of a kind that are synced back."""
    built_in = builtin_policy.TRANSPARENT_ANNOTATIONS.get(kind, frozenset())
    listed = passing.transparent_annotations
    if not listed:
        return built_in
    return built_in.union(listed.get(kind, ()), listed.get(WILDCARD_NAME, ()))


def _is_protected(key: str) -> bool:
    return (
        wellknown.is_reserved_key(key)
        or wellknown.get_key_domain(key).lower() in builtin_policy.PROTECTED_DOMAINS
        or key in builtin_policy.PROTECTED_LABELS
    )


def list_super_keys(
    kind: str, super_metadata: Mapping[str, Any], passing: MetadataSpec
) -> SuperKeys:
    """Return the keys of a super object that are synced back, with their values there.

    Keys that the tenant's own object has brought to the super cluster are left out.
    """
    if not passing.transparent_prefixes and not _list_annotations(kind, passing):
        return _NOTHING  # as for most pods
    found: dict[str, dict[str, str]] = {}
    for field in FIELDS:
        there = super_metadata.get(field) or {}
        chosen = {
            key: value for key, value in there.items() if is_synced_back(kind, field, key, passing)
        }
        if chosen:
            own = object_meta.list_tenant_keys(kind, super_metadata, field)
            chosen = {key: value for key, value in chosen.items() if key not in own}
        found[field] = chosen
    return found


def build_change(tenant_metadata: Mapping[str, Any], super_keys: SuperKeys) -> MetadataChange:
    """Return the change that gives a tenant object these keys, and no other ones."""
    budget, problems = _Budget(tenant_metadata), list[RejectionProblem]()
    patch: dict[str, dict[str, str | None]] = {}
    record: dict[str, dict[str, str]] = {}
    for field in FIELDS:
        there = tenant_metadata.get(field) or {}
        synced = transparent_record.list_super_keys(tenant_metadata, field)
        changed: dict[str, str | None] = {}
        record[field] = {}
        for key, value in sorted(super_keys[field].items()):
            if key in there and key not in synced:
                continue  # the tenant's own
            if not budget.take(field, key, value):
                problems.append(_build_problem(field, key))
                continue
            record[field][key] = transparent_record.compute_digest(value)
            if there.get(key) != value:
                changed[key] = value
        changed |= dict.fromkeys(synced - record[field].keys())
        if changed:
            patch[field] = changed
    _add_record(patch, tenant_metadata, transparent_record.encode_record(record))
    return MetadataChange(patch, tuple(problems))


def _add_record(
    patch: dict[str, dict[str, str | None]], tenant_metadata: Mapping[str, Any], text: str
) -> None:
    there = (tenant_metadata.get("annotations") or {}).get(wellknown.TRANSPARENT_KEYS)
    if (there or "") != text or (there is not None and not text):
        patch.setdefault("annotations", {})[wellknown.TRANSPARENT_KEYS] = text or None


def _build_problem(field: str, key: str) -> RejectionProblem:
    text = (
        "has no room here, so it is shown only where the object runs. Use fewer or shorter"
        f" annotations, or ask for a value of at most {MAX_VALUE_LENGTH} characters"
    )
    return RejectionProblem("too-large", f"metadata.{field}[{key}]", text)


class _Budget:
    """Room that is left in one tenant object."""

    def __init__(self, tenant_metadata: Mapping[str, Any]) -> None:
        room = object_meta.MAX_ANNOTATIONS_BYTES - _RECORD_BYTES - sum(_list_sizes(tenant_metadata))
        self._bytes = min(MAX_BYTES, room)
        self._keys = dict.fromkeys(FIELDS, MAX_KEYS)

    def take(self, field: str, key: str, value: str) -> bool:
        """Reserve the room of a key. Returns False if there is too little."""
        size = len(key.encode(errors="replace")) + _RECORD_BYTES_PER_KEY
        if field == "annotations":
            size += len(f"{key}{value}".encode(errors="replace"))
        if len(value) > MAX_VALUE_LENGTH or size > self._bytes or not self._keys[field]:
            return False
        self._bytes -= size
        self._keys[field] -= 1
        return True


def _list_sizes(tenant_metadata: Mapping[str, Any]) -> Iterator[int]:
    """Yield the sizes of the tenant's own annotations in bytes."""
    own = transparent_record.strip_super_keys(tenant_metadata).get("annotations") or {}
    for key, size in object_meta.measure_annotations(own).items():
        if key != wellknown.TRANSPARENT_KEYS:
            yield size


def list_restored(tenant_metadata: Mapping[str, Any], body: Mapping[str, Any]) -> list[str]:
    """Return the paths of the keys that were removed in the tenant and that a patch adds again.

    The record still lists such a key. The syncer removes a key together with its record.
    """
    record = transparent_record.read_record(tenant_metadata)
    return [
        f"metadata.{field}.{key}"
        for field in FIELDS
        for key, value in (body["metadata"].get(field) or {}).items()
        if value is not None
        and key in record[field]
        and key not in (tenant_metadata.get(field) or {})
    ]


def build_body(tenant_object: Mapping[str, Any], change: MetadataChange) -> Object | None:
    """Return the body of the patch, or None if nothing differs.

    The version in it makes the API server refuse the write if the tenant has just set a key.
    """
    if not change.patch:
        return None
    there = tenant_object["metadata"]
    identity = {"uid": there["uid"], "resourceVersion": there["resourceVersion"]}
    return {"metadata": {**identity, **change.patch}}
