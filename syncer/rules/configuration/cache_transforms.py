"""Cache transforms of large ConfigMaps and Secrets: an outline without the values, with a digest.

Pure. A tenant may have thousands of objects of a megabyte each, and the caches would keep them in
memory for as long as the tenant exists. Small objects are kept whole, so that most of them cost no
additional request. Must not know who reads the values (`syncer.controllers.live_reads`).

Hazard: both sides of a comparison must be reduced in the same way, whichever of them was large.
Otherwise they differ forever.

Hazard: an outline must never be written anywhere. Otherwise the object loses its values.
"""

import hashlib
import re
from collections.abc import Iterable, Mapping
from typing import Any

import orjson
from msgspec import structs

from kubeio import Object
from kubeio.cache.store import Entry
from syncer.model.unstructured import mapping, texts
from tenancy import wellknown

WHOLE_BYTES = 4096
"""Maximum size of an object that is kept whole."""
MAX_ANNOTATION = 1024
"""Maximum length of an annotation that is kept. Longer ones are replaced by their digests."""
MAX_NAMES = 65_536
"""Maximum total length of keys that are checked for names of variables. Later keys are ignored."""
CONTENT = "contentDigest"
"""Field of an outline. No kind has a field of this name."""
VARIABLES = "contentVariables"
"""Field of an outline: the keys by which an `envFrom` source may set a service variable."""
VALUES = ("data", "binaryData")
_SERVICE_VARIABLE = re.compile(r"[A-Z0-9_]*")
_LEFT_OUT = frozenset({*VALUES, "stringData", "metadata"})


def reduce(entry: Entry) -> Entry:
    """Return the part of an entry that the cache keeps."""
    if len(entry.body) <= WHOLE_BYTES:
        return entry
    try:
        body = orjson.dumps(outline(entry.decode()))
    except ValueError:  # from a hostile API; only readers of this object are affected
        body = b""
    return structs.replace(entry, body=body)


def is_outline(found: Mapping[str, Any]) -> bool:
    """Return whether an object is an outline, without its values."""
    return CONTENT in found


def is_any(*found: Mapping[str, Any]) -> bool:
    """Return whether any of several objects is an outline."""
    return any(is_outline(each) for each in found)


def alike(live: Mapping[str, Any], twin: Object) -> tuple[Mapping[str, Any], Object]:
    """Return both sides of a comparison in the same form: as outlines, if either is one."""
    return (outline(live), outline(twin)) if is_any(live, twin) else (live, twin)


def outline(found: Mapping[str, Any]) -> Object:
    """Return an object without its values. An outline is returned unchanged."""
    if is_outline(found):
        return dict(found)
    metadata = dict(mapping(found.get("metadata")))
    annotations = metadata.get("annotations")
    if isinstance(annotations, dict):
        metadata["annotations"] = {
            key: value if key == wellknown.KEYS else _shortened(value)
            for key, value in annotations.items()
        }
    kept = {key: value for key, value in found.items() if key not in _LEFT_OUT}
    return {
        **kept,
        "metadata": metadata,
        CONTENT: _digest({key: found.get(key) or None for key in VALUES}),
        VARIABLES: list(_variables(mapping(found.get("data")))),
    }


def variables(found: Mapping[str, Any]) -> Iterable[str]:
    """Return the keys of an object, or of its outline, that may be names of variables."""
    if is_outline(found):
        return texts(found.get(VARIABLES))
    return mapping(found.get("data"))


def unmarked(found: Mapping[str, Any]) -> Object:
    """Return a server's whole object without the fields that only outlines have."""
    return {key: value for key, value in found.items() if key not in (CONTENT, VARIABLES)}


def _variables(data: Mapping[str, Any]) -> Iterable[str]:
    left = MAX_NAMES
    for key in data:
        left -= len(key)
        if left >= 0 and _SERVICE_VARIABLE.fullmatch(key):
            yield key


def _shortened(value: Any) -> Any:
    is_long = isinstance(value, str) and len(value) > MAX_ANNOTATION
    return f"sha256:{_digest(value)}" if is_long else value


def _digest(value: Any) -> str:
    encoded = orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
    return hashlib.sha256(encoded).hexdigest()
