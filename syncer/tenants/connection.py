"""One tenant's connection: its client, its caches and watches, and what is true of its store.

Owns the tenant's reflectors, the brake, and how the tenant is. Cancelling `run` removes every
trace. Must not know what becomes of an object in a super cluster: its sessions do, one for each.
Hazard: nothing is worked on before all caches of the tenant are complete and its store has been
judged; `is_ready` says so.
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
"""How long a new tenant's API is waited for before the condition says so."""
FIRST_LISTS_AT_ONCE = 4
"""Tenants whose watches are opened together: each takes some twenty TLS handshakes, which all want
the processor, and the lease has to be renewed between them."""
TURN_SECONDS = 5.0
"""How long a tenant that answers slowly keeps others from having their turn."""
UNREACHABLE_SECONDS = 15.0
"""How long a watch may be broken before the condition says so."""
_LOOK_SECONDS = 5.0
_SOON_SECONDS = 1.0
"""The same while watches are broken: the others are woken so soon after the first that stands."""
_CANARIES = 2
"""Keys that find out whether a tenant that refused writes takes them again."""

WATCHED: tuple[tuple[Resource, str, str], ...] = (
    *((kind.resource, kind.tenant_labels, kind.tenant_fields) for kind in KINDS),
    (SERVICE_ACCOUNTS, "", ""),
    (NODES, f"{wellknown.VIRTUAL_NODE}=true", ""),
    (IP_ADDRESSES, f"{wellknown.RESERVED_ADDRESS}=true", ""),
    (PERSISTENT_VOLUMES, "", ""),
    *((mirror.resource, "", "") for mirror in MIRRORS if not mirror.optional),
)
"""What is watched in each tenant: resource, label selector, field selector."""
OPTIONAL: tuple[Resource, ...] = tuple(mirror.resource for mirror in MIRRORS if mirror.optional)
"""What is watched as well in tenants that serve it."""
_INDEXES: dict[str, dict[str, IndexFunction]] = {
    "Ingress": {ingress_hosts.BY_HOST: ingress_hosts.hosts_named},
    "PersistentVolumeClaim": {claims.BY_VOLUME: claims.volumes_named},
}

_log: structlog.stdlib.BoundLogger = structlog.get_logger(__name__)


class Follower(Protocol):
    """What a link asks of each of its sessions."""

    name: str
    """Of its super cluster."""
    fuse: Fuse
    group: str
    """Name of its share of the queue."""
    is_ready: bool

    @property
    def is_away(self) -> bool:
        """Whether its super cluster, a target, does not answer."""

    def start(self) -> None:
        """Work from now on, and on everything once."""

    async def drained(self) -> None:
        """Stop taking work and wait until nothing is in hand."""

    def has_twin(self, pod: Entry) -> bool:
        """Tell whether the twin of a tenant pod is there."""

    def is_served(self, kind: str) -> None:
        """Take note that the tenant has begun to serve a mirrored kind."""

    def stamps(self) -> Iterable[int]:
        """Yield the tenant revisions that super objects record."""


class Link:
    """The connection of one engaged tenant."""

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
        """`is_split`: pods may be elsewhere than at home.

        `turns` is shared by all tenants and has FIRST_LISTS_AT_ONCE places."""
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
        """Why the tenant cannot be reached; empty while it can."""
        self.refusing = ""
        """Which writes the tenant keeps refusing; empty while it takes them."""
        self.store_in_doubt = False
        """Whether something happened that another store would explain."""
        self._parked = self.parked()
        self._store_key = Key(self.tenant.uid, HOME, STORE, "", "")
        self._restart = asyncio.Event()

    @property
    def holds_deletes(self) -> bool:
        """Whether deletes downward wait for a word of the super admin."""
        return self.brake.is_held

    def _twin_at(self, pod: Entry) -> str:
        """Return the super cluster whose cache shows a pod's twin, empty when none does."""
        return next((each.name for each in self.sessions if each.has_twin(pod)), "")

    def parked(self) -> Mapping[Part, str]:
        """Return what is parked, each with the paths that differ."""
        return dict(chain.from_iterable(each.fuse.parked().items() for each in self.sessions))

    # The store.

    def look_at_store(self) -> None:
        """Queue the key that writes the conditions."""
        if self.is_ready:
            self.queue.add(self._store_key)

    def doubt_store(self) -> None:
        """Something is absent from a list that was there: have the store judged."""
        self.store_in_doubt = True
        self.look_at_store()

    def mark_store_soon(self) -> None:
        """Something went down: have the store's epoch counted up before long."""
        if self.brake.is_count_due:
            self.queue.add_after(self._store_key, SETTLE_SECONDS, low=True)

    def _store_judged(self) -> None:
        """The brake thinks otherwise of the store: what the caches hold may be another one's."""
        if not self.brake.is_held:
            self.restart()  # the old one is back
        elif self.is_ready:
            self._list_anew()
        self.look_at_store()

    def _list_anew(self) -> None:
        """Fill all caches again: the revisions that watches go on from may be another store's."""
        for reflector in self._reflectors:
            reflector.list_anew()

    def _system_twin(self) -> str:
        """Return the UID of kube-system that its super namespace records, if there is one."""
        name = names.super_namespace(self.tenant.root, self.tenant.uid, SYSTEM_NAMESPACE)
        entry = self.home.stores["Namespace"].get("", name)
        owner = ownership.owner_of({"annotations": entry.annotations}) if entry else None
        return owner.uid if owner is not None and owner.vc_uid == self.tenant.uid else ""

    def _stamps(self) -> Iterable[int]:
        """Yield the tenant revisions that super objects record."""
        return chain.from_iterable(each.stamps() for each in self.sessions)

    def _highest_revision(self) -> int:
        return max(reflector.revision for reflector in self._reflectors)

    # Its life.

    def restart(self) -> None:
        """End this link and its sessions, so that new ones start with empty hands."""
        self._restart.set()

    async def drained(self) -> None:
        """Have all sessions stop taking work, and wait until nothing is in hand."""
        self.is_ready, ending = False, list(self.sessions)
        for session in ending:
            session.is_ready = False
        for session in ending:
            await session.drained()

    async def run(self) -> None:
        """Follow the tenant until cancelled; returns when a restart was asked for."""
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
        """Wait for a control plane that is only starting; raises what is wrong after a while.

        Eight watches that each back off would come in step long after the API is ready.
        """
        backoff = Backoff(base=0.2, ceiling=1.5)
        gives_up = _now() + FIRST_ANSWER_SECONDS
        while True:
            try:
                # Also waits for our role in the tenant, and past the breaker on purpose.
                path = f"/api/v1/namespaces/{SYSTEM_NAMESPACE}"
                await self.client.raw("GET", path, deadline=DEADLINE_SECONDS)
            except errors.KubeError:
                if _now() > gives_up:
                    raise
                await asyncio.sleep(backoff.next())
            else:
                return

    async def _watch(self, group: asyncio.TaskGroup) -> list[asyncio.Task[None]]:
        """Open the watches when it is this tenant's turn; returns once all caches are complete."""
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
        """Wait until all caches are complete; raises what is wrong when that takes long."""
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
        """The tenant has begun to serve a mirrored kind."""
        for session in self.sessions:
            session.is_served(kind)

    # Its health.

    async def _watch_health(self) -> None:
        """Notice a tenant that cannot be followed any more, and its return."""
        silent_since: float | None = None
        silent: set[str] = set()
        breaks = 0
        while True:
            await asyncio.sleep(_LOOK_SECONDS)
            breaks, before = sum(r.restarts for r in self._reflectors), breaks
            if breaks > before:
                self.doubt_store()  # behind the same address there may be another store now
                if self.holds_deletes:
                    self._list_anew()  # and then another one again
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
        """Have broken watches tried when one of them stands again, and requests when all do.

        Each watch has a delay of its own, of half a minute after a while, and so has the breaker.
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
                    each.hurry(returned)  # also one that a kind of its own has, and does not count
                if not broken:
                    self.client.breaker.answered()

    def _try_what_failed(self, silent: set[str], *, is_silent: bool) -> set[str]:
        """Have keys tried whose tenant or target answers again; returns where one does not.

        Their own delays have grown to minutes meanwhile. `is_silent`: the tenant does not answer.
        """
        still = {session.name for session in self.sessions if is_silent or session.is_away}
        for session in self.sessions:
            if session.name in silent - still:
                self.queue.hurry(session.group, forget=True)
        return still

    def _notice_refusals(self) -> None:
        """Say which writes the tenant keeps refusing, try a few again, and all when it ends."""
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
        """Return why the tenant cannot be followed: one broken watch is enough."""
        return next((r.problem for r in self._reflectors if r.problem), "")


def _now() -> float:
    """Return the monotonic time."""
    return asyncio.get_running_loop().time()
