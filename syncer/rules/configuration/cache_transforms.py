"""What the caches keep of a large ConfigMap or Secret: all but its values, and a digest of these.

Pure. A tenant may have thousands of a megabyte each, and they would all be in memory for as long as
the tenant lives. Small ones are kept whole, so that most cost no request more than before. Must not
know who reads the rest (`syncer.controllers.live_reads`). Hazard: both sides of a comparison have
to be reduced the same way, whichever of them was large; a value that is left out must never be
written anywhere.
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
"""Objects up to this size are kept as they are."""
MAX_ANNOTATION = 1024
"""Longer annotations are kept by their digests."""
MAX_NAMES = 65_536
"""Characters of keys that may be names of variables; what is beyond is not known of."""
CONTENT = "contentDigest"
"""Field of an outline; no kind has one of that name."""
VARIABLES = "contentVariables"
"""Field of an outline: the keys by which an `envFrom` may bring a service variable."""
VALUES = ("data", "binaryData")
_SERVICE_VARIABLE = re.compile(r"[A-Z0-9_]*")
_LEFT_OUT = frozenset({*VALUES, "stringData", "metadata"})


def reduce(entry: Entry) -> Entry:
    """Return what is kept of an entry."""
    if len(entry.body) <= WHOLE_BYTES:
        return entry
    try:
        body = orjson.dumps(outline(entry.decode()))
    except ValueError:  # a hostile API said so; whoever reads it finds out, and nobody else
        body = b""
    return structs.replace(entry, body=body)


def is_outline(found: Mapping[str, Any]) -> bool:
    """Tell whether the values of an object are left out."""
    return CONTENT in found


def is_any(*found: Mapping[str, Any]) -> bool:
    """Tell whether any of several objects is an outline."""
    return any(is_outline(each) for each in found)


def alike(live: Mapping[str, Any], twin: Object) -> tuple[Mapping[str, Any], Object]:
    """Return both sides of a comparison in the same form: outlines, when either is one."""
    return (outline(live), outline(twin)) if is_any(live, twin) else (live, twin)


def outline(found: Mapping[str, Any]) -> Object:
    """Return an object without its values; one that has none is as it should be."""
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
    """Return what a server says is a whole object, without fields that only outlines have."""
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
