"""Compact cache of one collection: identity and labels parsed, the body kept as JSON.

Owns entries, named indexes and the notification of subscribers. Knows no transport, because the
reflector feeds it.

Hazard: absence must not be trusted until `synced` is True. Even then it describes the past, so a
delete that rests on it needs a live read.
"""

import sys
from collections.abc import Callable, Collection, Iterable, Mapping

import msgspec
import orjson

from kubeio import Object

StoreKey = tuple[str, str]
"""Namespace (empty for cluster-scoped kinds) and name."""

MAX_PARSED_ANNOTATION = 1024
"""Longest parsed annotation value, in characters. Longer ones stay in the body only.

An example is kubectl's last-applied copy of the object.
"""


class Entry(msgspec.Struct, frozen=True, gc=False, eq=False):
    """One cached object. It is never changed, only replaced as a whole."""

    namespace: str
    name: str
    uid: str
    resource_version: str
    generation: int
    deleting: bool
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    body: bytes
    """The object as JSON, without `metadata.managedFields`."""
    metadata_digest: int = 0
    """Digest of the metadata except its resourceVersion, within this process.

    It includes `generation`. For kinds with a generation it therefore shows whether anything but
    the status changed.
    """

    def __repr__(self) -> str:
        """Return the identity only, because the body may be a Secret's."""
        return f"Entry({self.namespace}/{self.name} uid={self.uid} rv={self.resource_version})"

    @property
    def key(self) -> StoreKey:
        """Return namespace and name."""
        return (self.namespace, self.name)

    def decode(self) -> Object:
        """Return the object as a new dict."""
        found: Object = orjson.loads(self.body)
        return found


EventHandler = Callable[[Entry | None, Entry | None, bool], None]
"""Called with (old, new, live). Old is None for a new object, new is None for a removed one.

Live is True when the change came as an event of a running watch. It is False when the change was
found by comparison with a whole list, so a delete with live=False rests on absence. The object may
have been deleted and recreated in between. Then old and new differ in uid. A watch with a selector
also reports an object as deleted if its labels no longer match.
"""
IndexFunction = Callable[[Entry], Iterable[str]]


class _ObjectMetadata(msgspec.Struct, rename="camel", gc=False):
    name: str
    uid: str = ""
    namespace: str = ""
    resource_version: str = ""
    generation: int = 0
    deletion_timestamp: str | None = None
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    managed_fields: msgspec.Raw = msgspec.Raw()


class _Object(msgspec.Struct, gc=False):
    metadata: msgspec.Raw
    kind: str = ""


_OBJECT_DECODER = msgspec.json.Decoder(_Object)
_FIELDS_DECODER = msgspec.json.Decoder(dict[str, msgspec.Raw])
_METADATA_DECODER = msgspec.json.Decoder(_ObjectMetadata)
_ENCODER = msgspec.json.Encoder()
_EMPTY_MAPPING: Mapping[str, str] = {}
_MAX_LABELS_SHARED_EACH = 20
_MAX_SHARED_VALUE_LENGTH = 64
"""Characters of an annotation value that is shared. It is enough for a UID."""
_METADATA_PREFIX = b'"metadata":{'
_MANAGED_FIELDS_PREFIX = b',"managedFields":'
_VERSION_PREFIX = b'"resourceVersion":'


class Interner:
    """Equal labels and equal annotation values of all caches of the process, each kept once.

    Tenants choose both, so the number of each is limited. At the limit all are forgotten. Entries
    keep their mappings and values, which are then shared no further.
    """

    def __init__(self, *, max_labels: int = 1_000, max_values: int = 4_096) -> None:
        """Start empty. `max_labels` counts mappings."""
        self._max_labels, self._max_values = max_labels, max_values
        self._labels: dict[tuple[tuple[str, str], ...], Mapping[str, str]] = {}
        self._values: dict[str, str] = {}

    def share_labels(self, labels: Mapping[str, str]) -> Mapping[str, str]:
        """Return one mapping for all equal labels, because pods of one owner have the same labels.

        The same labels in another order are another mapping.
        """
        if len(labels) > _MAX_LABELS_SHARED_EACH:
            return labels
        key = tuple(labels.items())
        found = self._labels.get(key)
        if found is None:
            if len(self._labels) >= self._max_labels:
                self._labels.clear()
            found = self._labels[key] = labels
        return found

    def share_value(self, value: str) -> str:
        """Return one string for all equal values, because a tenant's objects share most values."""
        if len(value) > _MAX_SHARED_VALUE_LENGTH:
            return value
        found = self._values.get(value)
        if found is None:
            if len(self._values) >= self._max_values:
                self._values.clear()
            found = self._values[value] = value
        return found


_INTERNER = Interner()


def parse_entry(raw: bytes | msgspec.Raw, *, api_version: str = "", kind: str = "") -> Entry:
    """Return the entry of an object's JSON.

    Items of a list lack apiVersion and kind. The arguments add them, so that every body is
    complete. Raises msgspec.DecodeError if `raw` is no object with metadata.
    """
    found = _OBJECT_DECODER.decode(raw)
    metadata = _METADATA_DECODER.decode(found.metadata)
    text, body = bytes(found.metadata), bytes(raw)
    managed = bytes(metadata.managed_fields)
    if managed:
        slim = _cut_field(text, _MANAGED_FIELDS_PREFIX, managed)
        if slim is None:  # not as API servers write it
            slim = _strip_managed_fields(found.metadata)
        begin = body.find(_METADATA_PREFIX) + len(_METADATA_PREFIX) - 1
        if body[begin : begin + len(text)] == text:
            body = body[:begin] + slim + body[begin + len(text) :]
        else:
            body = body.replace(text, slim, 1)
        text = slim
    if not found.kind and kind:
        head = {"apiVersion": api_version, "kind": kind}
        fields = {key: msgspec.Raw(orjson.dumps(value)) for key, value in head.items()}
        # The encoder's result has a larger block than it needs. A copy has the exact size.
        body = bytes(memoryview(_ENCODER.encode(fields | _FIELDS_DECODER.decode(body))))
    annotations = metadata.annotations or _EMPTY_MAPPING
    version = f'"{metadata.resource_version}"'.encode()
    return Entry(
        namespace=sys.intern(metadata.namespace),
        name=metadata.name,
        uid=metadata.uid,
        resource_version=metadata.resource_version,
        generation=metadata.generation,
        deleting=metadata.deletion_timestamp is not None,
        labels=_INTERNER.share_labels(metadata.labels) if metadata.labels else _EMPTY_MAPPING,
        annotations={
            key: _INTERNER.share_value(value)
            for key, value in annotations.items()
            if len(value) <= MAX_PARSED_ANNOTATION
        },
        body=body,
        metadata_digest=hash(_cut_field(text, _VERSION_PREFIX, version) or text),
    )


def _cut_field(text: bytes, field: bytes, value: bytes) -> bytes | None:
    """Return a JSON text without one field, or None if the field cannot be found for certain."""
    begin = text.find(field)
    end = begin + len(field) + len(value)
    if begin < 0 or begin != text.rfind(field) or text[begin + len(field) : end] != value:
        return None
    return text[:begin] + text[end:]


def _strip_managed_fields(metadata: msgspec.Raw) -> bytes:
    fields = _FIELDS_DECODER.decode(metadata)
    del fields["managedFields"]
    return _ENCODER.encode(fields)


ENTRY_BYTES = 500
"""Bytes of an entry without its body."""
_PAIR_BYTES = 100
"""Bytes of a label or annotation as parsed, in addition to those in the body.

Without them an object with many short annotations would use sixteen times its measured size.
"""


def measure_entry(entry: Entry) -> int:
    """Return the bytes of memory that an entry uses, as an estimate. It costs no encoding."""
    pairs = len(entry.labels) + len(entry.annotations)
    return len(entry.body) + ENTRY_BYTES + _PAIR_BYTES * pairs


class Store:
    """Entries by namespace and name, with named indexes."""

    def __init__(
        self, indexes: Mapping[str, IndexFunction] | None = None, *, has_metadata_only: bool = True
    ) -> None:
        """Set up indexes: each function returns the index values of an entry.

        With `has_metadata_only` False each entry is reported to subscribers as a new one, and is
        not stored.
        """
        self.has_metadata_only = has_metadata_only
        self.synced = False
        """True after the first complete list. Set by the reflector."""
        self.size = 0
        """Bytes of memory that all entries use, as an estimate."""
        self._namespaces: dict[str, dict[str, Entry]] = {}
        self._count = 0
        self._functions = dict(indexes or {})
        self._indexes: dict[str, dict[str, dict[StoreKey, Entry]]] = {
            n: {} for n in self._functions
        }
        self._handlers: list[EventHandler] = []

    def __len__(self) -> int:
        """Return the number of entries."""
        return self._count

    def get(self, namespace: str, name: str) -> Entry | None:
        """Return an entry from memory. None before `synced` means nothing."""
        return self._namespaces.get(namespace, {}).get(name)

    def list(self, namespace: str | None = None) -> list[Entry]:
        """Return the entries of one namespace, or all, as a new list."""
        if namespace is not None:
            return list(self._namespaces.get(namespace, {}).values())
        return [entry for names in self._namespaces.values() for entry in names.values()]

    def count(self, namespace: str) -> int:
        """Return the number of entries of a namespace."""
        return len(self._namespaces.get(namespace, ()))

    def namespaces(self) -> Collection[str]:
        """Return the namespaces that have entries."""
        return tuple(self._namespaces)

    def index(self, name: str, value: str) -> tuple[Entry, ...]:
        """Return the entries with a value of a named index."""
        return tuple(self._indexes[name].get(value, {}).values())

    def list_index_values(self, name: str) -> Collection[str]:
        """Return the values of a named index that an entry has."""
        return tuple(self._indexes[name])

    def set_index(self, name: str, function: IndexFunction) -> None:
        """Add a named index, or replace its function, and index the present entries."""
        self._functions[name] = function
        found: dict[str, dict[StoreKey, Entry]] = {}
        for entry in self.list():
            for value in function(entry):
                found.setdefault(value, {})[entry.key] = entry
        self._indexes[name] = found

    def subscribe(self, handler: EventHandler, *, replay: bool = False) -> None:
        """Call `handler` at each later change. `replay` first calls it for the existing entries."""
        self._handlers.append(handler)
        if replay:
            for entry in self.list():
                handler(None, entry, False)

    def unsubscribe(self, handler: EventHandler) -> None:
        """Remove a handler."""
        self._handlers = [each for each in self._handlers if each is not handler]

    def put(self, entry: Entry, *, live: bool) -> None:
        """Store an entry and notify subscribers, unless the same version is stored already."""
        if not self.has_metadata_only:
            self._notify(None, entry, live=live)
            return
        names = self._namespaces.setdefault(entry.namespace, {})
        old = names.get(entry.name)
        if _is_same(old, entry):
            return
        names[entry.name] = entry
        self.size += measure_entry(entry)
        if old is None:
            self._count += 1
        else:
            self.size -= measure_entry(old)
            self._remove_from_indexes(old)
        self._add_to_indexes(entry)
        self._notify(old, entry, live=live)

    def discard(self, last: Entry, *, live: bool) -> None:
        """Remove an entry. Subscribers receive `last`, its last known state, as old."""
        names = self._namespaces.get(last.namespace, {})
        old = names.pop(last.name, None)
        if old is None:
            return
        if not names:
            del self._namespaces[last.namespace]
        self._count -= 1
        self.size -= measure_entry(old)
        self._remove_from_indexes(old)
        self._notify(last, None, live=live)

    def retain(self, keys: Collection[StoreKey]) -> None:
        """Remove every entry with a key that is not among `keys`, those of a complete list."""
        for entry in self.list():
            if entry.key not in keys:
                self.discard(entry, live=False)

    def replace(self, entries: Iterable[Entry]) -> None:
        """Make the store equal to a complete list, deletions last."""
        seen: set[StoreKey] = set()
        for entry in entries:
            seen.add(entry.key)
            self.put(entry, live=False)
        self.retain(seen)

    def clear(self) -> None:
        """Remove every entry without an event. For a store that no subscriber needs any longer."""
        self.synced = False
        self.size = self._count = 0
        self._namespaces.clear()
        for index in self._indexes.values():
            index.clear()

    def _notify(self, old: Entry | None, new: Entry | None, *, live: bool) -> None:
        for handler in self._handlers:
            handler(old, new, live)

    def _add_to_indexes(self, entry: Entry) -> None:
        for name, values in self._functions.items():
            for value in values(entry):
                self._indexes[name].setdefault(value, {})[entry.key] = entry

    def _remove_from_indexes(self, entry: Entry) -> None:
        for name, values in self._functions.items():
            index = self._indexes[name]
            for value in values(entry):
                found = index.get(value)
                if found is not None and found.pop(entry.key, None) is not None and not found:
                    del index[value]


def _is_same(old: Entry | None, new: Entry) -> bool:
    return (
        old is not None
        and old.uid == new.uid
        and old.resource_version == new.resource_version
        and bool(new.resource_version)
    )


class StorePart:
    """The entries of one namespace, or of one name in it, as the store of one reflector.

    Several reflectors may so feed one store. A list of one of them removes entries of its own part
    only.
    """

    def __init__(self, store: Store, namespace: str, name: str = "") -> None:
        """Without `name` the part is the whole namespace."""
        self.has_metadata_only = store.has_metadata_only
        self.synced = False
        """True after the first complete list of this part."""
        self._store = store
        self._namespace = namespace
        self._name = name

    def __len__(self) -> int:
        """Return the number of entries of the part."""
        if self._name:
            return int(self._store.get(self._namespace, self._name) is not None)
        return self._store.count(self._namespace)

    def put(self, entry: Entry, *, live: bool) -> None:
        """Store an entry. See `Store.put`."""
        self._store.put(entry, live=live)

    def discard(self, last: Entry, *, live: bool) -> None:
        """Remove an entry. See `Store.discard`."""
        self._store.discard(last, live=live)

    def retain(self, keys: Collection[StoreKey]) -> None:
        """Remove every entry of the part with a key that is not among `keys`."""
        for entry in self._store.list(self._namespace):
            if entry.key not in keys and self._name in ("", entry.name):
                self._store.discard(entry, live=False)
