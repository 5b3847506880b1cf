"""Clusters in memory with declared tenants, for a syncer that is measured alone.

Owns the process of `tests.support.memapi`, its certificates, and the commands to it. Must not know
figures.
"""

import asyncio
import json
import resource
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import trustme

from bench.programs.super_cluster import ROOT
from kubeio.api.client import Client
from kubeio.config.endpoint import Endpoint
from tenancy.resources import NAMESPACES, VIRTUAL_CLUSTERS
from tests.support.controlplane import client_pair, kubeconfig
from tests.support.declared_tenants import HOME, enlist
from tests.support.memapi.clusters import service_range
from tests.support.processes import ProgramProcess

_LINE_BYTES = 1 << 28
_USER = "syncer"


@dataclass(kw_only=True)
class InMemoryStage:
    """Everything but the syncer, running."""

    folder: Path
    process: ProgramProcess
    ports: list[int]
    authority: trustme.CA
    pair: tuple[bytes, bytes]
    tenants: list[str] = field(default_factory=list)

    @property
    def pid(self) -> int:
        """The process that serves all clusters."""
        return self.process.pid

    def syncer_kubeconfig(self) -> Path:
        """Write the super cluster's kubeconfig. Returns its path."""
        path = self.folder / "syncer.kubeconfig"
        path.write_bytes(self._kubeconfig("super", self.ports[0]))
        path.chmod(0o600)
        return path

    async def tell(self, do: str, **more: Any) -> dict[str, Any]:
        """Give a command and wait for its answer, which may take long."""
        reader, writer = await asyncio.open_unix_connection(
            self.folder / "control.sock", limit=_LINE_BYTES
        )
        writer.write(json.dumps({"do": do, **more}).encode() + b"\n")
        line = await reader.readline()
        writer.close()
        if not line:
            raise SystemExit(f"the clusters in memory do not answer. {self.process.tail()}")
        found: dict[str, Any] = json.loads(line)
        return found

    async def declare(self, count: int) -> None:
        """Declare tenants, as vc-manager leaves them."""
        async with Client(self._super_endpoint()) as below:
            space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": HOME}}
            await below.create(NAMESPACES, space)
            for number in range(count):
                name = f"bench-{number}"
                port = self.ports[number + 1]
                kubeconfigs = {
                    user: self._kubeconfig(f"tenant-{number}", port) for user in ("syncer", "admin")
                }
                span = service_range(number)
                await enlist(below, kubeconfigs, name=name, service_range=span)
                self.tenants.append(name)

    async def suspend(self, number: int) -> None:
        """Suspend the syncing of a tenant."""
        async with Client(self._super_endpoint()) as super_client:
            patch = {"spec": {"suspend": True}}
            name = self.tenants[number]
            await super_client.patch(VIRTUAL_CLUSTERS, name, patch, namespace="default")

    def _super_endpoint(self) -> Endpoint:
        return Endpoint(
            server=self._server(self.ports[0]),
            name="super",
            ca=self.authority.cert_pem.bytes(),
            client_cert=self.pair[0],
            client_key=self.pair[1],
        )

    def _kubeconfig(self, name: str, port: int) -> bytes:
        ca = self.authority.cert_pem.bytes()
        return kubeconfig(name, self._server(port), ca, _USER, self.pair)

    @staticmethod
    def _server(port: int) -> str:
        return f"https://127.0.0.1:{port}"


@asynccontextmanager
async def running(
    folder: Path,
    *,
    tenants: int,
    shape: str,
    step: float,
    events: bool,
    echo_first: float,
    token_seconds: float = 0.0,
) -> AsyncIterator[InMemoryStage]:
    """Serve a super cluster and tenants for the length of a block."""
    authority = trustme.CA()
    serving = authority.issue_cert("127.0.0.1", "localhost")
    for name, content in (
        ("ca.crt", authority.cert_pem.bytes()),
        ("serving.crt", b"".join(each.bytes() for each in serving.cert_chain_pems)),
        ("serving.key", serving.private_key_pem.bytes()),
    ):
        path = folder / name
        path.touch(mode=0o600)
        path.write_bytes(content)
    command = [
        *("env", f"PYTHONPATH={ROOT}", sys.executable, "-m", "tests.support.memapi", str(folder)),
        *(f"--tenants={tenants}", f"--shape={shape}", f"--step={step}"),
        *(f"--echo-first={echo_first}", f"--token-seconds={token_seconds}"),
        *(() if events else ("--no-events",)),
    ]
    with _many_files():
        process = ProgramProcess(command, folder / "memapi.log")
        try:
            stage = InMemoryStage(
                folder=folder,
                process=process,
                ports=await _ports(folder, process),
                authority=authority,
                pair=client_pair(authority, _USER, ""),
            )
            await stage.declare(tenants)
            yield stage
        finally:
            await process.stop()


async def _ports(folder: Path, process: ProgramProcess) -> list[int]:
    path = folder / "ports.json"
    while not path.exists():
        if process.has_ended:
            raise SystemExit(f"the clusters in memory did not start. {process.tail()}")
        await asyncio.sleep(0.02)
    found: list[int] = json.loads(path.read_text())
    return found


@contextmanager
def _many_files() -> Iterator[None]:
    """Let the processes that are started have as many connections as the system allows."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
