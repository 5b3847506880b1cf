"""Wires kopf's watches to the queue: something changed, so look at its VirtualCluster.

Owns which kinds are watched and by which selectors. Must not decide anything. Hazard: kopf would
write its own annotations and finalizers, post its log lines as Events, take over the process's
signals and, at its end, cancel every task it finds in its loop. With event handlers alone, and a
thread and a loop of its own, it does none of that to us.
"""

import asyncio
import contextlib
import logging
import threading
from collections.abc import AsyncIterator, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import aiohttp
import kopf

from kubeio import tls
from kubeio.endpoint import Endpoint
from tenancy import marks, resources
from tenancy.resources import Resource
from vcmanager import keys
from vcmanager.keys import Key

Wake = Callable[[Key], None]

CHILDREN = (
    resources.STATEFUL_SETS,
    resources.DEPLOYMENTS,
    resources.PODS,
    resources.SERVICES,
    resources.SECRETS,
)
"""Kinds in root namespaces that wake the VirtualCluster they belong to."""

IN_ROOT_NAMESPACES = f"{marks.CONTROLLED}=true,!{marks.NAMESPACE}"
"""What selects them on the server: ours, and of no tenant namespace."""

KOPF_FINALIZER = f"{marks.DOMAIN}/not-used"
"""What kopf may put on and take off; nothing else writes it, and it never does either."""

_STOP_SECONDS = 7.0
_LOGGERS = {
    "kopf": logging.WARNING,
    "kopf.objects": logging.ERROR,
    "kopf._core.reactor.running": logging.ERROR,  # it misses the signals that are not its own
}


@contextlib.asynccontextmanager
async def watching(endpoint: Endpoint, wake: Wake) -> AsyncIterator[asyncio.Future[None]]:
    """Watch while the block runs; gives a future that ends when watching has failed."""
    loop = asyncio.get_running_loop()
    stop = threading.Event()

    def wake_there(key: Key) -> None:
        loop.call_soon_threadsafe(wake, key)

    pool = ThreadPoolExecutor(max_workers=1, thread_name_prefix="kopf")
    ended = asyncio.ensure_future(loop.run_in_executor(pool, _run, endpoint, wake_there, stop))
    try:
        yield ended
    finally:
        stop.set()
        await asyncio.wait([ended], timeout=_STOP_SECONDS)
        pool.shutdown(wait=False)


def _run(endpoint: Endpoint, wake: Wake, stop: threading.Event) -> None:
    """Run kopf in this thread until told to stop."""
    for name, level in _LOGGERS.items():
        logging.getLogger(name).setLevel(level)
    asyncio.run(
        kopf.operator(
            registry=_registry(endpoint, wake),
            settings=_settings(),
            clusterwide=True,
            standalone=True,
            stop_flag=stop,
        )
    )
    if not stop.is_set():
        raise RuntimeError("the watches ended")


def _settings() -> kopf.OperatorSettings:
    settings = kopf.OperatorSettings()
    settings.posting.enabled = False
    settings.scanning.disabled = True  # no right to watch CRDs and namespaces is needed
    settings.process.ultimate_exiting_timeout = None
    # kopf takes what it calls its finalizer off every object that none of its handlers needs it
    # for, so it must never learn the name of ours.
    settings.persistence.finalizer = KOPF_FINALIZER
    settings.persistence.progress_storage = kopf.StatusProgressStorage(field="status.kopf")
    settings.persistence.diffbase_storage = kopf.StatusDiffBaseStorage(field="status.kopf")
    settings.networking.connect_timeout = 10
    settings.networking.request_timeout = 30
    settings.watching.connect_timeout = 10
    settings.watching.server_timeout = 600
    settings.watching.chunk_size = 500
    settings.queueing.idle_timeout = 1
    for child in CHILDREN:
        settings.watching.label_selectors[_selector(child)] = IN_ROOT_NAMESPACES
    requests = _selector(resources.CERTIFICATE_SIGNING_REQUESTS)
    settings.watching.field_selectors[requests] = f"spec.signerName={marks.AGENT_SERVING_SIGNER}"
    return settings


def _registry(endpoint: Endpoint, wake: Wake) -> kopf.OperatorRegistry:
    registry = kopf.OperatorRegistry()

    async def login(**_: Any) -> kopf.AiohttpSession:
        return _session(endpoint)

    async def on_virtual_cluster(meta: Mapping[str, Any], **_: Any) -> None:
        wake(keys.virtual_cluster(meta["namespace"], meta["name"]))

    async def on_cluster_version(meta: Mapping[str, Any], **_: Any) -> None:
        wake(Key("ClusterVersion", "", meta["name"]))

    async def on_request(meta: Mapping[str, Any], **_: Any) -> None:
        wake(Key("CertificateSigningRequest", "", meta["name"]))

    async def on_child(meta: Mapping[str, Any], **_: Any) -> None:
        key = keys.parent_of(meta)
        if key is not None:
            wake(key)

    kopf.on.login(registry=registry)(login)
    handlers: list[tuple[Resource, Any]] = [
        (resources.VIRTUAL_CLUSTERS, on_virtual_cluster),
        (resources.CLUSTER_VERSIONS, on_cluster_version),
        (resources.CERTIFICATE_SIGNING_REQUESTS, on_request),
        *((child, on_child) for child in CHILDREN),
    ]
    for resource, handler in handlers:
        kopf.on.event(
            group=resource.group,
            version=resource.version,
            plural=resource.plural,
            id=f"wake-{resource.plural}",
            registry=registry,
        )(handler)
    return registry


def _selector(resource: Resource) -> Callable[[Any], bool]:
    wanted = (resource.group, resource.version, resource.plural)
    return lambda found: (found.group, found.version, found.plural) == wanted


def _session(endpoint: Endpoint) -> kopf.AiohttpSession:
    """Return a session with our own verification; after a 401 kopf asks for another."""
    headers = {"User-Agent": "vc-manager (kopf)"}
    token = endpoint.token
    if endpoint.token_file is not None:
        token = endpoint.token_file.read_text().strip()
    if token:
        headers["Authorization"] = f"Bearer {token}"
    connector = aiohttp.TCPConnector(
        limit=0, ssl=tls.context(endpoint) if endpoint.is_encrypted else False
    )
    return kopf.AiohttpSession(
        server=endpoint.server,
        aiohttp_session=aiohttp.ClientSession(connector=connector, headers=headers),
    )
