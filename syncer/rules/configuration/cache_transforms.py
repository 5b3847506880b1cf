"""Cache transforms of large ConfigMaps and Secrets: an outline without the values, with a digest.

Pure. A tenant may have thousands of objects of a megabyte each, and the caches would keep them in
memory for as long as the tenant exists. Small objects are kept whole, so that most of them cost no
additional request. Must not know who reads the values (`syncer.controllers.live_reads`).

Hazard: both sides of a comparison must be reduced in the same way, whichever of them was large.
Otherwise they differ forever.

Hazard: an outline must never be written anywhere. Otherwise the object loses its values.
"""

import hashlib
from collections.abc import Mapping
from typing import Any

import orjson
from msgspec import structs

from kubeio import Object
from kubeio.cache.store import Entry
from syncer.model import object_meta
from syncer.model.unstructured import as_mapping
from tenancy import wellknown

UNREDUCED_BYTES = 4096
"""Maximum size of an object that is kept whole."""
MAX_ANNOTATION = 1024
"""Maximum length of an annotation that is kept. Longer ones are replaced by their digests."""
CONTENT_DIGEST_FIELD = "contentDigest"
"""Field of an outline. No kind has a field of this name."""
CONTENT_BYTES_FIELD = "contentBytes"
"""Field of an outline with the size of the whole object, as `measure_bytes` returns it."""
VALUE_FIELDS = ("data", "binaryData")
_OMITTED_FIELDS = frozenset({*VALUE_FIELDS, "stringData", "metadata"})


def reduce_entry(entry: Entry) -> Entry:
    """Return the part of an entry that the cache keeps."""
    if len(entry.body) <= UNREDUCED_BYTES:
        return entry
    try:
        body = orjson.dumps(build_outline(entry.decode()))
    except ValueError:  # from a hostile API; only readers of this object are affected
        body = b""
    return structs.replace(entry, body=body)


def is_outline(found: Mapping[str, Any]) -> bool:
    """Return whether an object is an outline, without its values."""
    return CONTENT_DIGEST_FIELD in found


def is_any_outline(*found: Mapping[str, Any]) -> bool:
    """Return whether any of several objects is an outline."""
    return any(is_outline(each) for each in found)


def align(live: Mapping[str, Any], twin: Object) -> tuple[Mapping[str, Any], Object]:
    """Return both sides of a comparison in the same form: as outlines, if either is one."""
    return (
        (build_outline(live), build_outline(twin)) if is_any_outline(live, twin) else (live, twin)
    )


def build_outline(found: Mapping[str, Any]) -> Object:
    """Return an object without its values. An outline is returned unchanged."""
    if is_outline(found):
        return dict(found)
    metadata = dict(as_mapping(found.get("metadata")))
    annotations = metadata.get("annotations")
    if isinstance(annotations, dict):
        metadata["annotations"] = {
            key: value if key == wellknown.SYNCED_KEYS else _shorten_value(value)
            for key, value in annotations.items()
        }
        metadata[object_meta.ANNOTATION_SIZES_FIELD] = object_meta.measure_annotations(annotations)
    kept = {key: value for key, value in found.items() if key not in _OMITTED_FIELDS}
    return {
        **kept,
        "metadata": metadata,
        CONTENT_BYTES_FIELD: measure_bytes(found),
        CONTENT_DIGEST_FIELD: _compute_digest(
            {key: found.get(key) or None for key in VALUE_FIELDS}
        ),
    }


def strip_outline_fields(found: Mapping[str, Any]) -> Object:
    """Return a server's whole object without the fields that only outlines have."""
    return {
        key: value
        for key, value in found.items()
        if key not in (CONTENT_DIGEST_FIELD, CONTENT_BYTES_FIELD)
    }


def measure_bytes(found: Mapping[str, Any]) -> int:
    """Return the bytes of an object's values and annotations as JSON, names included.

    Values of Secrets, and `binaryData`, are measured in base64. An outline reports its whole
    object.
    """
    known = found.get(CONTENT_BYTES_FIELD)
    if isinstance(known, int) and is_outline(found):
        return known
    parts = [as_mapping(found.get(field)) for field in VALUE_FIELDS]
    parts.append(as_mapping(as_mapping(found.get("metadata")).get("annotations")))
    return sum(
        len(str(key).encode()) + len(str(value).encode())
        for part in parts
        for key, value in part.items()
    )


def _shorten_value(value: Any) -> Any:
    is_long = isinstance(value, str) and len(value) > MAX_ANNOTATION
    return f"sha256:{_compute_digest(value)}" if is_long else value


def _compute_digest(value: Any) -> str:
    encoded = orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
    return hashlib.sha256(encoded).hexdigest()
