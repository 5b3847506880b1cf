"""One cluster's objects as JSON, their revisions, and the watches that are told.

Owns storing and telling: an event is encoded once for all who want it, and what comes in one turn
of the loop leaves in one write. Must not know HTTP. Hazard: an object handed over is kept by what
it encodes to; changing the dict afterwards changes nothing.
"""

import asyncio
import uuid
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson

from bench.memapi.defaults import Admission
from bench.memapi.selection import Test
from tenancy.resources import Resource

Object = dict[str, Any]
Key = tuple[str, str]
"""Namespace and name."""
Listener = Callable[[str, Object], None]
"""Called with the event's type and the object; must not change it."""

_HISTORY = 4000  # events of a collection that a watch can go on after


@dataclass(slots=True, eq=False)
class Stored:
    """One object."""

    namespace: str
    name: str
    revision: int
    labels: Mapping[str, str]
    body: bytes

    def decode(self) -> Object:
        """Return the object as a dict of the caller's own."""
        found: Object = orjson.loads(self.body)
        return found


@dataclass(slots=True, eq=False)
class Change:
    """One event of a collection, with the lines it has on the wire."""

    type: str
    new: Stored
    old: Stored | None
    _lines: dict[tuple[str, bool], bytes] = field(default_factory=dict)

    def line(self, type_: str, *, metadata_only: bool) -> bytes:
        """Return the event as a chunk of a body."""
        found = self._lines.get((type_, metadata_only))
        if found is None:
            found = chunk(event(type_, reduced(self.new.body) if metadata_only else self.new.body))
            self._lines[type_, metadata_only] = found
        return found


def event(type_: str, body: bytes) -> bytes:
    """Return a line of a watch."""
    return b'{"type":"%b","object":%b}\n' % (type_.encode(), body)


def chunk(content: bytes) -> bytes:
    """Frame a piece of a chunked body."""
    return b"%x\r\n%b\r\n" % (len(content), content)


def reduced(body: bytes) -> bytes:
    """Return an object's PartialObjectMetadata."""
    head = {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1"}
    return orjson.dumps({**head, "metadata": orjson.loads(body)["metadata"]})


@dataclass(slots=True, eq=False, kw_only=True)
class Selection:
    """What of a collection is asked for."""

    namespace: str = ""
    labels: Test | None = None
    fields: Test | None = None

    @property
    def takes_all(self) -> bool:
        """Tell whether nothing is left out."""
        return not self.namespace and self.labels is None and self.fields is None

    def takes(self, found: Stored) -> bool:
        """Tell whether an object is among it."""
        if self.namespace and found.namespace != self.namespace:
            return False
        if self.labels is not None and not self.labels(found.labels):
            return False
        return self.fields is None or self.fields(found.decode())


class Watch:
    """Somebody who is told of a collection."""

    def __init__(
        self, selection: Selection, send: Callable[[bytes], None], *, metadata_only: bool
    ) -> None:
        self.metadata_only = metadata_only
        self._selection = selection
        self._send = send
        self._pending: list[bytes] = []

    def offer(self, change: Change) -> None:
        """Tell of a change, if it is wanted."""
        kind = change.type
        if not self._selection.takes_all:
            is_in = kind != "DELETED" and self._selection.takes(change.new)
            was_in = change.old is not None and self._selection.takes(change.old)
            if not (is_in or was_in):
                return
            kind = "DELETED" if not is_in else "MODIFIED" if was_in else "ADDED"
        self.say(change.line(kind, metadata_only=self.metadata_only))

    def first(self, found: Stored) -> bytes:
        """Return the line of an object that was there before."""
        return chunk(event("ADDED", reduced(found.body) if self.metadata_only else found.body))

    def say(self, line: bytes) -> None:
        """Send a framed line with the others of this turn."""
        if not self._pending:
            asyncio.get_running_loop().call_soon(self._flush)
        self._pending.append(line)

    def _flush(self) -> None:
        pending, self._pending = self._pending, []
        self._send(b"".join(pending))


class Collection:
    """All objects of one kind."""

    def __init__(self, cluster: "Cluster", resource: Resource) -> None:
        self.resource = resource
        self.watches: set[Watch] = set()
        self.listeners: list[Listener] = []
        self._cluster = cluster
        self._objects: dict[Key, Stored] = {}
        self._history: deque[Change] = deque(maxlen=_HISTORY)
        self._oldest = 0

    def __len__(self) -> int:
        """Count the objects."""
        return len(self._objects)

    def get(self, namespace: str, name: str) -> Stored | None:
        """Return an object."""
        return self._objects.get((namespace, name))

    def all(self) -> list[Stored]:
        """Return all objects."""
        return list(self._objects.values())

    def select(self, selection: Selection) -> Iterator[Stored]:
        """Yield the objects of a selection."""
        if selection.takes_all:
            yield from self.all()
        else:
            yield from [found for found in self._objects.values() if selection.takes(found)]

    def put(self, body: Object) -> Stored:
        """Take an object in, in place of what is there under its name, and tell of it."""
        metadata = body["metadata"]
        key = (metadata.get("namespace", ""), metadata["name"])
        old = self._objects.get(key)
        new = self._made(body)
        self._objects[key] = new
        self._tell(Change("ADDED" if old is None else "MODIFIED", new, old), body)
        return new

    def remove(self, body: Object) -> Stored:
        """Take an object out and tell of it, with a revision of its own."""
        metadata = body["metadata"]
        old = self._objects.pop((metadata.get("namespace", ""), metadata["name"]))
        new = self._made(body)
        self._tell(Change("DELETED", new, old), body)
        return new

    def pass_by(self, body: Object) -> Stored:
        """Tell of an object that nobody will look up."""
        new = self._made(body)
        self._tell(Change("ADDED", new, None), body)
        return new

    def since(self, revision: int) -> list[Change] | None:
        """Return what happened after a revision; None when that is not known any more."""
        if revision < self._oldest:
            return None
        return [change for change in self._history if change.new.revision > revision]

    def _made(self, body: Object) -> Stored:
        metadata = body["metadata"]
        self._cluster.revision += 1
        metadata["resourceVersion"] = str(self._cluster.revision)
        return Stored(
            metadata.get("namespace", ""),
            metadata["name"],
            self._cluster.revision,
            metadata.get("labels") or {},
            orjson.dumps(body),
        )

    def _tell(self, change: Change, body: Object) -> None:
        if len(self._history) == _HISTORY:
            self._oldest = self._history[0].new.revision
        self._history.append(change)
        for watch in self.watches:
            watch.offer(change)
        for listener in self.listeners:
            listener(change.type, body)


class Cluster:
    """All collections of one cluster."""

    def __init__(self, name: str, resources: Mapping[str, Resource], admission: Admission) -> None:
        """`resources` are the kinds that are served, by the path of their collection."""
        self.name = name
        self.admission = admission
        self.revision = 1000
        self.requests: Counter[str] = Counter()
        """Requests by verb and resource."""
        self.collections = {path: Collection(self, found) for path, found in resources.items()}

    def of(self, resource: Resource) -> Collection:
        """Return the collection of a kind."""
        return self.collections[resource.path()]

    def bookmark(self, resource: Resource, *, ends_list: bool = False) -> bytes:
        """Return a bookmark as a chunk."""
        metadata: Object = {"resourceVersion": str(self.revision), "creationTimestamp": None}
        if ends_list:
            metadata["annotations"] = {"k8s.io/initial-events-end": "true"}
        body = {"kind": resource.kind, "apiVersion": resource.api_version, "metadata": metadata}
        return chunk(event("BOOKMARK", orjson.dumps(body)))


def new_uid() -> str:
    """Return a UID."""
    return str(uuid.uuid4())
