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
from telemetry.probes import Probes
from tenancy import wellknown
from vnagent import backends
from vnagent.authz.permissions import Permits
from vnagent.authz.token_review import Reviews
from vnagent.client.configmap_watch import Bulletin
from vnagent.client.https_client import Origin
from vnagent.limits.concurrency import REQUEST_SECONDS, REQUESTS_AT_ONCE, Streams
from vnagent.limits.token_bucket import Buckets
from vnagent.server.metrics_server import MetricsPort
from vnagent.server.request import Requests
from vnagent.server.server import Server
from vnagent.server.serving_certificate import Credential, Pod, ServingCertificate
from vnagent.settings import DRAIN_SECONDS, Settings, StaticCertificate
from vnagent.stream.file_watch import WatchedFile, watch
from vnagent.stream.tls_contexts import TrustProblemError, open_context, server_context
from vnagent.stream.tls_stream import ReceiveBuffer

WAIT_SECONDS = 1.0

_log = structlog.get_logger(__name__)


class Agent:
    """The agent of one node, or of one target."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        buffer = ReceiveBuffer()
        self._client_authorities = WatchedFile(settings.client_authorities_file)
        self._api_authorities = WatchedFile(settings.api_authorities_file)
        self._token = WatchedFile(settings.token_file)
        self._static = _watched(settings.static_certificate)
        self._api = Origin(
            settings.api, authorities=self._api_authorities, token=self._token, buffer=buffer
        )
        self._way = backends.of(settings, self._api, self._token, buffer)
        self._streams = Streams(per_tenant=settings.streams_per_tenant, total=settings.streams)
        self._permits = Permits()
        requests = Requests(
            permits=self._permits,
            gate=self._way.gate,
            upstream=self._way.upstream,
            reads=self._way.reads,
            streams=self._streams,
            deadlines=settings.deadlines,
            paces=Buckets(REQUESTS_AT_ONCE * settings.streams_per_tenant, REQUEST_SECONDS),
        )
        self._bulletin = Bulletin(
            self._api,
            namespace=settings.pod_namespace,
            name=wellknown.AGENT_ACCESS,
            tell=self._permits.learn,
            lose=self._permits.lose,
        )
        self._server = Server(requests, buffer)
        self._credential: Credential | None = None
        self._serving = asyncio.Event()
        self._probes = Probes(has_metrics=not settings.metrics_port)
        self._metrics = MetricsPort(Reviews(self._api).of, Exposition(), buffer)
        self._probes.ready("serving", lambda: "" if self._server.door.is_open else "not yet")

    async def run(self) -> None:
        """Serve until SIGTERM or SIGINT, then drain."""
        stop = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, stop.set)
        with debug_dump.on_signal({"streams": lambda: self._streams.count}):
            await self._serve(stop)
        self._way.close()
        _log.info("ended")

    async def _serve(self, stop: asyncio.Event) -> None:
        async with self._probes.served(self._settings.health_port), asyncio.TaskGroup() as tasks:
            work = tasks.create_task(self._work())
            await stop.wait()
            _log.info("draining", streams=self._streams.count)
            self._streams.drain()
            await self._server.door.close(drain_seconds=DRAIN_SECONDS)
            await self._metrics.door.close()
            work.cancel()

    async def _work(self) -> None:
        for file in self._files():
            await _have(file)
        for file in self._way.awaited:
            await file.refresh()
        async with asyncio.TaskGroup() as tasks:
            for job in self._way.jobs():
                tasks.create_task(job)
            watched = [*self._files(), *self._way.awaited]
            tasks.create_task(watch(watched, self._file_changed))
            tasks.create_task(self._bulletin.follow())
            if self._static is None:
                pod = Pod(name=self._settings.pod_name, address=self._settings.pod_address)
                tasks.create_task(ServingCertificate(self._api, pod).keep(self._use))
            else:
                self._use(_credential(self._static))
            await self._serving.wait()
            host = self._settings.listen_host
            if self._settings.metrics_port:
                await self._metrics.door.listen(host, self._settings.metrics_port)
            await self._permits.known()
            await self._server.door.listen(host, self._settings.port)
            _log.info("listening", host=host, port=self._settings.port)

    def _files(self) -> list[WatchedFile]:
        own = (self._client_authorities, self._api_authorities, self._token)
        return [*own, *self._way.needed, *(self._static or ())]

    def _use(self, credential: Credential) -> None:
        self._credential = credential
        self._trust()

    async def _file_changed(self, file: WatchedFile) -> None:
        _log.info("file changed", path=str(file.path))
        self._way.changed(file)
        if self._static is not None and file in self._static:
            self._use(_credential(self._static))
        elif file is self._client_authorities:
            self._trust()

    def _trust(self) -> None:
        """Use the present certificate and authorities. Unusable ones are logged and stay unused."""
        if self._credential is None:
            return
        content = self._client_authorities.content
        try:
            context = server_context(
                certificate=self._credential.certificate,
                key=self._credential.key,
                client_authorities=content,
            )
            shown = open_context(certificate=self._credential.certificate, key=self._credential.key)
            authorities = x509.load_pem_x509_certificates(content)
        except (TrustProblemError, ValueError) as error:
            _log.error("certificates cannot be used", error=str(error))
            return
        self._server.trust(context, authorities)
        self._metrics.door.use(shown)
        self._serving.set()


def _watched(static: StaticCertificate | None) -> tuple[WatchedFile, WatchedFile] | None:
    if static is None:
        return None
    return WatchedFile(static.certificate_file), WatchedFile(static.key_file)


def _credential(files: tuple[WatchedFile, WatchedFile]) -> Credential:
    certificate, key = files
    return Credential(certificate.content, key.content)


async def _have(file: WatchedFile) -> None:
    """Wait for a file, because vc-manager or kubelet may write it after the agent starts."""
    while not await file.refresh():  # noqa: ASYNC110 - a file, not a task, is waited for
        await asyncio.sleep(WAIT_SECONDS)
