"""Session of one tenant with one super cluster: shared lookups, and memory between reconciles.

Must not decide about single kinds. State of the tenant as a whole, in all super clusters, belongs
to its connection. The parts that reconcilers use are available here as well. Hazard: no key may be
reconciled before the connection is ready. Until then the caches are incomplete.
"""

import asyncio
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from itertools import chain

from kubeio.cache.store import Entry, Store
from kubeio.controller.worker import NotReadyYet
from kubeio.resource_version import parse_revision
from syncer.clusters.super_cluster import SuperCluster
from syncer.model import decide
from syncer.model.decide import SuperState
from syncer.model.keys import (
    ASSIGNMENT,
    DEFAULT_POLICY,
    EVENT,
    TOKEN,
    Key,
    build_group,
)
from syncer.model.pod_index import PodIndex
from syncer.model.super_cidrs import CidrAddress, CidrSet
from syncer.model.tenant_view import ServiceCidr, TargetNetwork, TenantView
from syncer.rules.configuration.service_variables import ServiceVariables
from syncer.rules.events import EventBudget
from syncer.rules.namespaces import has_security_level
from syncer.rules.network import default_policies
from syncer.rules.network.indexes.node_ports import NodePorts
from syncer.rules.network.indexes.pod_addresses import PodAddresses
from syncer.rules.network.policy_selectors import PolicySelectors
from syncer.rules.registry import SyncedKind
from syncer.safety.expectations import ClusterSide, Expectations
from syncer.safety.guarded_writer import GuardedWriter, ObjectReader
from syncer.safety.hot_loop_guard import HotLoopGuard
from syncer.safety.parked_differences import ParkedDifferences
from syncer.safety.proven_deletes import ProvenDeletes
from syncer.safety.synced_states import SyncedStates
from syncer.tenants.all_keys import AllKeys
from syncer.tenants.connection import TenantConnection
from syncer.tenants.memory.event_memory import EventMemory
from syncer.tenants.memory.grace_timers import GraceTimers
from syncer.tenants.memory.keys_in_work import KeysInWork
from syncer.tenants.memory.lost_twins import LostTwins
from syncer.tenants.memory.node_memory import NodeMemory
from syncer.tenants.memory.pod_memory import PodMemory
from syncer.tenants.memory.waiters import Waiters
from syncer.tenants.metrics import TenantMetrics
from syncer.tenants.node_index import NodeIndex
from syncer.tenants.sanitizer import Sanitizer
from tenancy import names, wellknown
from tenancy.policies import BASELINE_POLICY, TenantPolicySpec
from tenancy.resources import SECRETS


class Session:
    """One tenant in one super cluster, which is the home cluster unless a subclass differs."""

    is_home = True
    """Whether the super cluster is the home cluster."""

    def __init__(
        self,
        connection: TenantConnection,
        super_cluster: SuperCluster,
        *,
        tenant_slice: ServiceCidr,
        policy: TenantPolicySpec = BASELINE_POLICY,
    ) -> None:
        """`tenant_slice` is the tenant's part of the service range."""
        self.connection = connection
        self.name = super_cluster.name
        self.tenant = replace(connection.tenant, super_cluster_uid=super_cluster.registration)
        self.queue = connection.queue
        self.tenant_client: ObjectReader = connection.client
        self.stores = connection.stores
        self.event_recorder = connection.event_recorder
        self.store_guard = connection.store_guard
        self.quota = connection.quota
        self.super_cluster = super_cluster
        self.kinds = {**super_cluster.kinds, **self._get_ruled_kinds(connection)}
        self.ruled_mirrors = connection.ruled.mirrors if self.is_home else {}
        self.super_client: ObjectReader = super_cluster.client
        self.group = build_group(self.build_key("", "", ""))
        """Name of the session's group in the queue."""
        self.pods = PodIndex(tracks_names=connection.assignments.is_split)
        self.node_index = NodeIndex(
            self._list_shown_nodes(), super_cluster.nodes, policy.nodes.view
        )
        self.pod_addresses = PodAddresses()
        self.node_ports = NodePorts()
        self.view = TenantView(
            tenant=self.tenant,
            spec=connection.cluster.spec,
            service_range=tenant_slice,
            stores=self.stores,
            references=self.pods.references,
            policy=policy,
            super_stores=super_cluster.builder_stores,
            copied_kinds={
                kind: row.resource for kind, row in self._get_ruled_kinds(connection).items()
            },
            super_domain=super_cluster.domain,
            get_super_cidrs=super_cluster.cidr_tracker.get_current,
            is_own_pod=self._is_own_pod,
            list_node_ports=self.node_ports.list_ports,
            get_super_service_range=super_cluster.get_service_range,
            get_host_stores=connection.home_cluster.ruled.get_host_stores,
            get_shown_source=connection.home_cluster.ruled.get_source,
            get_target_network=self._get_network_source(),
        )
        self._all_keys = AllKeys(
            self.view,
            self.pods,
            super_cluster,
            connection.home_cluster,
            kinds=self.kinds,
            mirrors=self.ruled_mirrors,
            is_concerned=self.is_concerned_here,
        )
        if self.is_home:  # targets show no classes
            self.quota.use_overheads(self.view.get_overhead)
        self.metrics = TenantMetrics(self.queue.get_age)
        self.expectations = Expectations(on_write=self.metrics.observe_write)
        self.hot_loop_guard = HotLoopGuard()
        self.parked = ParkedDifferences(
            self.hot_loop_guard, self.event_recorder, connection.enqueue_status
        )
        self.writer = GuardedWriter(
            tenant_client=connection.client,
            super_client=super_cluster.client,
            expectations=self.expectations,
            hot_loop_guard=self.hot_loop_guard,
            store_guard=self.store_guard,
            parked=self.parked,
            quota=connection.quota,
            on_twin_written=connection.schedule_epoch,
        )
        self.proven_deletes = ProvenDeletes(
            store_guard=self.store_guard,
            tenant_client=self.tenant_client,
            super_client=self.super_client,
            writer=self.writer,
            parked=self.parked,
            registration=self.tenant.super_cluster_uid,
        )
        self.event_budget = EventBudget()
        self.sanitizer = Sanitizer(
            self.tenant, super_cluster, connection.home_cluster, self.stores["Node"]
        )
        self.event_memory = EventMemory(self.now)
        self.node_memory = NodeMemory(self.now)
        self.pod_memory = PodMemory()
        self.waiters = Waiters()
        self.grace_timers = GraceTimers(self.now)
        self.lost_twins = LostTwins()
        self.service_variables = ServiceVariables()
        self.policy_selectors = PolicySelectors()
        self.synced_states = SyncedStates()
        self._twins_in_deletion: set[Key] = set()
        self.is_ready = False
        self.keys_in_work = KeysInWork()

    # Names and lookups.

    def build_key(self, kind: str, namespace: str, name: str) -> Key:
        """Return the key of one of this tenant's objects."""
        return Key(self.tenant.uid, self.super_cluster.name, kind, namespace, name)

    def _get_ruled_kinds(self, connection: TenantConnection) -> Mapping[str, SyncedKind]:
        """Return the kinds that SyncRules declare. Targets have none."""
        return connection.ruled.down if self.is_home else {}

    def is_served(self, kind: str) -> bool:
        """Return whether both caches of a kind are complete. Only a SyncRule's may not be."""
        if kind not in self.connection.ruled.down or not self.is_home:
            return True
        store = self.super_cluster.stores.get(kind)
        return self.stores[kind].synced and store is not None and store.synced

    def is_removed_kind(self, kind: str) -> bool:
        """Return whether copies of a kind must go, because its SyncRule no longer applies."""
        return self.is_home and self.connection.home_cluster.ruled.deletes_copies(kind)

    def get_super_store(self, kind: str) -> Store:
        """Return the cache of super objects of a kind."""
        return self.super_cluster.stores[kind]

    def is_twin(self, entry: Entry | None, uid: str) -> bool:
        """Return True if a super object is the twin of the tenant object with this UID."""
        return self.super_cluster.is_twin(entry, vc_uid=self.tenant.uid, uid=uid)

    def build_super_state(
        self, entry: Entry | None, namespace: str | None = None
    ) -> SuperState | None:
        """Return the facts of a super object for a decision, as `decide.build_super_state` does."""
        return decide.build_super_state(
            entry, namespace, registration=self.tenant.super_cluster_uid
        )

    def has_twin(self, pod: Entry) -> bool:
        """Return True if the cache has the twin of a tenant pod."""
        below = self.view.get_super_namespace(pod.namespace)
        return self.is_twin(self.get_super_store("Pod").get(below, pod.name), pod.uid)

    def get_shown_node(self, node: str) -> str:
        """Return the tenant's name for the node of a super pod."""
        return node

    def get_status_node(self, node: str) -> str:
        """Return the node of a super pod as its status in the tenant may name it."""
        return node

    def is_concerned(self, kind: str, entry: Entry) -> bool:  # noqa: ARG002
        """Return True if this super cluster needs an object of the tenant."""
        return True

    def is_concerned_here(self, kind: str, entry: Entry) -> bool:
        """Return the same as `is_concerned`, for pods as well."""
        if kind == "Pod":
            return self.pods.has(*entry.key) or self.is_assigned_here(entry)
        return self.is_concerned(kind, entry)

    def is_assigned_here(self, pod: Entry) -> bool:
        """Return True if this super cluster is the assigned cluster of a pod."""
        return self.connection.assignments.get_cluster(pod) == self.name

    def is_behind(self, key: Key, tenant_x: Entry | None, super_x: Entry | None) -> bool:
        """Return True if a cache does not show a write of the syncer for a key yet."""
        awaited = self.expectations
        return awaited.is_behind(ClusterSide.TENANT, key, tenant_x) or awaited.is_behind(
            ClusterSide.SUPER, key, super_x
        )

    def get_ready_namespace(self, key: Key) -> Entry:
        """Return the super namespace of a key's namespace. Raises Wait until it can be used."""
        tenant_x = self.stores["Namespace"].get("", key.namespace)
        name = self.view.get_super_namespace(key.namespace)
        super_x = self.get_super_store("Namespace").get("", name)
        account = self.get_super_store("ServiceAccount").list(name)
        space = self.build_key("Namespace", "", key.namespace)
        if (
            tenant_x is not None
            and super_x is not None
            and not (super_x.deleting or self.is_leaving(space, super_x))
            and account
            and self.is_twin(super_x, tenant_x.uid)
            and has_security_level(super_x.labels, self.view.policy)
            and (
                key.kind not in (SECRETS.kind, TOKEN)
                or self.super_cluster.secrets.is_readable(name)
            )
        ):
            self._check_default_policies(key, name)
            return super_x
        self.add_waiter(space, key)
        self._request_namespace(space)
        raise NotReadyYet("the super namespace does not exist yet")

    def _is_own_pod(self, address: CidrAddress) -> bool:
        """Return whether a pod of the tenant has an address. A pod of the host has its node's."""
        nodes = self.super_cluster.cidr_tracker.get_current().nodes
        return self.pod_addresses.has(address) and not CidrSet(nodes).contains(address)

    def _check_default_policies(self, key: Key, super_namespace: str) -> None:
        """Raise Wait until the default network policies of a super namespace exist."""
        if not default_policies.is_enforced(self.view):
            return
        store = self.get_super_store("NetworkPolicy")
        for name in names.DEFAULT_POLICIES:
            if store.get(super_namespace, name) is None:
                awaited = self.build_key(DEFAULT_POLICY, key.namespace, name)
                self.add_waiter(awaited, key)
                self.queue.add(awaited, first=True)
                raise NotReadyYet("the default network policies do not exist yet")

    def build_policy_labels(self, namespace: str, labels: Mapping[str, str]) -> dict[str, str]:
        """Return the labels of a super pod that the default network policies select by."""
        policy = self.view.policy
        if policy.sync.network_policies != "Allow" or not default_policies.is_enforced(self.view):
            return {}
        return self.policy_selectors.build_labels(namespace, labels)

    @property
    def is_target_unreachable(self) -> bool:
        """Whether the super cluster is a target that does not answer."""
        return False

    @property
    def is_grant_withdrawn(self) -> bool:
        """Whether the objects of the tenant must leave the super cluster."""
        return False

    @property
    def holds_deletes(self) -> bool:
        """Whether deletes in the super cluster wait for a platform administrator."""
        return self.store_guard.is_held

    @property
    def exposes_all_nodes(self) -> bool:
        """Whether the tenant sees every node, not only the nodes of its pods."""
        return self.view.policy.nodes.expose == "all"

    def now(self) -> float:
        """Return the monotonic time in seconds."""
        return asyncio.get_running_loop().time()

    # Waiting keys.

    def add_waiter(self, dependency: Key, key: Key) -> None:
        """Queue a key again when another key changes."""
        self.waiters.add_waiter(dependency, key)

    @contextmanager
    def mark_leaving(self, key: Key, super_x: Entry) -> Iterator[None]:
        """Delete a twin. Keys that need it meanwhile wait, and are woken afterwards.

        The twin counts as deleted until the cache shows its new state, or until a timeout, because
        the answer to a delete may be lost. If the block raises Wait, the twin stays.
        """
        self._twins_in_deletion.add(key)
        is_sent = True
        try:
            yield
        except NotReadyYet:
            is_sent = False
            raise
        finally:
            self._twins_in_deletion.discard(key)
            if is_sent and not self.expectations.is_behind(ClusterSide.SUPER, key, super_x):
                self.expectations.expect_delete(ClusterSide.SUPER, key, super_x, taken=True)
            self.wake_waiters(key)

    def is_leaving(self, key: Key, super_x: Entry | None) -> bool:
        """Return True if a twin in the cache is being deleted or was deleted a moment ago."""
        return key in self._twins_in_deletion or self.expectations.is_behind(
            ClusterSide.SUPER, key, super_x
        )

    def wake_waiters(self, dependency: Key) -> None:
        """Queue every key that waits for another key."""
        for key in self.waiters.pop_waiters(dependency):
            self.queue.add(key, low=key.kind == EVENT)

    def enqueue(self, key: Key, *, low: bool = False) -> None:
        """Queue a key if the session is ready. `start` queues all keys later."""
        if self.is_ready:
            self.queue.add(key, low=low)

    # Differences of a target, see `syncer.tenants.target_session`.

    def _list_shown_nodes(self) -> Store:
        """Return the tenant's cache of the nodes that are shown one by one."""
        return self.stores["Node"]

    def _get_network_source(self) -> Callable[[], TargetNetwork] | None:
        """Return the source of addresses that replace the tenant's own, or None."""
        return None

    def _request_namespace(self, space: Key) -> None:
        """Queue a namespace that a key waits for. The home cluster has every namespace."""

    def check_losses_not_held(self) -> None:
        """Raise NotReadyYet while too many pods are missing at once, which only a target checks."""

    async def prove_missing(self, since: float) -> None:
        """Return when the absence of a pod, read later than `since`, is proved.

        In the home cluster the read itself is the proof.
        """

    # Work.

    def start(self) -> None:
        """Start to reconcile, beginning with every key."""
        self.report_missing_pods()  # before any conclusion
        self._fill_network_indexes()
        self.is_ready = True
        for key in self.list_all_keys():
            self.queue.add(key, low=True)

    def _fill_network_indexes(self) -> None:
        """Add the objects that the caches had before the session subscribed."""
        for entry in self.super_cluster.list_owned("Pod", self.tenant.uid):
            self.pod_addresses.set_pod(entry.key, entry)
        if "Service" in self.super_cluster.stores:  # a target has none
            for entry in self.super_cluster.list_owned("Service", self.tenant.uid):
                self.node_ports.set_service(entry.key, entry)
        for entry in self.stores["EndpointSlice"].list():
            self.pod_addresses.set_slice(entry.key, entry)
        for entry in self.stores["NetworkPolicy"].list():
            self.policy_selectors.set(None, entry)

    def report_missing_pods(self) -> None:
        """Report the pods that should run in a target and do not. The home cluster needs none."""

    def stop(self) -> None:
        """Stop accepting work."""
        self.is_ready = False

    async def drain(self) -> None:
        """Stop accepting work and wait until no key is in work."""
        self.stop()
        self.queue.drop_group(self.group)
        await self.keys_in_work.wait_idle()

    # All keys.

    def list_all_keys(self) -> Collection[Key]:
        """Return every key that may have work, each once. Most are known on both sides."""
        keys = chain(
            self._all_keys.iterate_keys(),
            self.lost_twins.list_vanished_keys(),
            self.iterate_unassigned(),
        )
        return dict.fromkeys(keys)

    def iterate_unassigned(self) -> Iterable[Key]:
        """Yield the keys of the pods without an assigned cluster."""
        for entry in self.connection.assignments.list_unassigned(self.stores["Pod"]):
            yield self.build_key(ASSIGNMENT, *entry.key)

    def handle_kind_served(self, kind: str) -> None:
        """Queue the keys of an optional kind that one of the servers now serves."""
        for key in self._all_keys.list_served_keys(kind):
            self.enqueue(key, low=True)
        self.connection.enqueue_status()

    def iterate_stamps(self) -> Iterable[int]:
        """Yield the tenant revisions that super objects record."""
        for entry in self.super_cluster.list_written_for(self.tenant.uid):
            yield parse_revision(entry.annotations.get(wellknown.STORE_REVISION, ""))


Sessions = Mapping[str, Mapping[str, Session]]
"""By name of the super cluster, then by UID of the VirtualCluster."""
