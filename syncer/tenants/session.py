"""One tenant in one super cluster: what is remembered between two keys of it.

Owns the lookups that flows share, and what its keys tell each other. Must not decide anything about
single kinds. What is the tenant's as a whole, in whatever super cluster it has pods, is its link's;
what flows use of that stands here as well. Hazard: nothing is worked on before the link is ready.
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
    """One engaged tenant in one super cluster."""

    def __init__(
        self,
        link: Link,
        super_cluster: SuperCluster,
        *,
        tenant_slice: Slice,
        policy: TenantPolicySpec = BASELINE,
        target: Target | None = None,
    ) -> None:
        """`target` is where the super cluster came from; None for the home cluster."""
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
        """Name of its share of the queue."""
        self.pods = PodIndex(names_them=link.seats.is_split)
        shown = self.stores["Node"] if target is None else Store()  # there they are not shown
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
        """Tell whether a super object is the twin of the tenant object with this UID."""
        return self.super_cluster.is_twin(entry, vc_uid=self.tenant.uid, uid=uid)

    def super_side(self, entry: Entry | None, namespace: str | None = None) -> SuperSide | None:
        """Return what deciding needs of a super object, as `decide.super_side` does."""
        return decide.super_side(entry, namespace, registration=self.tenant.registration)

    def has_twin(self, pod: Entry) -> bool:
        """Tell whether the twin of a tenant pod is there, as far as the cache tells."""
        below = self.view.super_namespace(pod.namespace)
        return self.is_twin(self.super_store("Pod").get(below, pod.name), pod.uid)

    def shown_node(self, node: str) -> str:
        """Return what the tenant calls the node of a super pod."""
        return node if self.target is None else target_node.name_of(self.name)

    def concerns(self, kind: str, entry: Entry) -> bool:
        """Tell whether an object of the tenant is needed in this super cluster."""
        return self.target is None or target_scope.needs(
            kind, entry, self.view, self.pods, self.super_store("Pod")
        )

    def concerns_here(self, kind: str, entry: Entry) -> bool:
        """As `concerns`, of pods as well."""
        if kind == "Pod":
            return self.pods.has(*entry.key) or self.link.seats.of(entry) == self.name
        return self.concerns(kind, entry)

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
        if self.target is not None:  # there only what is needed is there
            self.queue.add(space, first=True)
        raise Wait("the super namespace is not there yet")

    @property
    def is_away(self) -> bool:
        """Whether its super cluster, a target, does not answer."""
        return self.target is not None and bool(self.target.problem)

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
        self.waiters.wait_for(dependency, key)

    @contextmanager
    def leaving(self, key: Key, super_x: Entry) -> Iterator[None]:
        """Take a twin away: who comes to need it meanwhile waits, and is woken after.

        Unless a Wait says that it stays, it counts as gone until the cache shows what became of it,
        or for a while: the answer to a delete may be lost.
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
        """Tell whether a twin that the cache shows is being deleted, or was a moment ago."""
        return key in self._leaving or self.expectations.is_behind(Side.SUPER, key, super_x)

    def wake(self, dependency: Key) -> None:
        """Have everybody look again who waits for a key."""
        for key in self.waiters.waiting_for(dependency):
            self.queue.add(key, low=key.kind == EVENT)

    def add(self, key: Key, *, low: bool = False) -> None:
        """Queue a key once the session is ready; before that everything is queued at the end."""
        if self.is_ready:
            self.queue.add(key, low=low)

    def _away(self, endpoint: str) -> Away:
        """Return what pods in a target have instead of the tenant's own addresses."""
        assert self.target is not None  # noqa: S101 - asked only then
        return Away(endpoint=endpoint, resolvers=self.target.spec.network.resolvers)

    # Working.

    def start(self) -> None:
        """Work from now on, and on everything once."""
        self.report_missing_pods()  # before anything is concluded
        self.is_ready = True
        for key in self.all_keys():
            self.queue.add(key, low=True)

    def report_missing_pods(self) -> None:
        """Report to its target which pods should run there and do not; the caches are complete.

        What was there when somebody else looked last, nobody remembers.
        """
        if self.target is not None:
            missing = pod_loss_guard.missing_uids(
                self.stores["Pod"].list(), shown_node=self.shown_node(""), has_twin=self.has_twin
            )
            self.target.muster.called(self.tenant.uid, missing)

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
        self.queue.drop_group(self.group)
        if self._in_flight:
            self._idle = asyncio.Event()
            await self._idle.wait()

    # Everything.

    def all_keys(self) -> Collection[Key]:
        """Return every key that may have work, each once: most are known on both sides."""
        keys = chain(self._roll.keys(), self.lost_twins.out_of_sight(), self.unseated())
        return dict.fromkeys(keys)

    def unseated(self) -> Iterable[Key]:
        """Yield the keys of the pods that are to be placed."""
        if self.target is None and self.link.seats.is_split:
            for entry in self.stores["Pod"].list():
                if self.link.seats.of(entry) == assignments.NOWHERE:
                    yield self.key(PLACEMENT, *entry.key)

    def is_served(self, kind: str) -> None:
        """Take note that the tenant has begun to serve a mirrored kind."""
        for key in self._roll.of_mirror(kind):
            self.add(key, low=True)

    def stamps(self) -> Iterable[int]:
        """Yield the tenant revisions that super objects record."""
        for entry in self.super_cluster.written_for(self.tenant.uid):
            yield revision_of(entry.annotations.get(wellknown.STORE_REVISION, ""))


Sessions = Mapping[str, Mapping[str, Session]]
"""By the name of the super cluster, and there by the UID of the VirtualCluster."""
