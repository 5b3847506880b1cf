"""Blind spots of the syncer: a twin that lost its labels, a twin that is restored at this moment,
and events that a watch missed while it continued on another store.

Owns the record of these three, which are known limits (`docs/machine.md`): the processes that saw
the first, the cache with the second, and the position of each watch in the third. Must not judge.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from syncer.tenants.session import Session
from tenancy import ownership
from tenancy.resources import NAMESPACES
from tests.support.memapi.cluster import MemoryCluster
from tests.support.memapi.lists import RequestedWatch
from tests.support.memapi.watches import Object

if TYPE_CHECKING:
    from tests.chaos.memory.replica import SimulatedReplica


class _AddressStore(NamedTuple):
    """Which of the stores that were put behind an address is there, and where it began."""

    number: int = 0
    revision: int = 0
    common: int = 0
    """Up to where it is the same as the one before it."""


class _WatchedCollection(NamedTuple):
    """One collection as a process follows it."""

    process: str
    side: str
    path: str


class ObservedStores:
    """Objects that the processes of one world have seen."""

    def __init__(self, below: MemoryCluster, replicas: Sequence[SimulatedReplica]) -> None:
        self._below = below
        self._replicas = replicas
        self._stripped: dict[str, list[Session]] = {}
        self._played_back: set[str] = set()
        self._stores: dict[str, _AddressStore] = {}
        self._followed: dict[_WatchedCollection, int] = {}
        self._blind: set[_WatchedCollection] = set()
        self.went_blind = 0
        """Watches that went on in another store, so far."""

    # Twins without their labels.

    def strips(self, body: Object) -> None:
        """Take note that a twin loses its labels, and of its tenant's sessions that see it."""
        uid = body["metadata"]["uid"]
        self._stripped[uid] = [each for each in self._of_owner(body) if _shows(each, body)]

    def is_out_of_sight(self, metadata: Object) -> bool:
        """Return whether the syncer that saw a twin lose its labels has stopped, and none knows it.

        It is the known limit of the caches (`syncer.controllers.adoption`).
        """
        space = self._below.of(NAMESPACES).get("", metadata.get("namespace", ""))
        if space is not None and self.is_out_of_sight(space.decode()["metadata"]):
            return True
        seen = self._stripped.get(metadata["uid"])
        return seen is not None and not any(session in seen for session in self._sessions())

    # Twins that were played back.

    def plays_back(self, before: Object, made: Object) -> None:
        """Take note that another owner has made a twin again, without labels if it had none."""
        old, new = before["metadata"]["uid"], made["metadata"]["uid"]
        self._played_back.add(new)
        if old in self._stripped:
            self._stripped[new] = self._stripped[old]

    def is_news(self, twin: Object) -> bool:
        """Return whether a twin was restored and no watch has shown it, because the old twin ended.

        Between the two there is a moment, also for who reads live.
        """
        is_played_back = twin["metadata"]["uid"] in self._played_back
        return is_played_back and not any(_shows(each, twin) for each in self._of_owner(twin))

    # Watches of stores that were restored.

    def restored(self, side: str, revision: int) -> None:
        """Take note that another store is behind an address from now on."""
        before = self._stores.get(side)
        # The newest store, when it is back, has in common with the one that stood in for it what
        # that one began with.
        common = revision if before is None else min(revision, before.revision)
        self._stores[side] = _AddressStore(before.number + 1 if before else 1, revision, common)

    def noticed(self, side: str) -> None:
        """Take note that the syncer knows of another store: it has to begin again by itself."""
        self._blind = {watched for watched in self._blind if watched.side != side}

    def opened(self, side: str, process: str, asked: RequestedWatch, *, is_noticed: bool) -> None:
        """Take note of a watch. One that lists has everything in sight.

        One that goes on from where it stood in the store before, when this one has grown past that
        place or begins just there, is not told what it has missed, nor that it did. (One that
        stands before the beginning is answered 410.)
        """
        watched = _WatchedCollection(process, side, asked.collection.resource.build_path())
        store = self._stores.get(side, _AddressStore())
        is_later = self._followed.get(watched, store.number) != store.number
        self._followed[watched] = store.number
        if not asked.revision:
            self._blind.discard(watched)
            return
        is_there = store.revision <= asked.revision <= asked.collection.cluster.revision
        has_missed = is_there and asked.revision > store.common
        if is_later and has_missed and not is_noticed:
            self._blind.add(watched)
            self.went_blind += 1

    def is_blind(self, replica: SimulatedReplica) -> bool:
        """Return whether a process has such a watch."""
        return any(watched.process == replica.identity for watched in self._blind)

    def _of_owner(self, twin: Object) -> list[Session]:
        owner = ownership.read_owner(twin["metadata"])
        uid = owner.vc_uid if owner is not None else ""
        return [session for session in self._sessions() if session.tenant.uid == uid]

    def _sessions(self) -> list[Session]:
        return [session for replica in self._replicas for session in replica.sessions]


def _shows(session: Session, twin: Object) -> bool:
    """Return whether a session's cache has a super object."""
    metadata = twin["metadata"]
    place = (metadata.get("namespace", ""), metadata["name"])
    entry = session.twins.get_store(twin["kind"]).get(*place)
    return entry is not None and entry.uid == metadata["uid"]
