"""A compact cache of one collection: identity and labels parsed, the body kept as JSON.

Owns entries, named indexes, and telling subscribers what changed. Knows no transport: the reflector
feeds it. Hazard: absence means nothing until `synced` is true, and even then it is news from the
past; a delete that rests on it needs a live read.
"""

import sys
from collections.abc import Callable, Collection, Iterable, Mapping

import msgspec
import orjson

from kubeio import Object

Key = tuple[str, str]
"""Namespace (empty for cluster-scoped kinds) and name."""

MAX_PARSED_ANNOTATION = 1024
"""Longer annotation values stay in the body only: kubectl's last-applied copy of the object."""


class Entry(msgspec.Struct, frozen=True, gc=False, eq=False):
    """One cached object; never changed, replaced as a whole."""

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
    said: int = 0
    """Digest of the metadata but for its version, within this process.

    With `generation` in it, it tells for kinds that have one whether anything but the status is
    another.
    """

    def __repr__(self) -> str:
        """Show the identity; the body may be a Secret's."""
        return f"Entry({self.namespace}/{self.name} uid={self.uid} rv={self.resource_version})"

    @property
    def key(self) -> Key:
        """Namespace and name."""
        return (self.namespace, self.name)

    def decode(self) -> Object:
        """Return the object as a dict of the caller's own."""
        found: Object = orjson.loads(self.body)
        return found


Handler = Callable[[Entry | None, Entry | None, bool], None]
"""Called with (old, new, live). Old is None for what was not there, new is None for what is gone.

Live is true when the change came as an event of a running watch, and false when it was found by
comparing a whole list: a delete with live=False rests on absence. The object may have been deleted
and made anew in between: then old and new differ in uid. A selected watch reports an object whose
labels no longer match as deleted, too.
"""
IndexFunction = Callable[[Entry], Iterable[str]]


class _Metadata(msgspec.Struct, rename="camel", gc=False):
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


_OBJECT = msgspec.json.Decoder(_Object)
_FIELDS = msgspec.json.Decoder(dict[str, msgspec.Raw])
_METADATA = msgspec.json.Decoder(_Metadata)
_ENCODER = msgspec.json.Encoder()
_NOTHING: Mapping[str, str] = {}
_SHARED: dict[tuple[tuple[str, str], ...], Mapping[str, str]] = {}
_MOST_SHARED, _MOST_SHARED_LABELS = 1_000, 20
"""Mappings, and labels of each: both ends are what tenants can fill."""
_VALUES: dict[str, str] = {}
_MOST_VALUES, _LONGEST_VALUE = 4_096, 64
"""Values of annotations, and the characters of each: a UID's and more."""
_HEAD = b'"metadata":{'
_MANAGED = b',"managedFields":'
_VERSION = b'"resourceVersion":'


def parse(raw: bytes | msgspec.Raw, *, api_version: str = "", kind: str = "") -> Entry:
    """Return the entry of an object's JSON.

    Items of a list lack apiVersion and kind; given here they are added, so that every body can
    stand alone. Raises msgspec.DecodeError when this is no object with metadata.
    """
    found = _OBJECT.decode(raw)
    metadata = _METADATA.decode(found.metadata)
    text, body = bytes(found.metadata), bytes(raw)
    managed = bytes(metadata.managed_fields)
    if managed:
        slim = _cut(text, _MANAGED, managed)
        if slim is None:  # not as API servers write it
            slim = _without_managed_fields(found.metadata)
        begin = body.find(_HEAD) + len(_HEAD) - 1
        if body[begin : begin + len(text)] == text:
            body = body[:begin] + slim + body[begin + len(text) :]
        else:
            body = body.replace(text, slim, 1)
        text = slim
    if not found.kind and kind:
        head = {"apiVersion": api_version, "kind": kind}
        fields = {key: msgspec.Raw(orjson.dumps(value)) for key, value in head.items()}
        # The encoder's own result sits in a larger block than it needs; a copy is exact.
        body = bytes(memoryview(_ENCODER.encode(fields | _FIELDS.decode(body))))
    annotations = metadata.annotations or _NOTHING
    version = f'"{metadata.resource_version}"'.encode()
    return Entry(
        namespace=sys.intern(metadata.namespace),
        name=metadata.name,
        uid=metadata.uid,
        resource_version=metadata.resource_version,
        generation=metadata.generation,
        deleting=metadata.deletion_timestamp is not None,
        labels=_shared(metadata.labels) if metadata.labels else _NOTHING,
        annotations={
            key: _one(value)
            for key, value in annotations.items()
            if len(value) <= MAX_PARSED_ANNOTATION
        },
        body=body,
        said=hash(_cut(text, _VERSION, version) or text),
    )


def _shared(labels: Mapping[str, str]) -> Mapping[str, str]:
    """Return one mapping for all that are equal: pods of one owner differ in none of theirs."""
    if len(labels) > _MOST_SHARED_LABELS:
        return labels
    key = tuple(labels.items())
    found = _SHARED.get(key)
    if found is None:
        if len(_SHARED) >= _MOST_SHARED:
            _SHARED.clear()  # what is in use stays where it is, and is shared no further
        found = _SHARED[key] = labels
    return found


def _one(value: str) -> str:
    """Return one string for all that are equal: most marks say the same of all of a tenant's."""
    if len(value) > _LONGEST_VALUE:
        return value
    found = _VALUES.get(value)
    if found is None:
        if len(_VALUES) >= _MOST_VALUES:
            _VALUES.clear()
        found = _VALUES[value] = value
    return found


def _cut(text: bytes, field: bytes, value: bytes) -> bytes | None:
    """Return a JSON text without one field, or None when that is not plain to see."""
    begin = text.find(field)
    end = begin + len(field) + len(value)
    if begin < 0 or begin != text.rfind(field) or text[begin + len(field) : end] != value:
        return None
    return text[:begin] + text[end:]


def _without_managed_fields(metadata: msgspec.Raw) -> bytes:
    fields = _FIELDS.decode(metadata)
    del fields["managedFields"]
    return _ENCODER.encode(fields)


class Store:
    """Entries by namespace and name, with named indexes."""

    def __init__(
        self, indexes: Mapping[str, IndexFunction] | None = None, *, keeps: bool = True
    ) -> None:
        """Take the functions of the named indexes: each gives the values an entry stands under.

        One that does not keep tells of each entry that comes by, as of a new one, and holds none.
        """
        self.keeps = keeps
        self.synced = False
        """True after the first complete list; set by the reflector."""
        self._namespaces: dict[str, dict[str, Entry]] = {}
        self._size = 0
        self._functions = dict(indexes or {})
        self._indexes: dict[str, dict[str, dict[Key, Entry]]] = {n: {} for n in self._functions}
        self._handlers: list[Handler] = []

    def __len__(self) -> int:
        """Count the entries."""
        return self._size

    def get(self, namespace: str, name: str) -> Entry | None:
        """Return an entry from memory; None before `synced` means nothing."""
        return self._namespaces.get(namespace, {}).get(name)

    def list(self, namespace: str | None = None) -> list[Entry]:
        """Return the entries of one namespace, or all: a list of the caller's own."""
        if namespace is not None:
            return list(self._namespaces.get(namespace, {}).values())
        return [entry for names in self._namespaces.values() for entry in names.values()]

    def namespaces(self) -> Collection[str]:
        """Return the namespaces that have entries."""
        return tuple(self._namespaces)

    def index(self, name: str, value: str) -> tuple[Entry, ...]:
        """Return the entries that stand under a value of a named index."""
        return tuple(self._indexes[name].get(value, {}).values())

    def subscribe(self, handler: Handler, *, replay: bool = False) -> None:
        """Call `handler` at each change from now on; `replay` first shows what is there."""
        self._handlers.append(handler)
        if replay:
            for entry in self.list():
                handler(None, entry, False)

    def unsubscribe(self, handler: Handler) -> None:
        """Call a handler no more."""
        self._handlers = [each for each in self._handlers if each is not handler]

    def put(self, entry: Entry, *, live: bool) -> None:
        """Take an entry in; nobody is told when it is the very version that is there."""
        if not self.keeps:
            self._tell(None, entry, live=live)
            return
        names = self._namespaces.setdefault(entry.namespace, {})
        old = names.get(entry.name)
        if _is_same(old, entry):
            return
        names[entry.name] = entry
        if old is None:
            self._size += 1
        else:
            self._unindex(old)
        self._index(entry)
        self._tell(old, entry, live=live)

    def discard(self, last: Entry, *, live: bool) -> None:
        """Forget an entry; `last` is its last known state, which subscribers see as old."""
        names = self._namespaces.get(last.namespace, {})
        old = names.pop(last.name, None)
        if old is None:
            return
        if not names:
            del self._namespaces[last.namespace]
        self._size -= 1
        self._unindex(old)
        self._tell(last, None, live=live)

    def retain(self, keys: Collection[Key]) -> None:
        """Forget every entry whose key is not among `keys`: a complete list did not have it."""
        for entry in self.list():
            if entry.key not in keys:
                self.discard(entry, live=False)

    def replace(self, entries: Iterable[Entry]) -> None:
        """Make the store equal to a complete list, deletions last."""
        seen: set[Key] = set()
        for entry in entries:
            seen.add(entry.key)
            self.put(entry, live=False)
        self.retain(seen)

    def _tell(self, old: Entry | None, new: Entry | None, *, live: bool) -> None:
        for handler in self._handlers:
            handler(old, new, live)

    def _index(self, entry: Entry) -> None:
        for name, values in self._functions.items():
            for value in values(entry):
                self._indexes[name].setdefault(value, {})[entry.key] = entry

    def _unindex(self, entry: Entry) -> None:
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
