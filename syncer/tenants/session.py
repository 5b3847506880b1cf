"""Session of one tenant with one super cluster: the holder of its parts.

Each part owns one subject, such as the twins or the waiting keys, and callers use the part. Must
not decide about single kinds. State of the tenant as a whole, in all super clusters, belongs to its
connection. Hazard: no key may be reconciled before the connection is ready. Until then the caches
are incomplete.
"""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import replace

from syncer.clusters.super_cluster import SuperCluster
from syncer.model.keys import Key, build_group
from syncer.model.pod_index import PodIndex
from syncer.model.tenant_view import ServiceCidr, TargetNetwork, TenantView
from syncer.rules.configuration.service_variables import ServiceVariables
from syncer.rules.events import EventBudget
from syncer.rules.registry import SyncedKind
from syncer.safety.expectations import Expectations
from syncer.safety.guarded_writer import GuardedWriter, ObjectReader
from syncer.safety.hot_loop_guard import HotLoopGuard
from syncer.safety.parked_differences import ParkedDifferences
from syncer.safety.proven_deletes import ProvenDeletes
from syncer.safety.synced_states import SyncedStates
from syncer.tenants.all_keys import AllKeys
from syncer.tenants.cluster_scope import ClusterScope
from syncer.tenants.connection import TenantConnection
from syncer.tenants.indexes.network_indexes import NetworkIndexes
from syncer.tenants.indexes.node_index import NodeIndex
from syncer.tenants.memory.event_memory import EventMemory
from syncer.tenants.memory.grace_timers import GraceTimers
from syncer.tenants.memory.lost_twins import LostTwins
from syncer.tenants.memory.node_memory import NodeMemory
from syncer.tenants.memory.pod_memory import PodMemory
from syncer.tenants.metrics import TenantMetrics
from syncer.tenants.ruled_kind_state import RuledKindState
from syncer.tenants.sanitizer import Sanitizer
from syncer.tenants.scopes.home_scope import HomeScope
from syncer.tenants.session_work import SessionWork
from syncer.tenants.super_namespaces import SuperNamespaces
from syncer.tenants.twins import Twins
from tenancy.policies import BASELINE_POLICY, TenantPolicySpec


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
        down = self._get_ruled_kinds(connection)
        self.kinds = {**super_cluster.kinds, **down}
        self.ruled_mirrors = connection.ruled.mirrors if self.is_home else {}
        self.ruled = RuledKindState(
            down.keys(),
            stores=self.stores,
            super_stores=super_cluster.stores,
            deletes_copies=super_cluster.ruled.deletes_copies,
        )
        self.super_client: ObjectReader = super_cluster.client
        self.work = SessionWork(self.queue, build_group(self.build_key("", "", "")))
        self.pods = PodIndex(tracks_names=connection.assignments.is_split)
        self.network_indexes = NetworkIndexes(
            super_cluster,
            uses_pod_ranges=connection.cluster.spec.network is None
            and policy.network.attachments.default_network != "Allow",
        )
        self.view = TenantView(
            tenant=self.tenant,
            spec=connection.cluster.spec,
            service_range=tenant_slice,
            stores=self.stores,
            references=self.pods.references,
            policy=policy,
            super_stores=super_cluster.builder_stores,
            copied_kinds={kind: row.resource for kind, row in down.items()},
            super_domain=super_cluster.domain,
            get_super_cidrs=super_cluster.cidr_tracker.get_current,
            is_own_pod=self.network_indexes.is_own_pod,
            list_node_ports=self.network_indexes.node_ports.list_ports,
            get_super_service_range=super_cluster.get_service_range,
            get_host_stores=connection.home_cluster.ruled.get_host_stores,
            get_shown_source=connection.home_cluster.ruled.get_source,
            get_target_network=self._get_network_source(),
        )
        self.metrics = TenantMetrics(self.queue.get_age)
        self.expectations = Expectations(on_write=self.metrics.observe_write)
        self.twins = Twins(super_cluster, self.view, expectations=self.expectations, work=self.work)
        self.scope = self._build_scope()
        self.namespaces = SuperNamespaces(
            self.view,
            self.twins,
            self.work,
            self.queue,
            super_cluster=super_cluster,
            request=self.scope.request_namespace,
            policy_selectors=self.network_indexes.policy_selectors,
        )
        self.node_index = NodeIndex(
            self.scope.list_shown_nodes(), super_cluster.nodes, policy.nodes.view
        )
        self.lost_twins = LostTwins()
        self.all_keys = AllKeys(
            self.view,
            self.pods,
            super_cluster,
            connection.home_cluster,
            kinds=self.kinds,
            mirrors=self.ruled_mirrors,
            scope=self.scope,
            lost_twins=self.lost_twins,
        )
        if self.is_home:  # targets show no classes
            self.quota.use_overheads(self.view.get_overhead)
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
            write_tokens=connection.write_tokens,
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
        self.grace_timers = GraceTimers(self.now)
        self.service_variables = ServiceVariables()
        self.synced_states = SyncedStates()

    def build_key(self, kind: str, namespace: str, name: str) -> Key:
        """Return the key of one of this tenant's objects."""
        return Key(self.tenant.uid, self.super_cluster.name, kind, namespace, name)

    def now(self) -> float:
        """Return the monotonic time in seconds."""
        return asyncio.get_running_loop().time()

    def start(self) -> None:
        """Start to reconcile, beginning with every key."""
        self.scope.prepare_start()  # before any conclusion
        self.network_indexes.fill(self.stores, self.tenant.uid)
        self.work.start(self.all_keys.list_keys())

    def handle_kind_served(self, kind: str) -> None:
        """Queue the keys of an optional kind that one of the servers now serves."""
        for key in self.all_keys.list_served_keys(kind):
            self.work.enqueue(key, low=True)
        self.connection.enqueue_status()

    # Differences of a target, see `syncer.tenants.target_session`.

    def _get_ruled_kinds(self, connection: TenantConnection) -> Mapping[str, SyncedKind]:
        """Return the kinds that SyncRules declare, and that this super cluster may have."""
        return connection.ruled.down

    def _build_scope(self) -> ClusterScope:
        """Return the scope of the super cluster. The view and the twins exist."""
        return HomeScope(
            self.connection, self.build_key, view=self.view, pods=self.pods, twins=self.twins
        )

    def _get_network_source(self) -> Callable[[], TargetNetwork] | None:
        """Return the source of addresses that replace the tenant's own, or None."""
        return None


Sessions = Mapping[str, Mapping[str, Session]]
"""By name of the super cluster, then by UID of the VirtualCluster."""
