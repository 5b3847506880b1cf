"""One tenant's connection: its client, its caches, and what is remembered between two keys.

Owns the tenant's reflectors and what their events wake. Cancelling `run` removes every trace. Must
not decide anything about single kinds. Hazard: nothing is worked on before all caches of the tenant
are complete and its store has been judged; `is_ready` says so.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterable

import structlog

from kubeio import errors
from kubeio.backoff import Backoff
from kubeio.endpoint import Endpoint
from kubeio.queue import FairQueue
from kubeio.reflector import Reflector
from kubeio.store import Entry, Store
from kubeio.worker import Wait
from syncer.brake import SETTLE_SECONDS, SYSTEM_NAMESPACE, Brake
from syncer.breaker import DEADLINE_SECONDS, TenantClient
from syncer.deletion import Deletions
from syncer.expectations import Expectations, Side, revision_of
from syncer.fuse import Fuse
from syncer.keys import ADDRESS, NODE, STORE, Key
from syncer.notices import Notices
from syncer.pod_index import PodIndex
from syncer.reminders import Reminders
from syncer.special.addresses import is_in_slice
from syncer.special.events import Budget
from syncer.supercluster import SuperCluster
from syncer.view import Slice, TenantView
from tenancy import marks, ownership
from tenancy.resources import (
    CONFIG_MAPS,
    IP_ADDRESSES,
    NAMESPACES,
    NODES,
    PODS,
    SECRETS,
    SERVICE_ACCOUNTS,
    SERVICES,
    Resource,
)
from tenancy.specs import VirtualCluster

USER_AGENT = "virtual-cluster-syncer"
FIRST_ANSWER_SECONDS = 60.0
"""How long a new tenant's API is waited for before the condition says so."""
UNREACHABLE_SECONDS = 15.0
"""How long a watch may be broken before the condition says so."""
_LOOK_SECONDS = 5.0

_SECRET_TYPES = ",".join(
    f"type!={kind}" for kind in ("helm.sh/release.v1", "kubernetes.io/service-account-token")
)

WATCHED: tuple[tuple[Resource, str, str], ...] = (
    (NAMESPACES, "", ""),
    (PODS, "", ""),
    (CONFIG_MAPS, "", ""),
    (SECRETS, "", _SECRET_TYPES),
    (SERVICES, "", ""),
    (SERVICE_ACCOUNTS, "", ""),
    (NODES, f"{marks.VIRTUAL_NODE}=true", ""),
    (IP_ADDRESSES, f"{marks.RESERVED_ADDRESS}=true", ""),
)
"""What is watched in each tenant: resource, label selector, field selector."""

SYNCED_KINDS = ("Namespace", "Pod", "ConfigMap", "Secret", "Service")
"""Kinds whose tenant objects have keys of their own."""

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
    ) -> None:
        self.cluster = cluster
        self.tenant = cluster.tenant
        self.super_cluster = super_cluster
        self.super_client = super_cluster.client
        self.queue = queue
        self.tenant_client = TenantClient(endpoint, user_agent=USER_AGENT)
        self.stores = {resource.kind: Store() for resource, _, _ in WATCHED}
        self.pods = PodIndex()
        self.view = TenantView(
            tenant=self.tenant,
            spec=cluster.spec,
            slice=tenant_slice,
            stores=self.stores,
            references=self.pods.references,
        )
        self._reflectors = tuple(
            Reflector(
                self.tenant_client,
                resource,
                self.stores[resource.kind],
                label_selector=labels,
                field_selector=fields,
                side="tenant",
            )
            for resource, labels, fields in WATCHED
        )
        self.expectations = Expectations()
        self.fuse = Fuse()
        self.notices = Notices(self.tenant_client)
        self.brake = Brake(
            tenant=self.tenant,
            tenant_client=self.tenant_client,
            super_client=self.super_client,
            revision=self._highest_revision,
            judged=self.look_at_store,
        )
        self.deletions = Deletions(
            brake=self.brake,
            tenant_client=self.tenant_client,
            super_client=self.super_client,
            expectations=self.expectations,
        )
        self.event_budget = Budget()
        self.reminders = Reminders(self.now)
        self.is_ready = False
        self.problem = ""
        """Why the tenant cannot be reached; empty while it can."""
        self.store_in_doubt = False
        """Whether something happened that another store would explain."""
        self._in_flight = 0
        self._idle = asyncio.Event()
        self._idle.set()
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
        ):
            return super_x
        self.wait_for(self.key("Namespace", "", key.namespace), key)
        raise Wait("the super namespace is not there yet")

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

    def mark_store_soon(self) -> None:
        """Something went down: have the store's epoch counted up before long."""
        if self.brake.is_count_due:
            self.queue.add_after(self.key(STORE, "", ""), SETTLE_SECONDS, low=True)

    # Working.

    @contextlib.asynccontextmanager
    async def working(self) -> AsyncIterator[None]:
        """Count one key in hand, so that disengaging can wait for it."""
        self._in_flight += 1
        self._idle.clear()
        try:
            yield
        finally:
            self._in_flight -= 1
            if not self._in_flight:
                self._idle.set()

    async def drained(self) -> None:
        """Stop taking work and wait until nothing is in hand."""
        self.is_ready = False
        self.queue.drop_group(self.tenant.uid)
        await self._idle.wait()

    def restart(self) -> None:
        """End this session, so that a new one starts with empty hands."""
        self._restart.set()

    async def run(self) -> None:
        """Follow the tenant until cancelled; returns when a restart was asked for."""
        async with self.tenant_client, asyncio.TaskGroup() as group:
            await self._first_answer()
            tasks = [
                group.create_task(reflector.run(), name=f"{self.tenant.root}-{reflector.resource}")
                for reflector in self._reflectors
            ]
            await self._first_lists()
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

    def _system_twin(self) -> str:
        """Return the UID of kube-system that its super namespace records, if there is one."""
        name = self.view.super_namespace(SYSTEM_NAMESPACE)
        entry = self.super_store("Namespace").get("", name)
        owner = ownership.owner_of({"annotations": entry.annotations}) if entry else None
        return owner.uid if owner is not None and owner.vc_uid == self.tenant.uid else ""

    def _stamps(self) -> Iterable[int]:
        """Yield the tenant revisions that super objects record."""
        for _, entry in self.super_cluster.owned_by(self.tenant.uid):
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
            problem = self._silence()
            if not problem:
                silent_since = None
            elif silent_since is None:
                silent_since = self.now()
            is_long = silent_since is not None and self.now() - silent_since >= UNREACHABLE_SECONDS
            if is_long != bool(self.problem):
                self.problem = problem if is_long else ""
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
        """Yield every key that may have work: of both sides, as neither alone knows all."""
        for kind in SYNCED_KINDS:
            for entry in self.stores[kind].list():
                yield self.key(kind, entry.namespace, entry.name)
        for kind, entry in self.super_cluster.owned_by(self.tenant.uid):
            key = self.super_cluster.key_of(kind, entry)
            if key is not None:
                yield key
        for name in {*self.pods.nodes(), *self.view.nodes()}:
            yield self.key(NODE, "", name)
        for store in (self.stores["IPAddress"], self.super_cluster.addresses):
            for entry in store.list():
                if is_in_slice(entry.name, self.view):
                    yield self.key(ADDRESS, "", entry.name)
        yield self.key(STORE, "", "")
