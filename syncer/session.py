"""One tenant's connection: its client, its caches, and what is remembered between two keys.

Owns the tenant's reflectors and what their events wake. Cancelling `run` removes every trace. Must
not decide anything about single kinds. Hazard: nothing is worked on before all caches of the tenant
are complete and its store has been judged; `is_ready` says so.
"""

import asyncio
import contextlib
from collections.abc import Iterable
from functools import partial
from itertools import chain

import structlog

from kubeio import errors
from kubeio.backoff import Backoff
from kubeio.endpoint import Endpoint
from kubeio.optional import OptionalReflector
from kubeio.queue import FairQueue
from kubeio.reflector import Reflector
from kubeio.store import Entry, IndexFunction, Store
from kubeio.worker import Wait
from syncer.brake import SETTLE_SECONDS, SYSTEM_NAMESPACE, Brake
from syncer.breaker import DEADLINE_SECONDS, TenantClient
from syncer.deletion import Deletions
from syncer.expectations import Expectations, Side, revision_of
from syncer.figures import Figures
from syncer.fuse import Fuse
from syncer.keys import STORE, Key
from syncer.kinds import KINDS, reduction_of
from syncer.mirrors import MIRRORS
from syncer.node_index import NodeIndex
from syncer.notices import Notices
from syncer.pod_index import PodIndex
from syncer.reminders import Reminders
from syncer.roll import Roll
from syncer.scrubber import Scrubber
from syncer.special import claims, ingress_hosts
from syncer.special.events import Budget
from syncer.special.namespaces import is_at_level
from syncer.supercluster import BY_TENANT, SuperCluster
from syncer.view import Slice, TenantView
from tenancy import marks, ownership
from tenancy.policies import BASELINE, TenantPolicySpec
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
_CANARIES = 2
"""Keys that find out whether a tenant that refused writes takes them again."""

WATCHED: tuple[tuple[Resource, str, str], ...] = (
    *((kind.resource, kind.tenant_labels, kind.tenant_fields) for kind in KINDS),
    (SERVICE_ACCOUNTS, "", ""),
    (NODES, f"{marks.VIRTUAL_NODE}=true", ""),
    (IP_ADDRESSES, f"{marks.RESERVED_ADDRESS}=true", ""),
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


class Session:
    """One engaged tenant."""

    def __init__(
        self,
        cluster: VirtualCluster,
        endpoint: Endpoint,
        *,
        tenant_slice: Slice,
        super_cluster: SuperCluster,
        queue: FairQueue[Key],
        turns: asyncio.Semaphore,
        policy: TenantPolicySpec = BASELINE,
    ) -> None:
        """`turns` is shared by all tenants and has FIRST_LISTS_AT_ONCE places."""
        self.cluster = cluster
        self.tenant = cluster.tenant
        self.super_cluster = super_cluster
        self.super_client = super_cluster.client
        self.queue = queue
        self.tenant_client = TenantClient(
            endpoint, user_agent=self.super_client.user_agent, fence=self.super_client.fence
        )
        self.stores = {
            resource.kind: Store(_INDEXES.get(resource.kind))
            for resource in (*(resource for resource, _, _ in WATCHED), *OPTIONAL)
        }
        self.pods = PodIndex()
        self.nodes = NodeIndex(self.stores["Node"], super_cluster.nodes, policy.nodes.view)
        self.view = TenantView(
            tenant=self.tenant,
            spec=cluster.spec,
            slice=tenant_slice,
            stores=self.stores,
            references=self.pods.references,
            policy=policy,
            below=super_cluster.read_by_builders,
            super_domain=super_cluster.domain,
            ranges=super_cluster.ranges.current,
        )
        self._roll = Roll(self.view, self.pods, super_cluster)
        self._reflectors: tuple[Reflector | OptionalReflector, ...] = (
            *(
                Reflector(
                    self.tenant_client,
                    resource,
                    self.stores[resource.kind],
                    label_selector=labels,
                    field_selector=fields,
                    reduce=reduction_of(resource.kind),
                    side="tenant",
                    is_turn_over=super_cluster.turns.is_over,
                )
                for resource, labels, fields in WATCHED
            ),
            *(
                OptionalReflector(
                    self.tenant_client,
                    resource,
                    self.stores[resource.kind],
                    side="tenant",
                    is_turn_over=super_cluster.turns.is_over,
                    on_served=partial(self._add_all, resource.kind),
                )
                for resource in OPTIONAL
            ),
        )
        self.figures = Figures(queue.age)
        self.expectations = Expectations(answered=self.figures.answered)
        self.fuse = Fuse()
        self.notices = Notices(self.tenant_client)
        self.brake = Brake(
            tenant=self.tenant,
            tenant_client=self.tenant_client,
            super_client=self.super_client,
            revision=self._highest_revision,
            judged=self._store_judged,
        )
        self.deletions = Deletions(
            brake=self.brake,
            tenant_client=self.tenant_client,
            super_client=self.super_client,
            expectations=self.expectations,
        )
        self.event_budget = Budget()
        self.scrubber = Scrubber(self.tenant, super_cluster, self.stores["Node"])
        self.reminders = Reminders(self.now)
        self._turns = turns
        self.is_ready = False
        self.problem = ""
        """Why the tenant cannot be reached; empty while it can."""
        self.refusing = ""
        """Which writes the tenant keeps refusing; empty while it takes them."""
        self.store_in_doubt = False
        """Whether something happened that another store would explain."""
        self._parked = self.fuse.parked()
        self._in_flight = 0
        self._idle: asyncio.Event | None = None
        self._restart = asyncio.Event()

    # Names and lookups.

    def key(self, kind: str, namespace: str, name: str) -> Key:
        """Return the key of one of this tenant's objects."""
        return Key(self.tenant.uid, self.super_cluster.name, kind, namespace, name)

    def super_store(self, kind: str) -> Store:
        """Return the cache of super objects of a kind."""
        return self.super_cluster.stores[kind]

    def is_twin(self, entry: Entry | None, uid: str) -> bool:
        """Tell whether a super object is the twin of the tenant object with this UID."""
        return self.super_cluster.is_twin(entry, vc_uid=self.tenant.uid, uid=uid)

    def is_behind(self, key: Key, tenant_x: Entry | None, super_x: Entry | None) -> bool:
        """Tell whether a cache has yet to show one of our writes for a key."""
        awaited = self.expectations
        return awaited.is_behind(Side.TENANT, key, tenant_x) or awaited.is_behind(
            Side.SUPER, key, super_x
        )

    def ready_namespace(self, key: Key) -> Entry:
        """Return the super namespace of a key's namespace; raises Wait until it can be used."""
        tenant_x = self.stores["Namespace"].get("", key.namespace)
        name = self.view.super_namespace(key.namespace)
        super_x = self.super_store("Namespace").get("", name)
        account = self.super_store("ServiceAccount").list(name)
        if (
            tenant_x is not None
            and super_x is not None
            and not super_x.deleting
            and account
            and self.is_twin(super_x, tenant_x.uid)
            and is_at_level(super_x.labels, self.view.policy)
        ):
            return super_x
        self.wait_for(self.key("Namespace", "", key.namespace), key)
        raise Wait("the super namespace is not there yet")

    @property
    def holds_deletes(self) -> bool:
        """Whether deletes downward wait for a word of the super admin."""
        return self.brake.is_held

    @property
    def exposes_all(self) -> bool:
        """Whether the tenant sees every node, and not only those that its pods run on."""
        return self.view.policy.nodes.expose == "all"

    def now(self) -> float:
        """Return the monotonic time."""
        return asyncio.get_running_loop().time()

    # Waiting and waking.

    def wait_for(self, dependency: Key, key: Key) -> None:
        """Have a key worked on again when something happens to another one."""
        self.reminders.wait_for(dependency, key)

    def wake(self, dependency: Key) -> None:
        """Have everybody look again who waits for a key."""
        for key in self.reminders.waiting_for(dependency):
            self.queue.add(key)

    def add(self, key: Key, *, low: bool = False) -> None:
        """Queue a key once the session is ready; before that everything is queued at the end."""
        if self.is_ready:
            self.queue.add(key, low=low)

    def look_at_store(self) -> None:
        """Queue the key that writes the conditions."""
        self.add(self.key(STORE, "", ""))

    def doubt_store(self) -> None:
        """Something is absent from a list that was there: have the store judged."""
        self.store_in_doubt = True
        self.look_at_store()

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

    def mark_store_soon(self) -> None:
        """Something went down: have the store's epoch counted up before long."""
        if self.brake.is_count_due:
            self.queue.add_after(self.key(STORE, "", ""), SETTLE_SECONDS, low=True)

    # Working.

    def began(self) -> None:
        """Count one key in hand, so that disengaging can wait for it; `ended` has to follow."""
        self._in_flight += 1

    def ended(self) -> None:
        """Count one key less in hand."""
        self._in_flight -= 1
        if self._idle is not None and not self._in_flight:
            self._idle.set()

    async def drained(self) -> None:
        """Stop taking work and wait until nothing is in hand."""
        self.is_ready = False
        self.queue.drop_group(self.tenant.uid)
        if self._in_flight:
            self._idle = asyncio.Event()
            await self._idle.wait()

    def restart(self) -> None:
        """End this session, so that a new one starts with empty hands."""
        self._restart.set()

    async def run(self) -> None:
        """Follow the tenant until cancelled; returns when a restart was asked for."""
        async with self.tenant_client, asyncio.TaskGroup() as group:
            await self._first_answer()
            tasks = await self._watch(group)
            await self.brake.engage(twin_uid=self._system_twin(), stamps=self._stamps())
            self.is_ready = True
            for key in self.all_keys():
                self.queue.add(key, low=True)
            _log.info("tenant.engaged", tenant=self.tenant.root, pods=len(self.stores["Pod"]))
            tasks.append(group.create_task(self._watch_health(), name="health"))
            await self._restart.wait()
            await self.drained()
            for task in tasks:
                task.cancel()

    async def _first_answer(self) -> None:
        """Wait for a control plane that is only starting; raises what is wrong after a while.

        Eight watches that each back off would come in step long after the API is ready.
        """
        backoff = Backoff(base=0.2, ceiling=1.5)
        gives_up = self.now() + FIRST_ANSWER_SECONDS
        while True:
            try:
                # Also waits for our role in the tenant, and past the breaker on purpose.
                path = f"/api/v1/namespaces/{SYSTEM_NAMESPACE}"
                await self.tenant_client.raw("GET", path, deadline=DEADLINE_SECONDS)
            except errors.KubeError:
                if self.now() > gives_up:
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

    def _system_twin(self) -> str:
        """Return the UID of kube-system that its super namespace records, if there is one."""
        name = self.view.super_namespace(SYSTEM_NAMESPACE)
        entry = self.super_store("Namespace").get("", name)
        owner = ownership.owner_of({"annotations": entry.annotations}) if entry else None
        return owner.uid if owner is not None and owner.vc_uid == self.tenant.uid else ""

    def _stamps(self) -> Iterable[int]:
        """Yield the tenant revisions that super objects record."""
        below, uid = self.super_cluster, self.tenant.uid
        owned = (entry for _, entry in below.owned_by(uid))
        for entry in chain(owned, below.volumes.index(BY_TENANT, uid)):
            yield revision_of(entry.annotations.get(marks.STORE_REVISION, ""))

    def _highest_revision(self) -> int:
        return max(reflector.revision for reflector in self._reflectors)

    async def _watch_health(self) -> None:
        """Notice a tenant that cannot be followed any more, and its return."""
        silent_since: float | None = None
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
                silent_since = self.now()
            is_long = silent_since is not None and self.now() - silent_since >= UNREACHABLE_SECONDS
            if is_long != bool(self.problem):
                self.problem = problem if is_long else ""
                self.look_at_store()
            self._notice_refusals()

    def _notice_refusals(self) -> None:
        """Say which writes the tenant keeps refusing, try a few again, and all when it ends."""
        refusing = self.tenant_client.refused_writes.problem()
        if refusing:
            self.queue.hurry(self.tenant.uid, limit=_CANARIES)
        elif self.refusing:
            self.queue.hurry(self.tenant.uid, forget=True)
        parked = self.fuse.parked()
        if (refusing, parked) != (self.refusing, self._parked):
            self.refusing, self._parked = refusing, parked
            self.look_at_store()

    def _silence(self) -> str:
        """Return why the tenant cannot be followed: one broken watch is enough."""
        return next((r.problem for r in self._reflectors if r.problem), "")

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

    def all_keys(self) -> Iterable[Key]:
        """Yield every key that may have work."""
        return chain(self._roll.keys(), self.reminders.out_of_sight())

    def _add_all(self, kind: str) -> None:
        """The tenant has begun to serve a mirrored kind."""
        for key in self._roll.of_mirror(kind):
            self.add(key, low=True)
