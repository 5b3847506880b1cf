"""Objects of one cluster as JSON, their revisions, and their earlier states.

Owns storage, notifications and history: an earlier state can be listed until it is compacted. Must
not know HTTP. Hazard: an object is kept by its encoding, so later changes of the dict have no
effect.
"""

import random
import time
import uuid
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import orjson

from tenancy.resources import Resource
from tests.support.memapi.defaults import AdmissionDefaults
from tests.support.memapi.watches import (
    CollectionWatch,
    Object,
    Selection,
    StoredChange,
    StoredObject,
    event,
)

ObjectKey = tuple[str, str]
"""Namespace and name."""
ObjectListener = Callable[[str, Object], None]
"""Callback with the event's type and the object, which it must not change."""

_HISTORY = 4000  # events of a collection that a watch can go on after

AppliedObjects = Mapping[tuple[str, str], Object]
"""The last apply of an object, by manager and subresource."""


@dataclass(frozen=True, slots=True)
class ClusterState:
    """All objects of a cluster at one moment: a backup of its etcd."""

    revision: int
    objects: Mapping[str, Mapping[ObjectKey, StoredObject]]
    applied: Mapping[str, Mapping[ObjectKey, AppliedObjects]]


class Collection:
    """All objects of one kind."""

    def __init__(self, cluster: "MemoryCluster", resource: Resource) -> None:
        self.cluster = cluster
        self.resource = resource
        self.listeners: list[ObjectListener] = []
        self.applied: dict[ObjectKey, AppliedObjects] = {}
        self._watches: dict[
            CollectionWatch, None
        ] = {}  # in order: a run from a seed repeats itself
        self._objects: dict[ObjectKey, StoredObject] = {}
        self._history: deque[StoredChange] = deque(maxlen=_HISTORY)
        self._oldest = 0

    def __len__(self) -> int:
        """Count the objects."""
        return len(self._objects)

    def follow(self, watch: CollectionWatch) -> None:
        """Notify a watch of all events from now on."""
        self._watches[watch] = None

    def leave(self, watch: CollectionWatch) -> None:
        """Stop the notifications of a watch."""
        self._watches.pop(watch, None)

    def cut(self) -> None:
        """End all watches, as a server does that stops."""
        for watch in list(self._watches):
            watch.end()

    def get(self, namespace: str, name: str) -> StoredObject | None:
        """Return an object."""
        return self._objects.get((namespace, name))

    def all(self) -> list[StoredObject]:
        """Return all objects."""
        return list(self._objects.values())

    def select(self, selection: Selection, revision: int = 0) -> list[StoredObject] | None:
        """Return the objects of a selection by their keys, as they are or as they were once.

        None: that revision was compacted away.
        """
        is_past = revision and revision < self.cluster.revision
        objects = self._at(revision) if is_past else self._objects
        if objects is None:
            return None
        found: Iterable[tuple[ObjectKey, StoredObject]] = objects.items()
        if not selection.takes_all:
            found = [(key, stored) for key, stored in found if selection.takes(stored)]
        return [stored for _, stored in sorted(found, key=_in_order)]

    def _at(self, revision: int) -> Mapping[ObjectKey, StoredObject] | None:
        if revision < self._oldest:
            return None
        found = dict(self._objects)
        for change in reversed(self._history):
            if change.new.revision <= revision:
                break
            key = (change.new.namespace, change.new.name)
            if change.old is None:
                found.pop(key, None)
            else:
                found[key] = change.old
        return found

    def put(self, body: Object) -> StoredObject:
        """Store an object in place of the one with its name, and notify watches."""
        metadata = body["metadata"]
        key = (metadata.get("namespace", ""), metadata["name"])
        old = self._objects.get(key)
        new = self._made(body)
        self._objects[key] = new
        self._tell(StoredChange("ADDED" if old is None else "MODIFIED", new, old), body)
        return new

    def plant(self, body: Object) -> StoredObject:
        """Store an object as it is, with its revision, without a notification."""
        metadata = body["metadata"]
        new = StoredObject(
            metadata.get("namespace", ""),
            metadata["name"],
            int(metadata["resourceVersion"]),
            metadata.get("labels") or {},
            orjson.dumps(body),
        )
        self._objects[new.namespace, new.name] = new
        return new

    def uproot(self, namespace: str, name: str) -> None:
        """Remove an object without a notification."""
        self._objects.pop((namespace, name), None)

    def remove(self, body: Object) -> StoredObject:
        """Remove an object and notify watches, with a revision of its own."""
        metadata = body["metadata"]
        key = (metadata.get("namespace", ""), metadata["name"])
        old = self._objects.pop(key)
        self.applied.pop(key, None)
        new = self._made(body)
        self._tell(StoredChange("DELETED", new, old), body)
        return new

    def pass_by(self, body: Object) -> StoredObject:
        """Notify watches of an object that is not kept."""
        new = self._made(body)
        self._tell(StoredChange("ADDED", new, None), body)
        return new

    def since(self, revision: int) -> list[StoredChange] | None:
        """Return the events after a revision. None if they are no longer known."""
        if revision < self._oldest:
            return None
        return [change for change in self._history if change.new.revision > revision]

    def compact(self, revision: int) -> None:
        """Forget what was before a revision."""
        self._oldest = max(self._oldest, revision)
        while self._history and self._history[0].new.revision <= revision:
            self._history.popleft()

    def save(self) -> tuple[Mapping[ObjectKey, StoredObject], Mapping[ObjectKey, AppliedObjects]]:
        """Return what is there."""
        return dict(self._objects), dict(self.applied)

    def load(
        self, objects: Mapping[ObjectKey, StoredObject], applied: Mapping[ObjectKey, AppliedObjects]
    ) -> None:
        """Restore an earlier state. The server starts again with it, without notifications."""
        self._objects, self.applied = dict(objects), dict(applied)
        self._history.clear()
        self._oldest = self.cluster.revision

    def _made(self, body: Object) -> StoredObject:
        metadata = body["metadata"]
        self.cluster.revision += 1
        metadata["resourceVersion"] = str(self.cluster.revision)
        return StoredObject(
            metadata.get("namespace", ""),
            metadata["name"],
            self.cluster.revision,
            metadata.get("labels") or {},
            orjson.dumps(body),
        )

    def _tell(self, change: StoredChange, body: Object) -> None:
        if len(self._history) == _HISTORY:
            self._oldest = self._history[0].new.revision
        self._history.append(change)
        for watch in self._watches:
            watch.offer(change)
        for listener in self.listeners:
            listener(change.type, body)


class MemoryCluster:
    """All collections of one cluster."""

    def __init__(
        self,
        name: str,
        resources: Mapping[str, Resource],
        admission: AdmissionDefaults,
        *,
        clock: Callable[[], float] = time.time,
        chance: random.Random | None = None,
        keeps_events: bool = False,
    ) -> None:
        """`resources` are the kinds that are served, by the path of their collection.

        `clock` gives seconds since 1970, `chance` UIDs and names. Without `keeps_events` Events are
        notified and not kept, because no measurement reads them.
        """
        self.name = name
        self.admission = admission
        self.keeps_events = keeps_events
        self.chance = chance or random.Random()  # noqa: S311 - names, no secrets
        self.revision = 1000
        self.restores = 0
        self.requests: Counter[str] = Counter()
        """Requests by verb and resource."""
        self.written: Counter[str] | None = None
        """Accepted writes, by verb, resource and name, while they are counted."""
        self.token_seconds = 0.0
        """Maximum lifetime of a token. 0: as requested."""
        self.clock = clock
        self.collections = {path: Collection(self, found) for path, found in resources.items()}

    def of(self, resource: Resource) -> Collection:
        """Return the collection of a kind."""
        return self.collections[resource.build_path()]

    def now(self, ahead: float = 0.0) -> str:
        """Return the time, or that in so many seconds, as API servers write it."""
        return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(self.clock() + ahead))

    def new_uid(self) -> str:
        """Return a UID."""
        return str(uuid.UUID(int=self.chance.getrandbits(128), version=4))

    def bookmark(self, resource: Resource, revision: int = 0, *, ends_list: bool = False) -> bytes:
        """Return a bookmark of the present, or of a revision, as a line."""
        told = str(revision or self.revision)
        metadata: Object = {"resourceVersion": told, "creationTimestamp": None}
        if ends_list:
            metadata["annotations"] = {"k8s.io/initial-events-end": "true"}
        body = {"kind": resource.kind, "apiVersion": resource.api_version, "metadata": metadata}
        return event("BOOKMARK", orjson.dumps(body))

    def cut(self) -> None:
        """End all watches."""
        for collection in self.collections.values():
            collection.cut()

    def compact(self) -> None:
        """Forget everything but the present."""
        for collection in self.collections.values():
            collection.compact(self.revision)

    def save(self) -> ClusterState:
        """Return a backup."""
        saved = {path: collection.save() for path, collection in self.collections.items()}
        return ClusterState(
            self.revision,
            {path: objects for path, (objects, _) in saved.items()},
            {path: applied for path, (_, applied) in saved.items()},
        )

    def restore(self, state: ClusterState, *, bump: int = 0) -> None:
        """Restart from a backup, with all watches ended and its revision raised by `bump`.

        Its API servers are stopped for that, so requests on their way to them do not arrive.
        """
        self.restores += 1
        self.cut()
        self.revision = state.revision + bump
        for path, collection in self.collections.items():
            collection.load(state.objects[path], state.applied[path])


def _in_order(found: tuple[ObjectKey, StoredObject]) -> str:
    """Sort as etcd does: by the whole path, in which `/` is a letter like others."""
    (namespace, name), _ = found
    return f"{namespace}/{name}" if namespace else name
