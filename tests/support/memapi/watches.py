"""Objects in watches: which are selected, which event a change makes, and which watch gets it.

Owns the lines of a watch, each encoded once for all watches, and the fields that a watch omits.
Must not know HTTP or how objects are kept. Hazard: an object that leaves a selection is sent as
deleted, with its content while it was selected.
"""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson

from tests.support.memapi.selection import SelectorTest

Object = dict[str, Any]

_PIECE = 256  # lines that are sent together


@dataclass(slots=True, eq=False)
class StoredObject:
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
class StoredChange:
    """One event of a collection, with the lines it has on the wire."""

    type: str
    new: StoredObject
    old: StoredObject | None
    _lines: dict[tuple[str, bool], bytes] = field(default_factory=dict)

    def line(self, type_: str, *, metadata_only: bool) -> bytes:
        """Return the event as a line of a watch."""
        found = self._lines.get((type_, metadata_only))
        if found is None:
            body = self.new.body if type_ != "DELETED" or self.type == type_ else self._left()
            found = event(type_, reduced(body) if metadata_only else body)
            self._lines[type_, metadata_only] = found
        return found

    def _left(self) -> bytes:
        """Return what a watch is shown that an object has left: the object as it was."""
        assert self.old is not None
        body = self.old.decode()
        body["metadata"]["resourceVersion"] = str(self.new.revision)
        return orjson.dumps(body)


def event(type_: str, body: bytes) -> bytes:
    """Return a line of a watch."""
    return b'{"type":"%b","object":%b}\n' % (type_.encode(), body)


def reduced(body: bytes) -> bytes:
    """Return an object's PartialObjectMetadata."""
    head = {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1"}
    return orjson.dumps({**head, "metadata": orjson.loads(body)["metadata"]})


@dataclass(slots=True, eq=False, kw_only=True)
class Selection:
    """The requested part of a collection."""

    namespace: str = ""
    labels: SelectorTest | None = None
    fields: SelectorTest | None = None

    @property
    def takes_all(self) -> bool:
        """Return whether nothing is left out."""
        return not self.namespace and self.labels is None and self.fields is None

    def takes(self, found: StoredObject) -> bool:
        """Return whether an object is selected."""
        if self.namespace and found.namespace != self.namespace:
            return False
        if self.labels is not None and not self.labels(found.labels):
            return False
        return self.fields is None or self.fields(found.decode())


class CollectionWatch:
    """A subscriber of a collection."""

    def __init__(
        self,
        selection: Selection,
        send: Callable[[bytes], None],
        *,
        metadata_only: bool,
        after: int = 0,
        end: Callable[[], None] = lambda: None,
    ) -> None:
        """`send` gets lines, `end` is called when the server ends the watch.

        Nothing up to the revision `after` is sent. After a restore it may be in the future.
        """
        self.metadata_only = metadata_only
        self.end = end
        self._after = after
        self._selection = selection
        self._send = send
        self._pending: list[bytes] = []

    def offer(self, change: StoredChange) -> None:
        """Send a change, if it is wanted."""
        if change.new.revision <= self._after:
            return
        kind = change.type
        if not self._selection.takes_all:
            is_in = kind != "DELETED" and self._selection.takes(change.new)
            was_in = change.old is not None and self._selection.takes(change.old)
            if not (is_in or was_in):
                return
            kind = "DELETED" if not is_in else "MODIFIED" if was_in else "ADDED"
        self.say(change.line(kind, metadata_only=self.metadata_only))

    def first(self, found: StoredObject) -> bytes:
        """Return the line of an object that was there before."""
        return event("ADDED", reduced(found.body) if self.metadata_only else found.body)

    def say(self, line: bytes) -> None:
        """Send a line with the others of this turn."""
        if not self._pending:
            asyncio.get_running_loop().call_soon(self._flush)
        self._pending.append(line)

    def _flush(self) -> None:
        pending, self._pending = self._pending, []
        for at in range(0, len(pending), _PIECE):
            self._send(b"".join(pending[at : at + _PIECE]))
