"""Dependencies of every reconcile, created once by the composition root.

Owns no decisions. Hazard: the clients of tenants have break-glass credentials. They are kept per
tenant UID, with the watches that use them. They are closed when the credential changes or the
tenant is deleted.
"""

import asyncio
import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from types import TracebackType
from typing import Any, Protocol, Self

from kubeio import Object
from kubeio.api.client import Client
from kubeio.api.event_recorder import EventRecorder
from kubeio.api.leader_election import LeaseObserver
from kubeio.cache.cache_budget import MIB, CacheLimit, CacheLimits
from kubeio.config import loading
from kubeio.config.endpoint import Endpoint
from kubeio.http.rest import ClientOptions
from kubeio.http.transport_protocol import Fence
from tenancy import wellknown
from tenancy.ownership import Tenant
from tenancy.resources import CONFIG_MAPS, NAMESPACES, SECRETS, Resource
from vcmanager.runtime.certificate_expiry import CertificateExpiries
from vcmanager.runtime.content_sources import ContentSources
from vcmanager.runtime.etcd_stores import StoreRecords
from vcmanager.runtime.host_watch import HostWatch
from vcmanager.runtime.keys import ReconcileKey
from vcmanager.runtime.observed import ObservedObjects
from vcmanager.runtime.options import AgentPodSettings, OperatorSettings
from vcmanager.runtime.snapshot_schedules import SnapshotSchedules
from vcmanager.runtime.status import StatusValue
from vcmanager.runtime.tenant_watch import TenantWatch

RESYNC_SECONDS = 36_000.0
"""Resync interval in seconds of a settled object.

Relevant changes are watched, and a reconcile costs some 30 requests.
"""
TENANT_DEADLINE_SECONDS = 5.0
"""Deadline in seconds of one request to a tenant. A tenant may be slow on purpose."""
_MAX_TENANT_RESPONSE_BYTES = 1024 * 1024
"""Bytes of one answer of a tenant. The manager's objects in a tenant are far smaller.

A tenant may answer without end. Some seven requests to each tenant run at the same time.
"""
_CONTENT_LIMITS = CacheLimits(
    total=CacheLimit(max_bytes=8 * MIB, max_objects=6000),
    each_kind=CacheLimit(max_bytes=4 * MIB, max_objects=5000),
    max_object_bytes=MIB // 2,
)
"""Limits of the metadata of shared objects and of all namespaces of a tenant."""
_MAX_TENANT_LINE_BYTES = 512 * 1024
"""Bytes of one watch event of a tenant: metadata with the longest annotations, twice."""


class TenantClients:
    """One client per tenant, as long as its credential stays the same."""

    def __init__(self, *, user_agent: str = "vc-manager", fence: Fence | None = None) -> None:
        """Start without clients. All clients get the user agent and the fence."""
        self._user_agent, self._fence = user_agent, fence
        self._clients: dict[str, tuple[str, Client, TenantWatch]] = {}
        self._content_watches: dict[str, tuple[bool, TenantWatch]] = {}

    async def __aenter__(self) -> Self:
        """Open nothing yet."""
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        problem: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Close every client."""
        for uid in list(self._clients):
            await self.drop(uid)

    async def get(
        self,
        uid: str,
        kubeconfig: bytes,
        name: str,
        *,
        on_changed: Callable[[], None],
        watched_resources: Sequence[Resource],
    ) -> Client:
        """Return the client of a tenant for this kubeconfig.

        `on_changed` is called when an object of the manager in the tenant changes, of the kinds in
        `watched_resources`.
        """
        kinds = "".join(each.build_path() for each in watched_resources)
        digest = hashlib.sha256(kubeconfig).hexdigest() + kinds
        known = self._clients.get(uid)
        if known is not None and known[0] == digest:
            return known[1]
        await self.drop(uid)
        endpoint = loading.load_tenant_kubeconfig(kubeconfig, name=name)
        client = Client(
            endpoint,
            ClientOptions(
                user_agent=self._user_agent,
                connections=8,
                deadline=TENANT_DEADLINE_SECONDS,
                fence=self._fence,
                max_response_bytes=_MAX_TENANT_RESPONSE_BYTES,
                max_line_bytes=_MAX_TENANT_LINE_BYTES,
            ),
        )
        await client.__aenter__()
        self._clients[uid] = (digest, client, TenantWatch(client, watched_resources, on_changed))
        return client

    def find(self, uid: str) -> Client | None:
        """Return the client of a tenant, if it is connected."""
        known = self._clients.get(uid)
        return known[1] if known is not None else None

    async def watch_content(
        self, uid: str, *, needs_namespaces: bool, on_changed: Callable[[], None]
    ) -> None:
        """Watch the shared objects in a connected tenant, and its namespaces if they matter.

        The watch ends with the client of the tenant.
        """
        client, known = self.find(uid), self._content_watches.get(uid)
        if client is None or (known is not None and known[0] == needs_namespaces):
            return
        await self.end_content_watch(uid)
        watch = TenantWatch(
            client,
            (CONFIG_MAPS, SECRETS),
            on_changed,
            selector=f"{wellknown.SHARED}=true",
            limits=_CONTENT_LIMITS,
            awaited_resources=(NAMESPACES,) if needs_namespaces else (),
        )
        self._content_watches[uid] = (needs_namespaces, watch)

    async def end_content_watch(self, uid: str) -> None:
        """End the watch on the shared objects of a tenant, if there is one."""
        known = self._content_watches.pop(uid, None)
        if known is not None:
            await known[1].close()

    async def drop(self, uid: str) -> None:
        """Close the client of a tenant, if there is one."""
        await self.end_content_watch(uid)
        known = self._clients.pop(uid, None)
        if known is not None:
            _, client, watch = known
            await watch.close()
            await client.__aexit__(None, None, None)


class TargetClientProvider(Protocol):
    """One client per target, and the last probe with it:
    `vcmanager.targets.clients.TargetClientCache`.

    `last_probes`, `agent_checks` and `reported_losses` are by the name of the SuperCluster. Only
    the modules of `vcmanager.targets` know the contents of the first two.
    """

    last_probes: dict[str, Any]
    agent_checks: dict[str, Any]
    reported_losses: dict[str, str]

    async def get_client(self, name: str, endpoint: Endpoint) -> Client:
        """Return the client of a SuperCluster."""

    def open_client(self, endpoint: Endpoint) -> Client:
        """Return a client that is not stored, for `async with`."""

    async def forget(self, name: str) -> None:
        """Drop all state of a deleted SuperCluster."""

    async def drop(self, name: str) -> None:
        """Close the client of a SuperCluster, and drop the results of its probe."""

    def watch_secret(
        self,
        super_client: Client,
        *,
        namespace: str,
        secret: str,
        name: str,
        enqueue: Callable[[str], None],
    ) -> None:
        """Call `enqueue` with the name of a SuperCluster when its Secret changes."""


class EnforcementProbe(Protocol):
    """Probe of NetworkPolicies: `vcmanager.phases.policy_enforcement.PolicyEnforcementProbe`."""

    async def probe(self, observed: ObservedObjects) -> tuple[StatusValue, str, str] | None:
        """Return status, reason and message of the condition. None if there is no result."""


@dataclass(frozen=True, slots=True)
class DeletedTenant:
    """A tenant that has ended."""

    tenant: Tenant
    body: Object
    """The last known VirtualCluster."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReconcileContext:
    """The super cluster, the clock, and the state shared between reconciles."""

    super_client: Client
    settings: OperatorSettings
    namespace: str
    """Namespace of the manager's own components."""
    recorder: EventRecorder
    now: Callable[[], datetime]
    enqueue: Callable[[ReconcileKey], None]
    """Queue a key at once."""
    enqueue_after: Callable[[ReconcileKey, float], None]
    """Queue a key after a delay in seconds."""
    tenant_clients: TenantClients = field(default_factory=TenantClients)
    target_clients: TargetClientProvider
    """Other super clusters."""
    agent_pods: AgentPodSettings | None = None
    """Pod settings of the agents of targets. None: not configured."""
    hosts: HostWatch | None = None
    """Host names behind the API proxy. None: there is no API proxy."""
    expiries: CertificateExpiries = field(default_factory=CertificateExpiries)
    deleted_tenants: dict[ReconcileKey, DeletedTenant] = field(default_factory=dict)
    """Tenants that have ended, until the orphan sweep has checked them once more."""
    stores: StoreRecords = field(default_factory=StoreRecords)
    sync_states: dict[tuple[str, str], tuple[str, str]] = field(default_factory=dict)
    """Last status and reason of the syncer's conditions, by UID of the VirtualCluster and type."""
    rule_digests: dict[str, str] = field(default_factory=dict)
    """Digest of the SyncRules that tenants have, under an empty key."""
    snapshot_schedules: SnapshotSchedules = field(default_factory=SnapshotSchedules)
    content_sources: ContentSources | None = None
    """Watches on the sources of shared objects and manifests. None: no watches."""
    shared_versions: dict[str, dict[tuple[str, str, str], tuple[str, str]]] = field(
        default_factory=dict
    )
    """By UID of the VirtualCluster and key of a shared object: the resourceVersion that was last
    found to be right, and the digest of its content."""
    enforcement: EnforcementProbe | None = None
    """Probe of the super cluster's NetworkPolicies. None: no probe."""
    syncer_lease_observer: LeaseObserver = field(default_factory=LeaseObserver)
    service_range_lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Lock around the choice of a service range. Two tenants must not choose from the same list."""
    rollout_lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Lock around the choice of a slot. Two tenants must not take the same one. A second process
    is stopped by the resourceVersion of the ClusterVersion."""
