"""Replicas of the API proxy as the chart runs them: HAProxy with the chart's configuration, and
`vc-manager api-proxy` beside it. The rotation of their Service, and TLS servers of tenants.

Hazard: HAProxy reaches no loopback address, so the servers of tenants listen on another one.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import ssl
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path

import trustme

from tests.support.own_address import OWN
from tests.support.processes import ProgramProcess, free_port
from tools.testbed.artifacts import haproxy, product
from tools.testbed.progress import StepPrinter
from vcmanager.api_proxy.runtime_api import RuntimeApi

CONFIG = product.REPOSITORY / "charts/virtual-cluster/files/api-proxy/haproxy.cfg"
HELLO, WATCH = b"hello\n", b"watch\n"


class ProxyReplica:
    """One pod of the proxy: two processes that share a folder."""

    def __init__(self, folder: Path, kubeconfig: Path, base_domain: str) -> None:
        """Choose ports. `start` starts both processes."""
        folder.mkdir()
        self.port, self.status_port, self.probe_port = free_port(), free_port(), free_port()
        self._folder = folder
        self._settings = {
            "LISTEN": f"127.0.0.1:{self.port}",
            "STATUS_LISTEN": f"127.0.0.1:{self.status_port}",
            "RUNTIME_SOCKET": str(folder / "s"),
            "MAP_FILE": str(folder / "hosts.map"),
            "MAX_CONNECTIONS": "1000",
            "MAX_CONNECTIONS_PER_HOST": "100",
            "IDLE_TIMEOUT": "24h",
            "DRAIN_TIME": "1h",
            "BASE_DOMAIN": base_domain,
            "PORT": str(self.probe_port),
            "PYTHONPATH": str(product.REPOSITORY),
        }
        self._kubeconfig = kubeconfig
        self.runtime = RuntimeApi(str(folder / "s"))
        self.haproxy: ProgramProcess | None = None
        self.sidecar: ProgramProcess | None = None

    def start(self) -> None:
        """Start both processes."""
        self.start_haproxy()
        self.start_sidecar()

    def start_haproxy(self) -> None:
        """Start HAProxy alone."""
        command = haproxy.build_command(haproxy.build(StepPrinter(quiet=True)))
        self.haproxy = ProgramProcess(
            [*command, "-db", "-f", str(CONFIG)], self._folder / "haproxy.log", self._settings
        )

    def start_sidecar(self) -> None:
        """Start the program that keeps the map."""
        words = ["-m", "vcmanager", "api-proxy", "--kubeconfig", str(self._kubeconfig)]
        self.sidecar = ProgramProcess(
            [sys.executable, *words], self._folder / "sidecar.log", self._settings
        )

    async def is_ready(self) -> bool:
        """Return whether both containers would be ready."""
        return "200" in await self.fetch(self.probe_port, "/readyz") and "200" in await self.fetch(
            self.status_port, "/healthz"
        )

    async def fetch(self, port: int, path: str) -> str:
        """Return the answer to a GET. Empty while nothing listens."""
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
        except OSError:
            return ""
        writer.write(f"GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode())
        with contextlib.closing(writer):
            return (await reader.read()).decode()

    async def read_hosts(self) -> set[str]:
        """Return the host names in the map of the running HAProxy."""
        answer = await self.runtime.read(f"show map {self._settings['MAP_FILE']}")
        return {line.split()[1] for line in answer.splitlines() if line}

    def stop_softly(self) -> None:
        """Send the stop signal of the image: open connections stay."""
        assert self.haproxy is not None
        os.kill(self.haproxy.pid, signal.SIGUSR1)

    async def close(self) -> None:
        """End both processes."""
        for process in (self.haproxy, self.sidecar):
            if process is not None and not process.has_ended:
                process.kill()


@dataclass
class ServiceRotation:
    """The ready pods of the proxy's Service, one after the other, as kube-proxy chooses them."""

    replicas: list[ProxyReplica] = field(default_factory=list)
    _number: int = 0

    def choose(self) -> ProxyReplica:
        """Return the pod of the next connection."""
        self._number += 1
        return self.replicas[self._number % len(self.replicas)]


class TenantApi:
    """TLS server that stands for the API server of one tenant, with an authority of its own."""

    def __init__(self, name: str, host: str) -> None:
        """Issue its certificate."""
        self.name, self.host = name, host
        self.authority = trustme.CA(key_type=trustme.KeyType.ECDSA)
        self.port = 0
        self.events = asyncio.Event()
        self._server: asyncio.Server | None = None

    @property
    def address(self) -> str:
        """Address as vc-manager writes it into the status."""
        return f"{OWN}:{self.port}"

    async def start(self) -> asyncio.Server:
        """Listen."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.authority.issue_cert(self.host, key_type=trustme.KeyType.ECDSA).configure_cert(context)
        self._server = await asyncio.start_server(self._answer, OWN, 0, ssl=context)
        self.port = self._server.sockets[0].getsockname()[1]
        return self._server

    def close(self) -> None:
        """Stop listening."""
        assert self._server is not None
        self._server.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            line = await reader.readline()
            if line == WATCH:
                writer.write(b"watching\n")
                await self.events.wait()
            writer.write(f"{self.name}\n".encode())
            await writer.drain()
        writer.close()

    def client_context(self) -> ssl.SSLContext:
        """Return the context of a client that trusts this tenant only."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        self.authority.configure_trust(context)
        return context

    @contextlib.asynccontextmanager
    async def connect(
        self, port: int, host: str = ""
    ) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
        """Connect to a port of loopback, with the host name of this tenant or another one."""
        reader, writer = await asyncio.open_connection(
            "127.0.0.1", port, ssl=self.client_context(), server_hostname=host or self.host
        )
        try:
            yield reader, writer
        finally:
            writer.close()

    async def ask(self, port: int) -> str:
        """Return the name that answers behind a port. Raises OSError if the request fails."""
        async with asyncio.timeout(30), self.connect(port) as (reader, writer):
            writer.write(HELLO)
            answer = await reader.read()
        if not answer:
            raise ConnectionResetError(f"{self.host}: closed without an answer")
        return answer.decode().strip()

    async def try_ask(self, port: int) -> str:
        """Return the name that answers behind a port. Empty if the request fails."""
        try:
            return await self.ask(port)
        except OSError:
            return ""
