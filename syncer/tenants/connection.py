"""Connection to one tenant: its client, its watches and caches, and the state of its etcd.

Owns the tenant's reflectors, the delete protection, and the health of the tenant. Cancelling `run`
removes every trace. Must not know what becomes of an object in a super cluster. The sessions do,
one per super cluster. Hazard: no key may be reconciled before `is_ready`. Until then the caches are
incomplete and the tenant's store is not judged, so objects would be deleted by mistake.
"""

import asyncio
import contextlib
from collections.abc import Iterable, Mapping
from functools import partial
from itertools import chain
from typing import Protocol

import structlog

from kubeio import errors
from kubeio.backoff import Backoff
from kubeio.cache.crd_reflector import OptionalReflector
from kubeio.cache.reflector import Reflector
from kubeio.cache.store import Entry, IndexFunction, Store
from kubeio.config.endpoint import Endpoint
from kubeio.controller.fair_queue import FairQueue
from syncer.clusters.home_cluster import Home
from syncer.model.keys import HOME, STORE, Key
from syncer.model.mirrored_kinds import MIRRORS
from syncer.placement.assignments import Seats
from syncer.rules.network import ingress_hosts
from syncer.rules.registry import KINDS, reduction_of
from syncer.rules.storage import claims
from syncer.safety.circuit_breaker import DEADLINE_SECONDS, TenantClient
from syncer.safety.hot_loop_guard import Fuse, Part
from syncer.safety.store_guard import SETTLE_SECONDS, SYSTEM_NAMESPACE, Brake
from syncer.tenants.event_recorder import Notices
from tenancy import names, ownership, wellknown
from tenancy.resources import (
    IP_ADDRESSES,
    NODES,
    PERSISTENT_VOLUMES,
    SERVICE_ACCOUNTS,
    Resource,
)
from tenancy.specs import VirtualCluster

FIRST_ANSWER_SECONDS = 60.0
"""Time in seconds that a new tenant's API may stay silent before the condition reports it."""
FIRST_LISTS_AT_ONCE = 4
"""Number of tenants that open their watches at the same time. Each tenant needs some 20 TLS
handshakes, which compete for the processor. The lease must be renewed between them.
"""
TURN_SECONDS = 5.0
"""Time in seconds after which a slow tenant no longer keeps other tenants from opening watches."""
UNREACHABLE_SECONDS = 15.0
"""Time in seconds that a watch may be broken before the condition reports it."""
_LOOK_SECONDS = 5.0
_SOON_SECONDS = 1.0
"""The same interval while watches are broken. All other watches are retried this soon after the
first one works again.
"""
_CANARIES = 2
"""Number of keys that probe whether a tenant that refused writes accepts them again."""

WATCHED: tuple[tuple[Resource, str, str], ...] = (
    *((kind.resource, kind.tenant_labels, kind.tenant_fields) for kind in KINDS),
    (SERVICE_ACCOUNTS, "", ""),
    (NODES, f"{wellknown.VIRTUAL_NODE}=true", ""),
    (IP_ADDRESSES, f"{wellknown.RESERVED_ADDRESS}=true", ""),
    (PERSISTENT_VOLUMES, "", ""),
    *((mirror.resource, "", "") for mirror in MIRRORS if not mirror.optional),
)
"""Resources that are watched in each tenant: resource, label selector, field selector."""
OPTIONAL: tuple[Resource, ...] = tuple(mirror.resource for mirror in MIRRORS if mirror.optional)
"""Resources that are watched in addition, in tenants that serve them."""
_INDEXES: dict[str, dict[str, IndexFunction]] = {
    "Ingress": {ingress_hosts.BY_HOST: ingress_hosts.hosts_named},
    "PersistentVolumeClaim": {claims.BY_VOLUME: claims.volumes_named},
}

_log: structlog.stdlib.BoundLogger = structlog.get_logger(__name__)


class Follower(Protocol):
    """Interface of a session, as the connection uses it."""

    name: str
    """Name of the super cluster."""
    fuse: Fuse
    group: str
    """Name of the session's group in the queue."""
    is_ready: bool

    @property
    def is_away(self) -> bool:
        """Whether the super cluster, a target, does not answer."""

    def start(self) -> None:
        """Start to reconcile, beginning with every key."""

    async def drained(self) -> None:
        """Stop accepting work and wait until no key is in work."""

    def has_twin(self, pod: Entry) -> bool:
        """Return True if the twin of a tenant pod exists."""

    def is_served(self, kind: str) -> None:
        """Queue the keys of a mirrored kind that the tenant now serves."""

    def stamps(self) -> Iterable[int]:
        """Yield the tenant revisions that super objects record."""


class Link:
    """The connection to one tenant."""

    def __init__(
        self,
        cluster: VirtualCluster,
        endpoint: Endpoint,
        *,
        home: Home,
        queue: FairQueue[Key],
        turns: asyncio.Semaphore,
        is_split: bool = False,
    ) -> None:
        """`is_split`: pods may run in other clusters than the home cluster.

        `turns` is shared by all tenants and has FIRST_LISTS_AT_ONCE places.
        """
        self.cluster = cluster
        self.tenant = cluster.tenant
        self.home = home
        self.queue = queue
        self.client = TenantClient(
            endpoint, user_agent=home.client.user_agent, fence=home.client.fence
        )
        self.stores = {
            resource.kind: Store(_INDEXES.get(resource.kind))
            for resource in (*(resource for resource, _, _ in WATCHED), *OPTIONAL)
        }
        self.sessions: list[Follower] = []
        self.seats = Seats(
            is_split=is_split,
            has_twin=self._twin_at,
            follows=lambda: {each.name for each in self.sessions},
        )
        self._reflectors: tuple[Reflector | OptionalReflector, ...] = (
            *(
                Reflector(
                    self.client,
                    resource,
                    self.stores[resource.kind],
                    label_selector=labels,
                    field_selector=fields,
                    reduce=reduction_of(resource.kind),
                    side="tenant",
                    turns=home.turns,
                )
                for resource, labels, fields in WATCHED
            ),
            *(
                OptionalReflector(
                    self.client,
                    resource,
                    self.stores[resource.kind],
                    side="tenant",
                    turns=home.turns,
                    on_served=partial(self._served, resource.kind),
                )
                for resource in OPTIONAL
            ),
        )
        self.notices = Notices(self.client)
        self.brake = Brake(
            tenant=self.tenant,
            tenant_client=self.client,
            super_client=home.client,
            revision=self._highest_revision,
            judged=self._store_judged,
        )
        self._turns = turns
        self.is_ready = False
        self.problem = ""
        """Reason why the tenant cannot be reached. Empty while it can."""
        self.refusing = ""
        """Writes that the tenant keeps refusing. Empty while it accepts them."""
        self.store_in_doubt = False
        """Whether something happened that a different store would explain."""
        self._parked = self.parked()
        self._store_key = Key(self.tenant.uid, HOME, STORE, "", "")
        self._restart = asyncio.Event()

    @property
    def holds_deletes(self) -> bool:
        """Whether deletes in the super cluster wait for a platform administrator."""
        return self.brake.is_held

    def _twin_at(self, pod: Entry) -> str:
        """Return the name of the super cluster that has a pod's twin in its cache.

        Returns an empty string if none has it.
        """
        return next((each.name for each in self.sessions if each.has_twin(pod)), "")

    def parked(self) -> Mapping[Part, str]:
        """Return the parked writes, each with the paths that differ."""
        return dict(chain.from_iterable(each.fuse.parked().items() for each in self.sessions))

    # The tenant's store (etcd).

    def look_at_store(self) -> None:
        """Queue the key that writes the conditions."""
        if self.is_ready:
            self.queue.add(self._store_key)

    def doubt_store(self) -> None:
        """Queue a check of the store, because an object vanished between two lists."""
        self.store_in_doubt = True
        self.look_at_store()

    def mark_store_soon(self) -> None:
        """Queue a delayed increase of the store's epoch.

        The reason is an object that was synced to the super cluster `SETTLE_SECONDS` before it.
        """
        if self.brake.is_count_due:
            self.queue.add_after(self._store_key, SETTLE_SECONDS, low=True)

    def _store_judged(self) -> None:
        """Restart or relist after a new verdict on the store.

        The caches may hold objects of a different store.
        """
        if not self.brake.is_held:
            self.restart()  # the old store is back
        elif self.is_ready:
            self._list_anew()
        self.look_at_store()

    def _list_anew(self) -> None:
        """Relist all caches.

        The revisions at which watches continue may be those of a different store.
        """
        for reflector in self._reflectors:
            reflector.list_anew()

    def _system_twin(self) -> str:
        """Return the UID of kube-system that its super namespace records, or an empty string."""
        name = names.super_namespace(self.tenant.root, self.tenant.uid, SYSTEM_NAMESPACE)
        entry = self.home.stores["Namespace"].get("", name)
        owner = ownership.owner_of({"annotations": entry.annotations}) if entry else None
        return owner.uid if owner is not None and owner.vc_uid == self.tenant.uid else ""

    def _stamps(self) -> Iterable[int]:
        """Yield the tenant revisions that super objects record."""
        return chain.from_iterable(each.stamps() for each in self.sessions)

    def _highest_revision(self) -> int:
        return max(reflector.revision for reflector in self._reflectors)

    # Start and end.

    def restart(self) -> None:
        """End this connection and its sessions, so that new ones start without memory."""
        self._restart.set()

    async def drained(self) -> None:
        """Stop all sessions from accepting work, and wait until no key is in work."""
        self.is_ready, ending = False, list(self.sessions)
        for session in ending:
            session.is_ready = False
        for session in ending:
            await session.drained()

    async def run(self) -> None:
        """Sync the tenant until cancelled. Returns when a restart was requested."""
        async with self.client, asyncio.TaskGroup() as group:
            await self._first_answer()
            tasks = await self._watch(group)
            await self.brake.engage(twin_uid=self._system_twin(), stamps=self._stamps())
            self.is_ready = True
            for session in self.sessions:
                session.start()
            _log.info("tenant.engaged", tenant=self.tenant.root, pods=len(self.stores["Pod"]))
            tasks.append(group.create_task(self._watch_health(), name="health"))
            tasks.append(group.create_task(self._watch_returns(), name="returns"))
            await self._restart.wait()
            await self.drained()
            for task in tasks:
                task.cancel()

    async def _first_answer(self) -> None:
        """Wait for the API of a control plane that is still starting.

        Raises the API error after `FIRST_ANSWER_SECONDS`.

        Otherwise eight watches would back off separately and become complete long after the API is
        ready.
        """
        backoff = Backoff(base=0.2, ceiling=1.5)
        gives_up = _now() + FIRST_ANSWER_SECONDS
        while True:
            try:
                # Also waits for the syncer's role in the tenant. Bypasses the circuit breaker on
                # purpose.
                path = f"/api/v1/namespaces/{SYSTEM_NAMESPACE}"
                await self.client.raw("GET", path, deadline=DEADLINE_SECONDS)
            except errors.KubeError:
                if _now() > gives_up:
                    raise
                await asyncio.sleep(backoff.next())
            else:
                return

    async def _watch(self, group: asyncio.TaskGroup) -> list[asyncio.Task[None]]:
        """Open the watches once `turns` has a free place. Returns when all caches are complete."""
        async with self._turns:
            tasks = [
                group.create_task(reflector.run(), name=f"{self.tenant.root}-{reflector.resource}")
                for reflector in self._reflectors
            ]
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(TURN_SECONDS):
                    await self._first_lists()
        await self._first_lists()
        return tasks

    async def _first_lists(self) -> None:
        """Wait until all caches are complete.

        Raises Unavailable with the problem of a watch, checked every `UNREACHABLE_SECONDS`.
        """
        for reflector in self._reflectors:
            while not reflector.synced:
                try:
                    async with asyncio.timeout(UNREACHABLE_SECONDS):
                        await reflector.wait_synced()
                except TimeoutError:
                    problem = self._silence()
                    if problem:
                        raise errors.Unavailable(problem) from None

    def _served(self, kind: str) -> None:
        """Notify all sessions that the tenant has begun to serve a mirrored kind."""
        for session in self.sessions:
            session.is_served(kind)

    # Health.

    async def _watch_health(self) -> None:
        """Detect that the tenant has become unreachable, or reachable again."""
        silent_since: float | None = None
        silent: set[str] = set()
        breaks = 0
        while True:
            await asyncio.sleep(_LOOK_SECONDS)
            breaks, before = sum(r.restarts for r in self._reflectors), breaks
            if breaks > before:
                self.doubt_store()  # the same address may have a different store now
                if self.holds_deletes:
                    self._list_anew()  # and then a different one again
            problem = self._silence()
            if not problem:
                silent_since = None
            elif silent_since is None:
                silent_since = _now()
            is_long = silent_since is not None and _now() - silent_since >= UNREACHABLE_SECONDS
            if is_long != bool(self.problem):
                self.problem = problem if is_long else ""
                self.look_at_store()
            silent = self._try_what_failed(silent, is_silent=bool(problem))
            self._notice_refusals()

    async def _watch_returns(self) -> None:
        """Retry all broken watches when one of them works again, and all requests when all do.

        Otherwise each watch would wait for its own delay, which grows to 30 s. The same applies to
        the circuit breaker.
        """
        broken, returned = 0, 0.0
        while True:
            await asyncio.sleep(_SOON_SECONDS if broken else _LOOK_SECONDS)
            before, broken = broken, sum(bool(each.problem) for each in self._reflectors)
            if broken > before:
                returned = 0.0
            elif broken < before:
                returned = returned or _now()
                for each in self._reflectors:
                    each.hurry(returned)  # also an optional watch that is not counted
                if not broken:
                    self.client.breaker.answered()

    def _try_what_failed(self, silent: set[str], *, is_silent: bool) -> set[str]:
        """Retry the keys of sessions whose tenant or target answers again.

        Returns the sessions with a side that does not answer.

        Without this, delays that have grown to minutes would apply. `is_silent`: the tenant does
        not answer.
        """
        still = {session.name for session in self.sessions if is_silent or session.is_away}
        for session in self.sessions:
            if session.name in silent - still:
                self.queue.hurry(session.group, forget=True)
        return still

    def _notice_refusals(self) -> None:
        """Report the writes that the tenant keeps refusing, and retry a few keys.

        Retry all keys when the refusals end.
        """
        refusing = self.client.refused_writes.problem()
        for session in self.sessions:
            if refusing:
                self.queue.hurry(session.group, limit=_CANARIES)
            elif self.refusing:
                self.queue.hurry(session.group, forget=True)
        parked = self.parked()
        if (refusing, parked) != (self.refusing, self._parked):
            self.refusing, self._parked = refusing, parked
            self.look_at_store()

    def _silence(self) -> str:
        """Return the reason why the tenant cannot be synced. One broken watch is enough."""
        return next((r.problem for r in self._reflectors if r.problem), "")


def _now() -> float:
    """Return the monotonic time."""
    return asyncio.get_running_loop().time()
