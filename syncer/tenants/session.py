"""Session of one tenant with one super cluster: shared lookups, and memory between reconciles.

Must not decide about single kinds. State of the tenant as a whole, in all super clusters, belongs
to its connection. The parts that reconcilers use are available here as well. Hazard: no key may be
reconciled before the connection is ready. Until then the caches are incomplete.
"""

import asyncio
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from itertools import chain

from kubeio.cache.store import Entry, Store
from kubeio.controller.worker import Wait
from kubeio.resource_version import revision_of
from syncer.clusters.super_cluster import SuperCluster
from syncer.clusters.target_cluster import Target
from syncer.model import decide
from syncer.model.decide import SuperSide
from syncer.model.keys import EVENT, PLACEMENT, Key, group_of
from syncer.model.pod_index import PodIndex
from syncer.model.tenant_view import Away, Slice, TenantView
from syncer.placement import assignments
from syncer.rules.events import Budget
from syncer.rules.namespaces import is_at_level
from syncer.rules.placement import target_node
from syncer.rules.pods.environment import Linked
from syncer.safety import pod_loss_guard
from syncer.safety.expectations import Expectations, Side
from syncer.safety.hot_loop_guard import Fuse
from syncer.safety.proven_deletes import Deletions
from syncer.tenants import target_scope
from syncer.tenants.all_keys import Roll
from syncer.tenants.connection import Link
from syncer.tenants.grace_timers import GraceTimers
from syncer.tenants.lost_twins import LostTwins
from syncer.tenants.metrics import Figures
from syncer.tenants.node_index import NodeIndex
from syncer.tenants.sanitizer import Scrubber
from syncer.tenants.session_memory import Reminders
from syncer.tenants.waiters import Waiters
from tenancy import wellknown
from tenancy.policies import BASELINE, TenantPolicySpec


class Session:
    """One tenant in one super cluster."""

    def __init__(
        self,
        link: Link,
        super_cluster: SuperCluster,
        *,
        tenant_slice: Slice,
        policy: TenantPolicySpec = BASELINE,
        target: Target | None = None,
    ) -> None:
        """`target` is the target of the super cluster, or None for the home cluster."""
        self.link = link
        self.name = super_cluster.name
        self.target = target
        self.tenant = replace(link.tenant, registration=super_cluster.registration)
        self.queue = link.queue
        self.tenant_client = link.client
        self.stores = link.stores
        self.notices = link.notices
        self.brake = link.brake
        self.super_cluster = super_cluster
        self.super_client = super_cluster.client
        self.group = group_of(self.key("", "", ""))
        """Name of the session's group in the queue."""
        self.pods = PodIndex(names_them=link.seats.is_split)
        shown = self.stores["Node"] if target is None else Store()  # a target's nodes are not shown
        self.nodes = NodeIndex(shown, super_cluster.nodes, policy.nodes.view)
        self.view = TenantView(
            tenant=self.tenant,
            spec=link.cluster.spec,
            slice=tenant_slice,
            stores=self.stores,
            references=self.pods.references,
            policy=policy,
            below=super_cluster.read_by_builders,
            super_domain=super_cluster.domain,
            ranges=super_cluster.ranges.current,
            away=None if target is None else partial(self._away, link.cluster.status.endpoint),
        )
        self._roll = Roll(
            self.view, self.pods, super_cluster, link.home, concerns=self.concerns_here
        )
        self.figures = Figures(self.queue.age)
        self.expectations = Expectations(answered=self.figures.answered)
        self.fuse = Fuse()
        self.deletions = Deletions(
            brake=self.brake,
            tenant_client=self.tenant_client,
            super_client=self.super_client,
            expectations=self.expectations,
            registration=self.tenant.registration,
        )
        self.event_budget = Budget()
        self.scrubber = Scrubber(self.tenant, super_cluster, link.home, self.stores["Node"])
        self.reminders = Reminders(self.now)
        self.waiters = Waiters()
        self.grace_timers = GraceTimers(self.now)
        self.lost_twins = LostTwins()
        self.linked = Linked()
        self._leaving: set[Key] = set()
        self.is_ready = False
        self._in_flight = 0
        self._idle: asyncio.Event | None = None

    # Names and lookups.

    def key(self, kind: str, namespace: str, name: str) -> Key:
        """Return the key of one of this tenant's objects."""
        return Key(self.tenant.uid, self.super_cluster.name, kind, namespace, name)

    def super_store(self, kind: str) -> Store:
        """Return the cache of super objects of a kind."""
        return self.super_cluster.stores[kind]

    def is_twin(self, entry: Entry | None, uid: str) -> bool:
        """Return True if a super object is the twin of the tenant object with this UID."""
        return self.super_cluster.is_twin(entry, vc_uid=self.tenant.uid, uid=uid)

    def super_side(self, entry: Entry | None, namespace: str | None = None) -> SuperSide | None:
        """Return the facts of a super object for a decision, as `decide.super_side` does."""
        return decide.super_side(entry, namespace, registration=self.tenant.registration)

    def has_twin(self, pod: Entry) -> bool:
        """Return True if the cache has the twin of a tenant pod."""
        below = self.view.super_namespace(pod.namespace)
        return self.is_twin(self.super_store("Pod").get(below, pod.name), pod.uid)

    def shown_node(self, node: str) -> str:
        """Return the tenant's name for the node of a super pod."""
        return node if self.target is None else target_node.name_of(self.name)

    def concerns(self, kind: str, entry: Entry) -> bool:
        """Return True if this super cluster needs an object of the tenant."""
        return self.target is None or target_scope.needs(
            kind, entry, self.view, self.pods, self.super_store("Pod")
        )

    def concerns_here(self, kind: str, entry: Entry) -> bool:
        """Return the same as `concerns`, for pods as well."""
        if kind == "Pod":
            return self.pods.has(*entry.key) or self.link.seats.of(entry) == self.name
        return self.concerns(kind, entry)

    def is_behind(self, key: Key, tenant_x: Entry | None, super_x: Entry | None) -> bool:
        """Return True if a cache does not show a write of the syncer for a key yet."""
        awaited = self.expectations
        return awaited.is_behind(Side.TENANT, key, tenant_x) or awaited.is_behind(
            Side.SUPER, key, super_x
        )

    def ready_namespace(self, key: Key) -> Entry:
        """Return the super namespace of a key's namespace. Raises Wait until it can be used."""
        tenant_x = self.stores["Namespace"].get("", key.namespace)
        name = self.view.super_namespace(key.namespace)
        super_x = self.super_store("Namespace").get("", name)
        account = self.super_store("ServiceAccount").list(name)
        space = self.key("Namespace", "", key.namespace)
        if (
            tenant_x is not None
            and super_x is not None
            and not (super_x.deleting or self.is_leaving(space, super_x))
            and account
            and self.is_twin(super_x, tenant_x.uid)
            and is_at_level(super_x.labels, self.view.policy)
        ):
            return super_x
        self.wait_for(space, key)
        if self.target is not None:  # a target has needed namespaces only
            self.queue.add(space, first=True)
        raise Wait("the super namespace is not there yet")

    @property
    def is_away(self) -> bool:
        """Whether the super cluster, a target, does not answer."""
        return self.target is not None and bool(self.target.problem)

    @property
    def holds_deletes(self) -> bool:
        """Whether deletes in the super cluster wait for a platform administrator."""
        return self.brake.is_held

    @property
    def exposes_all(self) -> bool:
        """Whether the tenant sees every node, not only the nodes of its pods."""
        return self.view.policy.nodes.expose == "all"

    def now(self) -> float:
        """Return the monotonic time in seconds."""
        return asyncio.get_running_loop().time()

    # Waiting keys.

    def wait_for(self, dependency: Key, key: Key) -> None:
        """Queue a key again when another key changes."""
        self.waiters.wait_for(dependency, key)

    @contextmanager
    def leaving(self, key: Key, super_x: Entry) -> Iterator[None]:
        """Delete a twin. Keys that need it meanwhile wait, and are woken afterwards.

        The twin counts as deleted until the cache shows its new state, or until a timeout, because
        the answer to a delete may be lost. If the block raises Wait, the twin stays.
        """
        self._leaving.add(key)
        is_sent = True
        try:
            yield
        except Wait:
            is_sent = False
            raise
        finally:
            self._leaving.discard(key)
            if is_sent and not self.expectations.is_behind(Side.SUPER, key, super_x):
                self.expectations.deleted(Side.SUPER, key, super_x, taken=True)
            self.wake(key)

    def is_leaving(self, key: Key, super_x: Entry | None) -> bool:
        """Return True if a twin in the cache is being deleted or was deleted a moment ago."""
        return key in self._leaving or self.expectations.is_behind(Side.SUPER, key, super_x)

    def wake(self, dependency: Key) -> None:
        """Queue every key that waits for another key."""
        for key in self.waiters.waiting_for(dependency):
            self.queue.add(key, low=key.kind == EVENT)

    def add(self, key: Key, *, low: bool = False) -> None:
        """Queue a key if the session is ready. `start` queues all keys later."""
        if self.is_ready:
            self.queue.add(key, low=low)

    def _away(self, endpoint: str) -> Away:
        """Return the addresses that replace the tenant's own for pods in a target."""
        assert self.target is not None  # noqa: S101 - asked only then
        return Away(endpoint=endpoint, resolvers=self.target.spec.network.resolvers)

    # Work.

    def start(self) -> None:
        """Start to reconcile, beginning with every key."""
        self.report_missing_pods()  # before any conclusion
        self.is_ready = True
        for key in self.all_keys():
            self.queue.add(key, low=True)

    def report_missing_pods(self) -> None:
        """Report the pods that should run in the target and do not. The caches must be complete.

        Pods that an earlier process saw are not remembered.
        """
        if self.target is not None:
            missing = pod_loss_guard.missing_uids(
                self.stores["Pod"].list(), shown_node=self.shown_node(""), has_twin=self.has_twin
            )
            self.target.muster.called(self.tenant.uid, missing)

    def began(self) -> None:
        """Count one more key in work, which `drained` waits for. `ended` must follow."""
        self._in_flight += 1

    def ended(self) -> None:
        """Count one key less in work."""
        self._in_flight -= 1
        if self._idle is not None and not self._in_flight:
            self._idle.set()

    async def drained(self) -> None:
        """Stop accepting work and wait until no key is in work."""
        self.is_ready = False
        self.queue.drop_group(self.group)
        if self._in_flight:
            self._idle = asyncio.Event()
            await self._idle.wait()

    # All keys.

    def all_keys(self) -> Collection[Key]:
        """Return every key that may have work, each once. Most are known on both sides."""
        keys = chain(self._roll.keys(), self.lost_twins.out_of_sight(), self.unseated())
        return dict.fromkeys(keys)

    def unseated(self) -> Iterable[Key]:
        """Yield the keys of the pods without an assigned cluster."""
        if self.target is None and self.link.seats.is_split:
            for entry in self.stores["Pod"].list():
                if self.link.seats.of(entry) == assignments.NOWHERE:
                    yield self.key(PLACEMENT, *entry.key)

    def is_served(self, kind: str) -> None:
        """Queue the keys of a mirrored kind that the tenant now serves."""
        for key in self._roll.of_mirror(kind):
            self.add(key, low=True)

    def stamps(self) -> Iterable[int]:
        """Yield the tenant revisions that super objects record."""
        for entry in self.super_cluster.written_for(self.tenant.uid):
            yield revision_of(entry.annotations.get(wellknown.STORE_REVISION, ""))


Sessions = Mapping[str, Mapping[str, Session]]
"""By name of the super cluster, then by UID of the VirtualCluster."""
