"""Client and shared caches of one super cluster.

Owns the watched resources of each super cluster, and the owner of each object. Resources that only
the home cluster has are in `syncer.clusters.home_cluster`. Must not know sessions. Handlers
subscribe. Hazard: only objects with the syncer's label are cached. A foreign object with the name
of a twin stays unseen until a create conflicts with it. Hazard: Secrets are cached only of the
namespaces whose RoleBinding lets the syncer read them (ADR 32).
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from ipaddress import ip_network
from typing import Any

from kubeio import Object
from kubeio.api.client import Client
from kubeio.cache.crd_reflector import CrdReflector
from kubeio.cache.reflector import Reflector, ReflectorOptions
from kubeio.cache.scoped_reflector import ScopedReflector
from kubeio.cache.store import Entry, Store
from kubeio.http import transport_protocol
from kubeio.loop_budget import LoopBudget
from syncer.clusters.ruled_caches import RuledCacheOptions, RuledCaches
from syncer.model.keys import (
    DEFAULT_POLICY,
    LIMIT_RANGE,
    RESOURCE_QUOTA,
    SERVICE_VARIABLES,
    TENANT_NETWORK,
    TOKEN,
    Key,
)
from syncer.model.references import is_reserved_name
from syncer.model.super_cidrs import CidrNetwork, SuperCidrTracker
from syncer.model.tenant_view import DEFAULT_CLUSTER_DOMAIN
from syncer.placement.capacity import ClusterCapacity
from syncer.rules.configuration import service_variables
from syncer.rules.network import ingress_hosts
from syncer.rules.registry import KINDS, KINDS_BY_NAME, SyncedKind, get_reduction
from telemetry.bounded_labels import BoundedLabels
from tenancy import ownership, super_clusters, wellknown
from tenancy.resources import (
    EVENTS,
    INGRESSES,
    LIMIT_RANGES,
    NAMESPACES,
    NETWORK_ATTACHMENTS,
    NODES,
    POD_DISRUPTION_BUDGETS,
    PODS,
    RESOURCE_QUOTAS,
    ROLE_BINDINGS,
    SECRETS,
    SELF_SUBJECT_REVIEWS,
    SERVICE_ACCOUNTS,
    SERVICE_CIDRS,
    Resource,
)

BY_TENANT_INDEX = "tenant"
"""Index of super objects by the UID of the VirtualCluster in their label."""

SHARED_WATCH_SECONDS = 0.002
"""Time in seconds per event-loop iteration for the watches that all tenants share. It is longer
than the time for reconciles that begin in the iteration. An event that is left waits behind those
of all other tenants.
"""

SYNCED_SELECTOR = f"{wellknown.CONTROLLED}=true,{wellknown.NAMESPACE}"
"""Objects of tenant namespaces. Root namespaces, with their keys, stay out of memory."""


def list_owned_resources(kinds: Mapping[str, SyncedKind] = KINDS_BY_NAME) -> tuple[Resource, ...]:
    """Return the kinds of which the syncer creates objects in the home cluster."""
    synced = (kind.resource for kind in kinds.values())
    return (*synced, SERVICE_ACCOUNTS, RESOURCE_QUOTAS, LIMIT_RANGES)


OWNED_RESOURCES: tuple[Resource, ...] = list_owned_resources()
"""The same for a syncer without additional networks."""
TARGET_RESOURCES: tuple[Resource, ...] = (
    *(kind.resource for kind in KINDS if kind.is_in_targets),
    SERVICE_ACCOUNTS,
)
"""The same for every target."""


MAX_LIST_BYTES = transport_protocol.MAX_RESPONSE_BYTES
"""Maximum size in bytes of one list of a target, which may be hostile. It is the size that one
answer of any server may have. A larger list is not synced, and the SuperCluster reports it.
"""
MAX_BACKOFF_SECONDS = 30.0
"""Longest retry delay in seconds of a watch of Secrets that the server refuses."""
_ACCOUNT_PREFIX = "system:serviceaccount:"
DEFAULT_SERVICE_CIDR = "kubernetes"
"""Name of the ServiceCIDR of the API server's own range, from which tenants have their ranges."""
MAX_METRIC_SIDES = 32
"""Maximum number of targets with a metric label of their own. Later ones share one label."""

_INDEXES = {INGRESSES.kind: {ingress_hosts.BY_HOST_INDEX: ingress_hosts.index_by_host}}

_TARGET_SIDES = BoundedLabels(MAX_METRIC_SIDES, other="target-other", build="target-{}".format)


def get_metric_side(name: str, registration: str) -> str:
    """Return the metric label of a super cluster: `super`, or `target-NAME` in a bounded number."""
    return _TARGET_SIDES.get(name) if registration else "super"


def build_subject(username: str) -> Object:
    """Return a user as the subject of a RoleBinding."""
    if username.startswith(_ACCOUNT_PREFIX):
        namespace, _, name = username.removeprefix(_ACCOUNT_PREFIX).partition(":")
        return {"kind": "ServiceAccount", "name": name, "namespace": namespace}
    return {"apiGroup": ROLE_BINDINGS.group, "kind": "User", "name": username}


def build_namespace_role(accounts_namespace: str, registration: str) -> str:
    """Return the name of the ClusterRole with the rights to Secrets in a super cluster.

    A target has one per home cluster, with the name of the namespace of its accounts.
    """
    if registration and accounts_namespace:
        return super_clusters.build_namespace_role(accounts_namespace)
    return wellknown.SYNCER_NAMESPACE_ROLE


def index_by_tenant(entry: Entry) -> Iterable[str]:
    """Return the index values of a super object: the UID of its VirtualCluster."""
    uid = entry.labels.get(wellknown.VC_UID)
    return (uid,) if uid else ()


def ignore_served() -> None:
    """Do nothing when the cluster begins to serve a kind."""


class SuperCluster:
    """One super cluster."""

    def __init__(
        self,
        client: Client,
        *,
        name: str,
        registration: str = "",
        owned: tuple[Resource, ...] = TARGET_RESOURCES,
        domain: str = DEFAULT_CLUSTER_DOMAIN,
        loop_budget: LoopBudget | None = None,
        kinds: Mapping[str, SyncedKind] = KINDS_BY_NAME,
        rules: Store | None = None,
    ) -> None:
        """`registration` is the UID of its SuperCluster, empty for the home cluster.

        `owned` are the kinds whose twins are created there. `domain` is the cluster's DNS domain.
        `kinds` is the table of the synced kinds, by their names. `rules` are all SyncRules. None:
        there are none.
        """
        self.client = client
        self.kinds = kinds
        self.loop_budget = loop_budget or LoopBudget()
        self.name = name
        self.registration = registration
        self.domain = domain
        ours = f"{wellknown.SUPER_CLUSTER}={registration}"
        synced = f"{SYNCED_SELECTOR},{ours}" if registration else SYNCED_SELECTOR
        self.stores: dict[str, Store] = {
            resource.kind: Store(
                {BY_TENANT_INDEX: index_by_tenant, **_INDEXES.get(resource.kind, {})}
            )
            for resource in owned
        }
        self.nodes = Store()
        self.service_cidrs = Store()
        self.cidr_tracker = SuperCidrTracker(self.nodes, self.service_cidrs)
        self.events = Store(
            has_metadata_only=False
        )  # each is handled on arrival and never looked up
        self._capacity: ClusterCapacity | None = None
        self._side = get_metric_side(name, registration)
        self._max_list_bytes = MAX_LIST_BYTES if registration else None
        self._served_handlers: list[Callable[[str], None]] = []
        # Targets share the time like tenants, so that a flood from one delays no other.
        is_home = not registration
        self._is_budget_spent = (
            self.loop_budget.create_portion(SHARED_WATCH_SECONDS)
            if is_home
            else self.loop_budget.is_spent
        )
        self.ruled = self._create_ruled_caches(
            Store() if rules is None else rules,
            RuledCacheOptions(
                label_selector=synced,
                create_store=lambda: Store({BY_TENANT_INDEX: index_by_tenant}),
                loop_budget=self.loop_budget,
                is_budget_spent=self._is_budget_spent,
                side=self._side,
                max_list_bytes=self._max_list_bytes,
            ),
        )
        self.secrets = self._create_scoped_reflector(
            SECRETS,
            self.stores[SECRETS.kind],
            label_selector=synced,
            reduce=get_reduction(SECRETS.kind),
        )
        self._subject: Object | None = None
        self._subject_lock = asyncio.Lock()
        self.stores[NAMESPACES.kind].subscribe(self._watch_secrets_of)
        self.reflectors: tuple[Reflector | CrdReflector | ScopedReflector, ...] = (
            *(
                self._create_crd_reflector(
                    resource,
                    self.stores[resource.kind],
                    label_selector=synced,
                    on_served=partial(self._handle_kind_served, resource.kind),
                )
                if resource.kind in kinds and kinds[resource.kind].needs_crd
                else self._create_reflector(
                    resource,
                    self.stores[resource.kind],
                    label_selector=synced,
                    reduce=get_reduction(resource.kind),
                )
                for resource in owned
                if resource.kind != SECRETS.kind
            ),
            self._create_reflector(NODES, self.nodes),
            self._create_reflector(SERVICE_CIDRS, self.service_cidrs),
            self._create_reflector(EVENTS, self.events, has_bookmarks=False),
            self.secrets,  # after the namespaces, which name its watches
        )

    def _create_ruled_caches(self, rules: Store, options: RuledCacheOptions) -> RuledCaches:
        """Return the caches of the kinds of SyncRules."""
        return RuledCaches(self.client, rules, self.stores, options)

    def _create_reflector(self, resource: Resource, store: Store, **options: Any) -> Reflector:
        """Return the reflector of a cache. All reflectors share one portion of an iteration."""
        return Reflector(
            self.client,
            resource,
            store,
            ReflectorOptions(side=self._side, max_list_bytes=self._max_list_bytes, **options),
            loop_budget=self.loop_budget,
            is_budget_spent=self._is_budget_spent,
        )

    def _create_crd_reflector(
        self,
        resource: Resource,
        store: Store,
        *,
        label_selector: str = "",
        on_served: Callable[[], None] | None = None,
    ) -> CrdReflector:
        """Return the reflector of a cache whose kind the cluster may not serve."""
        return CrdReflector(
            self.client,
            resource,
            store,
            side=self._side,
            label_selector=label_selector,
            loop_budget=self.loop_budget,
            is_budget_spent=self._is_budget_spent,
            on_served=on_served or ignore_served,
        )

    def subscribe_served(self, handler: Callable[[str], None]) -> None:
        """Call a handler with each kind with a CRD that the cluster begins to serve."""
        self._served_handlers.append(handler)

    def _handle_kind_served(self, kind: str) -> None:
        for handler in self._served_handlers:
            handler(kind)

    def is_served(self, kind: str) -> bool:
        """Return whether the cluster serves a kind, as far as its cache shows."""
        return self.stores[kind].synced

    def get_service_range(self) -> CidrNetwork | None:
        """Return the service range that tenants have parts of. None if it is not known."""
        entry = self.service_cidrs.get("", DEFAULT_SERVICE_CIDR)
        cidrs = (entry.decode().get("spec") or {}).get("cidrs") if entry is not None else None
        try:
            return ip_network(cidrs[0]) if cidrs else None
        except ValueError:
            return None

    def _create_scoped_reflector(
        self,
        resource: Resource,
        store: Store,
        *,
        max_backoff_seconds: float = MAX_BACKOFF_SECONDS,
        **options: Any,
    ) -> ScopedReflector:
        """Return the reflector of a cache that is readable in chosen namespaces only."""
        return ScopedReflector(
            self.client,
            resource,
            store,
            ReflectorOptions(side=self._side, max_list_bytes=self._max_list_bytes, **options),
            loop_budget=self.loop_budget,
            is_budget_spent=self._is_budget_spent,
            max_backoff_seconds=max_backoff_seconds,
        )

    def _watch_secrets_of(self, old: Entry | None, new: Entry | None, live: bool) -> None:
        """Watch the Secrets of a super namespace while it exists.

        A namespace that left the cache without being deleted has lost its labels, which are
        restored.
        """
        if new is not None:
            if old is None:
                self.secrets.start(new.name)
        elif old is not None and (old.deleting or not live):
            self.secrets.stop(old.name)

    async def fetch_subject(self) -> Object:
        """Return the syncer's own account in the cluster, as the subject of a RoleBinding."""
        async with self._subject_lock:  # Else each of many new namespaces asks for itself.
            if self._subject is None:
                found = await self.client.create(SELF_SUBJECT_REVIEWS, {"metadata": {}})
                self._subject = build_subject(found["status"]["userInfo"]["username"])
            return self._subject

    @property
    def namespace_role(self) -> str:
        """Name of the ClusterRole with the rights to Secrets. `fetch_subject` must have run."""
        return build_namespace_role((self._subject or {}).get("namespace", ""), self.registration)

    @property
    def builder_stores(self) -> Mapping[str, Store]:
        """Return the caches that builders may read."""
        read = (NAMESPACES.kind, PODS.kind, POD_DISRUPTION_BUDGETS.kind)
        optional = (kind for kind, row in self.kinds.items() if row.needs_crd)
        return {
            **{kind: self.stores[kind] for kind in read},
            **{kind: self.stores[kind] for kind in optional if kind in self.stores},
            NODES.kind: self.nodes,
        }

    @property
    def capacity(self) -> ClusterCapacity:
        """Free capacity of its nodes, counted from the first use on."""
        if self._capacity is None:
            self._capacity = ClusterCapacity(self.nodes, self.stores[PODS.kind])
        return self._capacity

    async def run(self) -> None:
        """Watch all resources, and the kinds of SyncRules, until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self.ruled.run(), name="super-ruled")
            for reflector in self.reflectors:
                group.create_task(reflector.run(), name=f"super-{reflector.resource.plural}")

    async def wait_synced(self) -> None:
        """Wait until every cache has had a complete list."""
        for reflector in self.reflectors:
            await reflector.wait_synced()

    def describe_missing_caches(self) -> str:
        """Return the incomplete caches for the probes. Empty if all are complete."""
        found = sorted({r.resource.plural for r in self.reflectors if not r.synced})
        return f"waits for {', '.join(found)}" if found else ""

    def get_key(self, kind: str, entry: Entry) -> Key | None:
        """Return the key that a super object belongs to, by its labels and annotations."""
        tenant = entry.labels.get(wellknown.VC_UID, "")
        namespace = entry.labels.get(wellknown.NAMESPACE, "")
        if not tenant or not namespace:
            return None
        if kind in ("Namespace", "ServiceAccount"):
            return Key(tenant, self.name, "Namespace", "", namespace)
        if own := _get_own_kind(kind, entry):
            return Key(tenant, self.name, own, namespace, entry.name)
        row = self.kinds.get(kind)  # a kind of a SyncRule is not in the table, and keeps its names
        name = row.tenant_name(entry.name) if row is not None else entry.name
        return Key(tenant, self.name, kind, namespace, name)

    def iterate_owned(self, tenant: str) -> Iterable[tuple[str, Entry]]:
        """Yield every cached super object of a tenant with its kind."""
        for kind, store in self.stores.items():
            for entry in store.index(BY_TENANT_INDEX, tenant):
                yield kind, entry

    def list_owned(self, kind: str, tenant: str) -> Iterable[Entry]:
        """Return the cached super objects of one kind of a tenant."""
        return self.stores[kind].index(BY_TENANT_INDEX, tenant)

    def list_written_for(self, tenant: str) -> Iterable[Entry]:
        """Yield every cached super object of a tenant."""
        return (entry for _, entry in self.iterate_owned(tenant))

    def is_twin(self, entry: Entry | None, *, vc_uid: str, uid: str) -> bool:
        """Return True if a super object is the twin of this tenant object."""
        if entry is None:
            return False
        owner = ownership.read_owner({"annotations": entry.annotations}, self.registration)
        return owner is not None and owner.vc_uid == vc_uid and owner.uid == uid


def _get_own_kind(kind: str, entry: Entry) -> str:
    """Return the kind of key of an object that the syncer adds to a tenant's, otherwise empty."""
    if kind in (RESOURCE_QUOTA, LIMIT_RANGE):
        return kind
    if kind == NETWORK_ATTACHMENTS.kind and is_reserved_name(kind, entry.name):
        return TENANT_NETWORK
    if kind == "Secret" and wellknown.TOKEN_SECONDS in entry.annotations:
        return TOKEN
    if kind == "ConfigMap" and entry.name in service_variables.NAMES:
        return SERVICE_VARIABLES
    return DEFAULT_POLICY if kind == "NetworkPolicy" and is_reserved_name(kind, entry.name) else ""
