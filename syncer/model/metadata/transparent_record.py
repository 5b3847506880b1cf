"""Record of the labels and annotations of a tenant object that the super cluster wrote.

Pure. Owns the annotation that lists these keys, each with a digest of its value. Must not know
which keys are synced back.

Hazard: a key belongs to the super cluster only while its value is the recorded one. A tenant that
changes the value becomes its owner, and the syncer would otherwise overwrite that value.
"""

import hashlib
from collections.abc import Mapping
from typing import Any

import orjson

from tenancy import wellknown

FIELDS = ("labels", "annotations")
"""Parts of the metadata with keys."""
MAX_RECORD_BYTES = 64 * 1024
"""Size in bytes of a record that is read. The syncer writes far smaller ones."""
_DIGEST_BYTES = 6

KeyDigests = Mapping[str, Mapping[str, str]]
"""Digests of values by key, for each of `FIELDS`."""
_NOTHING: KeyDigests = {field: {} for field in FIELDS}


def compute_digest(value: str) -> str:
    """Return the digest of a value in a record."""
    text = value.encode(errors="replace")
    return hashlib.blake2b(text, digest_size=_DIGEST_BYTES).hexdigest()


def has_record(metadata: Mapping[str, Any]) -> bool:
    """Return whether a tenant object has a record, readable or not."""
    return wellknown.TRANSPARENT_KEYS in (metadata.get("annotations") or {})


def read_record(metadata: Mapping[str, Any]) -> KeyDigests:
    """Return the record of a tenant object. A record that the tenant broke counts as empty."""
    text = (metadata.get("annotations") or {}).get(wellknown.TRANSPARENT_KEYS)
    if not isinstance(text, str) or len(text) > MAX_RECORD_BYTES:
        return _NOTHING
    try:
        found = orjson.loads(text)
    except ValueError:
        return _NOTHING
    if not isinstance(found, dict):
        return _NOTHING
    return {field: _read_digests(found.get(field)) for field in FIELDS}


def _read_digests(value: Any) -> dict[str, str]:
    if not isinstance(value, dict):
        return {}
    return {key: digest for key, digest in value.items() if isinstance(digest, str)}


def encode_record(record: KeyDigests) -> str:
    """Return the text of a record. Empty if it lists no key."""
    filled = {field: dict(keys) for field, keys in record.items() if keys}
    return orjson.dumps(filled, option=orjson.OPT_SORT_KEYS).decode() if filled else ""


def list_super_keys(metadata: Mapping[str, Any], field: str) -> frozenset[str]:
    """Return the keys of a field that still have the value that the super cluster gave them."""
    there = metadata.get(field) or {}
    return frozenset(
        key
        for key, digest in read_record(metadata)[field].items()
        if isinstance(there.get(key), str) and compute_digest(there[key]) == digest
    )


def strip_super_keys(metadata: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the metadata of a tenant object without the keys of the super cluster.

    Without it, such a key would be synced to the super cluster as if the tenant had set it.
    """
    if not has_record(metadata):
        return metadata
    kept = dict(metadata)
    for field in FIELDS:
        found = list_super_keys(metadata, field)
        if found:
            kept[field] = {key: value for key, value in metadata[field].items() if key not in found}
    return kept
