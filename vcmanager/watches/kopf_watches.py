"""Kopf watches that put the keys of changed objects into the queue.

Owns which kinds are watched and by which selectors, and how relevant changes are distinguished from
the rest. Must not decide what to do. Hazard: kopf would write its own annotations and
finalizers, post its log lines as Events, take over the process's signals and, at its end, cancel
every task it finds in its loop. With event handlers alone, and a thread and a loop of its own, it
does none of that to us.
"""

import asyncio
import contextlib
import functools
import logging
import threading
from collections.abc import AsyncIterator, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import aiohttp
import kopf

from kubeio.config.endpoint import Endpoint
from kubeio.http import tls_contexts
from tenancy import resources, wellknown
from tenancy.resources import Resource
from vcmanager.plan import external_endpoint as endpoint_of
from vcmanager.runtime import keys
from vcmanager.runtime.keys import ReconcileKey
from vcmanager.runtime.options import OperatorSettings
from vcmanager.watches import predicates
from vcmanager.watches.predicates import WatchedBody

WakeFunction = Callable[[ReconcileKey], None]

CHILD_RESOURCES = (
    resources.STATEFUL_SETS,
    resources.DEPLOYMENTS,
    resources.PODS,
    resources.SERVICES,
    resources.SECRETS,
    resources.CONFIG_MAPS,
    resources.NETWORK_POLICIES,
)
"""Kinds in root namespaces that wake the VirtualCluster they belong to."""

ROOT_NAMESPACE_SELECTOR = f"{wellknown.CONTROLLED}=true,!{wellknown.NAMESPACE}"
"""Label selectors on the server: the manager's objects, none of a tenant namespace.

A removed label appears as a deletion, which wakes as well.
"""

UNUSED_FINALIZER = f"{wellknown.DOMAIN}/not-used"
"""Finalizer that kopf may add and remove. It is never written, by kopf or any other code."""

_STOP_SECONDS = 7.0
_CLOSING_SECONDS = 0.25
_LOGGER_LEVELS = {
    "kopf": logging.WARNING,
    "kopf.objects": logging.ERROR,
    "kopf._core.reactor.running": logging.ERROR,  # it misses the signals that are not its own
}


@contextlib.asynccontextmanager
async def run_watches(
    endpoint: Endpoint, enqueue: WakeFunction, *, options: OperatorSettings
) -> AsyncIterator[asyncio.Future[None]]:
    """Watch while the block runs. Yields a future that ends when watching has failed."""
    loop = asyncio.get_running_loop()
    stop = threading.Event()

    def enqueue_threadsafe(key: ReconcileKey) -> None:
        loop.call_soon_threadsafe(enqueue, key)

    pool = ThreadPoolExecutor(max_workers=1, thread_name_prefix="kopf")
    ended = asyncio.ensure_future(
        loop.run_in_executor(pool, _run_in_thread, endpoint, enqueue_threadsafe, options, stop)
    )
    try:
        yield ended
    finally:
        stop.set()
        await asyncio.wait([ended], timeout=_STOP_SECONDS)
        pool.shutdown(wait=False)


def _run_in_thread(
    endpoint: Endpoint, enqueue: WakeFunction, options: OperatorSettings, stop: threading.Event
) -> None:
    """Run kopf in this thread until the stop flag is set."""
    for name, level in _LOGGER_LEVELS.items():
        logging.getLogger(name).setLevel(level)
    asyncio.run(_run_operator(endpoint, enqueue, options, stop))
    if not stop.is_set():
        raise RuntimeError("the watches ended")


async def _run_operator(
    endpoint: Endpoint, enqueue: WakeFunction, options: OperatorSettings, stop: threading.Event
) -> None:
    await kopf.operator(
        registry=_build_registry(endpoint, enqueue, options),
        settings=_build_settings(),
        clusterwide=True,
        standalone=True,
        stop_flag=stop,
    )
    # A closed session ends its TLS connections a moment later, so the loop must run until then.
    await asyncio.sleep(_CLOSING_SECONDS)


def _build_settings() -> kopf.OperatorSettings:
    settings = kopf.OperatorSettings()
    settings.posting.enabled = False
    settings.scanning.disabled = True  # no right to watch CRDs and namespaces is needed
    settings.process.ultimate_exiting_timeout = None
    # kopf removes its finalizer from every object that none of its handlers needs it for. So it
    # must never learn the name of the manager's finalizer.
    settings.persistence.finalizer = UNUSED_FINALIZER
    settings.persistence.progress_storage = kopf.StatusProgressStorage(field="status.kopf")
    settings.persistence.diffbase_storage = kopf.StatusDiffBaseStorage(field="status.kopf")
    settings.networking.connect_timeout = 10
    settings.networking.request_timeout = 30
    settings.watching.connect_timeout = 10
    settings.watching.server_timeout = 600
    settings.watching.chunk_size = 500
    settings.queueing.idle_timeout = 1
    for child in (*CHILD_RESOURCES, resources.NAMESPACES):
        settings.watching.label_selectors[_build_selector(child)] = ROOT_NAMESPACE_SELECTOR
    requests = _build_selector(resources.CERTIFICATE_SIGNING_REQUESTS)
    settings.watching.field_selectors[requests] = (
        f"spec.signerName={wellknown.AGENT_SERVING_SIGNER}"
    )
    return settings


class _WatchHandlers:
    """Event handlers of the watches, and what they remember of the last event of an object.

    Only the thread of kopf may use them.
    """

    def __init__(self, enqueue: WakeFunction, options: OperatorSettings) -> None:
        """Start without remembered objects."""
        self._enqueue = enqueue
        self._options = options
        self._published: dict[str, tuple[str, ...]] = {}
        """State of each VirtualCluster that objects of other projects repeat, by UID."""
        self._seen = predicates.SeenDigests()
        self._policies: dict[str, predicates.PolicyUse] = {}
        """Policy of each VirtualCluster, by UID."""
        self._owners: dict[str, ReconcileKey] = {}
        """Key of the owner of each object in a root namespace, by UID."""
        self._sync_states: dict[str, tuple[str, ...]] = {}
        """State of the syncer's conditions of each VirtualCluster, by UID."""
        self._addresses: dict[str, set[str]] = {}
        """Addresses of each node, by name."""

    def list_handlers(self) -> list[tuple[Resource, Any]]:
        """Return all watched resources, each with its event handler."""
        return [
            (resources.VIRTUAL_CLUSTERS, self._on_virtual_cluster),
            (resources.VIRTUAL_CLUSTER_SNAPSHOTS, self._on_snapshot),
            (resources.CLUSTER_VERSIONS, self._on_cluster_version),
            (resources.TENANT_POLICIES, self._on_policy),
            (resources.SUPER_CLUSTERS, self._on_super_cluster),
            (resources.SYNC_RULES, self._on_sync_rule),
            (resources.CERTIFICATE_SIGNING_REQUESTS, self._on_request),
            (resources.NODES, self._on_node),
            *(
                [(resources.VIRTUAL_CLUSTER_CONTROL_PLANES, self._on_control_plane)]
                if self._options.cluster_api
                else []
            ),
            *(
                (child, functools.partial(self._on_child, child))
                for child in (*CHILD_RESOURCES, resources.NAMESPACES)
            ),
        ]

    async def _on_virtual_cluster(self, type: str | None, body: kopf.Body, **_: Any) -> None:  # noqa: A002 - kopf's
        uid, policy = body["metadata"]["uid"], predicates.get_policy_use(body)
        before = self._policies.pop(uid, None)
        if type != "DELETED":
            self._policies[uid] = policy
        if type == "DELETED" or before is None or before.name != policy.name:
            self._enqueue(keys.AGENT_ACCESS_KEY)
            self._enqueue(keys.SYNCER_ACCESS_KEY)
        state = self._sync_states.pop(uid, None)
        if type != "DELETED":
            self._sync_states[uid] = predicates.get_sync_state(body)
            if state != self._sync_states[uid]:
                metadata = body["metadata"]
                self._enqueue(keys.build_sync_events_key(metadata["namespace"], metadata["name"]))
        self._enqueue_integrations(type, body)
        if self._seen.has_changed(resources.VIRTUAL_CLUSTERS, type, body):
            key = keys.build_key_of_listed(body)
            self._enqueue(key)
            self._enqueue(keys.build_schedule_key(key.namespace, key.name))
            self._enqueue(keys.build_content_key(key.namespace, key.name))

    def _enqueue_integrations(self, kind: str | None, body: WatchedBody) -> None:
        """Queue the objects of other projects that repeat the state of a VirtualCluster."""
        metadata = body["metadata"]
        before = self._published.pop(metadata["uid"], None)
        now = predicates.get_published_state(body)
        if kind != "DELETED":
            self._published[metadata["uid"]] = now
            if before == now:
                return
            if self._options.cluster_manager:
                self._enqueue(keys.build_profile_key(metadata["namespace"], metadata["name"]))
        key = keys.get_control_plane_key(metadata) if self._options.cluster_api else None
        if key is not None:
            self._enqueue(key)

    async def _on_control_plane(self, type: str | None, body: kopf.Body, **_: Any) -> None:  # noqa: A002 - kopf's
        if self._seen.has_changed(resources.VIRTUAL_CLUSTER_CONTROL_PLANES, type, body):
            metadata = body["metadata"]
            self._enqueue(keys.build_control_plane_key(metadata["namespace"], metadata["name"]))

    async def _on_snapshot(self, type: str | None, body: kopf.Body, **_: Any) -> None:  # noqa: A002 - kopf's
        if self._seen.has_changed(resources.VIRTUAL_CLUSTER_SNAPSHOTS, type, body):
            metadata = body["metadata"]
            self._enqueue(keys.build_snapshot_key(metadata["namespace"], metadata["name"]))

    async def _on_cluster_version(self, type: str | None, body: kopf.Body, **_: Any) -> None:  # noqa: A002 - kopf's
        if self._seen.has_changed(resources.CLUSTER_VERSIONS, type, body):
            self._enqueue(ReconcileKey("ClusterVersion", "", body["metadata"]["name"]))

    async def _on_super_cluster(self, type: str | None, body: kopf.Body, **_: Any) -> None:  # noqa: A002 - kopf's
        if self._seen.has_changed(resources.SUPER_CLUSTERS, type, body):
            self._enqueue(ReconcileKey("SuperCluster", "", body["metadata"]["name"]))
            self._enqueue(keys.SYNCER_ACCESS_KEY)

    async def _on_sync_rule(self, **_: Any) -> None:
        self._enqueue(keys.SYNC_RULES_KEY)

    async def _on_policy(self, type: str | None, body: kopf.Body, **_: Any) -> None:  # noqa: A002 - kopf's
        self._enqueue(keys.AGENT_ACCESS_KEY)
        self._enqueue(keys.SYNCER_ACCESS_KEY)
        if not self._seen.has_changed(resources.TENANT_POLICIES, type, body):
            return
        for use in self._policies.values():
            if use.name == body["metadata"]["name"]:
                self._enqueue(keys.build_content_key(use.key.namespace, use.key.name))
                self._enqueue(use.key)

    async def _on_request(self, meta: Mapping[str, Any], **_: Any) -> None:
        self._enqueue(ReconcileKey("CertificateSigningRequest", "", meta["name"]))

    async def _on_child(
        self,
        resource: Resource,
        /,
        type: str | None,  # noqa: A002 - kopf's
        body: kopf.Body,
        **_: Any,
    ) -> None:
        """Queue the owner of the object, and its owner before its labels were changed."""
        if not self._seen.has_changed(resource, type, body):
            return
        meta = body["metadata"]
        uid, key = meta["uid"], keys.get_owner_key(meta)
        before = self._owners.pop(uid, None)
        if key is not None and type != "DELETED":
            self._owners[uid] = key
        for each in {key, before}:
            if each is not None:
                self._enqueue(each)

    async def _on_node(self, type: str | None, body: kopf.Body, **_: Any) -> None:  # noqa: A002 - kopf's
        name = body["metadata"]["name"]
        now = set() if type == "DELETED" else set(endpoint_of.list_node_addresses([body]))
        for address in self._addresses.pop(name, set()) - now:
            self._enqueue(keys.build_node_address_key(address))
        if now:
            self._addresses[name] = now


def _build_registry(
    endpoint: Endpoint, enqueue: WakeFunction, options: OperatorSettings
) -> kopf.OperatorRegistry:
    registry = kopf.OperatorRegistry()

    async def login(**_: Any) -> kopf.AiohttpSession:
        return _create_session(endpoint)

    kopf.on.login(registry=registry)(login)
    for resource, handler in _WatchHandlers(enqueue, options).list_handlers():
        kopf.on.event(
            group=resource.group,
            version=resource.version,
            plural=resource.plural,
            id=f"wake-{resource.plural}",
            registry=registry,
        )(handler)
    return registry


def _build_selector(resource: Resource) -> Callable[[Any], bool]:
    wanted = (resource.group, resource.version, resource.plural)
    return lambda found: (found.group, found.version, found.plural) == wanted


def _create_session(endpoint: Endpoint) -> kopf.AiohttpSession:
    """Return a session with the manager's TLS verification. After a 401 kopf requests a new one."""
    headers = {"User-Agent": "vc-manager (kopf)"}
    token = endpoint.token
    if endpoint.token_file is not None:
        token = endpoint.token_file.read_text().strip()
    if token:
        headers["Authorization"] = f"Bearer {token}"
    connector = aiohttp.TCPConnector(
        limit=0, ssl=tls_contexts.create_context(endpoint) if endpoint.is_encrypted else False
    )
    return kopf.AiohttpSession(
        server=endpoint.server,
        aiohttp_session=aiohttp.ClientSession(connector=connector, headers=headers),
    )
