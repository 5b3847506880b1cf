"""Start, wiring and orderly end of the node agent.

Hazard: the port must open last, after the client authority and the policy are known. Otherwise
tenants could connect before the agent can verify or refuse them.
"""

import asyncio
import signal

import structlog
from cryptography import x509

from telemetry import debug_dump
from telemetry.exposition import Exposition
from telemetry.probes import HealthProbes
from tenancy import wellknown
from vnagent import backends
from vnagent.authz.permissions import PermissionEnforcer
from vnagent.authz.token_review import TokenReviewer
from vnagent.client.configmap_watch import ConfigMapWatch
from vnagent.client.https_client import HttpsClient
from vnagent.limits.concurrency import (
    REQUEST_BURST_PER_STREAM,
    REQUEST_INTERVAL_SECONDS,
    StreamLimiter,
)
from vnagent.limits.token_bucket import TenantBuckets
from vnagent.server.metrics_server import MetricsServer
from vnagent.server.request import RequestHandler
from vnagent.server.server import AgentServer
from vnagent.server.serving_certificate import AgentPod, ServingCertificate, ServingKeyPair
from vnagent.settings import DRAIN_SECONDS, AgentSettings, StaticCertificate
from vnagent.stream.file_watch import WatchedFile, watch_files
from vnagent.stream.receive_buffer import ReceiveBuffer
from vnagent.stream.tls_contexts import (
    InvalidTrustError,
    create_server_context,
    create_unauthenticated_context,
)

FILE_POLL_SECONDS = 1.0

_log = structlog.get_logger(__name__)


class AgentProcess:
    """The agent of one node, or of one target."""

    def __init__(self, settings: AgentSettings) -> None:
        self._settings = settings
        buffer = ReceiveBuffer()
        self._client_authorities = WatchedFile(settings.client_authorities_file)
        self._api_authorities = WatchedFile(settings.api_authorities_file)
        self._token = WatchedFile(settings.token_file)
        self._static_certificate = _watch_files(settings.static_certificate)
        self._api = HttpsClient(
            settings.api, authorities=self._api_authorities, token=self._token, buffer=buffer
        )
        self._backend = backends.create_backend(settings, self._api, self._token, buffer)
        self._streams = StreamLimiter(
            per_tenant=settings.streams_per_tenant, total=settings.streams
        )
        self._permission_enforcer = PermissionEnforcer()
        requests = RequestHandler(
            permits=self._permission_enforcer,
            gate=self._backend.authorizer,
            upstream=self._backend.upstream,
            reads=self._backend.reads,
            streams=self._streams,
            deadlines=settings.deadlines,
            paces=TenantBuckets(
                REQUEST_BURST_PER_STREAM * settings.streams_per_tenant, REQUEST_INTERVAL_SECONDS
            ),
        )
        self._config_map_watch = ConfigMapWatch(
            self._api,
            namespace=settings.pod_namespace,
            name=wellknown.AGENT_ACCESS,
            on_data=self._permission_enforcer.update,
            on_lost=self._permission_enforcer.mark_lost,
        )
        self._server = AgentServer(requests, buffer)
        self._credential: ServingKeyPair | None = None
        self._serving = asyncio.Event()
        self._probes = HealthProbes(has_metrics=not settings.metrics_port)
        self._metrics = MetricsServer(TokenReviewer(self._api).review, Exposition(), buffer)
        self._probes.add_readiness_check(
            "serving", lambda: "" if self._server.listener.is_open else "not yet"
        )

    async def run(self) -> None:
        """Serve until SIGTERM or SIGINT, then drain."""
        stop = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, stop.set)
        with debug_dump.dump_on_signal({"streams": lambda: self._streams.count}):
            await self._serve_until(stop)
        self._backend.close()
        _log.info("ended")

    async def _serve_until(self, stop: asyncio.Event) -> None:
        async with (
            self._probes.serve_in_block(self._settings.health_port),
            asyncio.TaskGroup() as tasks,
        ):
            work = tasks.create_task(self._run_jobs())
            await stop.wait()
            _log.info("draining", streams=self._streams.count)
            self._streams.stop_accepting()
            await self._server.listener.close(drain_seconds=DRAIN_SECONDS)
            await self._metrics.listener.close()
            work.cancel()

    async def _run_jobs(self) -> None:
        for file in self._list_watched_files():
            await _wait_for_file(file)
        for file in self._backend.optional_files:
            await file.refresh()
        async with asyncio.TaskGroup() as tasks:
            for job in self._backend.create_jobs():
                tasks.create_task(job)
            watched = [*self._list_watched_files(), *self._backend.optional_files]
            tasks.create_task(watch_files(watched, self._handle_file_changed))
            tasks.create_task(self._config_map_watch.run())
            if self._static_certificate is None:
                pod = AgentPod(name=self._settings.pod_name, address=self._settings.pod_address)
                tasks.create_task(ServingCertificate(self._api, pod).run(self._use_key_pair))
            else:
                self._use_key_pair(_load_key_pair(self._static_certificate))
            await self._serving.wait()
            host = self._settings.listen_host
            if self._settings.metrics_port:
                await self._metrics.listener.listen(host, self._settings.metrics_port)
            await self._permission_enforcer.wait_known()
            await self._server.listener.listen(host, self._settings.port)
            _log.info("listening", host=host, port=self._settings.port)

    def _list_watched_files(self) -> list[WatchedFile]:
        own = (self._client_authorities, self._api_authorities, self._token)
        return [*own, *self._backend.required_files, *(self._static_certificate or ())]

    def _use_key_pair(self, credential: ServingKeyPair) -> None:
        self._credential = credential
        self._update_tls_context()

    async def _handle_file_changed(self, file: WatchedFile) -> None:
        _log.info("file changed", path=str(file.path))
        self._backend.handle_file_changed(file)
        if self._static_certificate is not None and file in self._static_certificate:
            self._use_key_pair(_load_key_pair(self._static_certificate))
        elif file is self._client_authorities:
            self._update_tls_context()

    def _update_tls_context(self) -> None:
        """Use the present certificate and authorities. Unusable ones are logged and stay unused."""
        if self._credential is None:
            return
        content = self._client_authorities.content
        try:
            context = create_server_context(
                certificate=self._credential.certificate,
                key=self._credential.key,
                client_authorities=content,
            )
            shown = create_unauthenticated_context(
                certificate=self._credential.certificate, key=self._credential.key
            )
            authorities = x509.load_pem_x509_certificates(content)
        except (InvalidTrustError, ValueError) as error:
            _log.error("certificates cannot be used", error=str(error))
            return
        self._server.use_context(context, authorities)
        self._metrics.listener.use_context(shown)
        self._serving.set()


def _watch_files(static: StaticCertificate | None) -> tuple[WatchedFile, WatchedFile] | None:
    if static is None:
        return None
    return WatchedFile(static.certificate_file), WatchedFile(static.key_file)


def _load_key_pair(files: tuple[WatchedFile, WatchedFile]) -> ServingKeyPair:
    certificate, key = files
    return ServingKeyPair(certificate.content, key.content)


async def _wait_for_file(file: WatchedFile) -> None:
    """Wait for a file, because vc-manager or kubelet may write it after the agent starts."""
    while not await file.refresh():  # noqa: ASYNC110 - a file, not a task, is waited for
        await asyncio.sleep(FILE_POLL_SECONDS)
