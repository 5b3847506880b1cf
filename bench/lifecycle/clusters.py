"""Clusters of a measurement: a super cluster with simulated pods, and tenants' API servers.

Owns start and stop: the super cluster's etcd, API server, scheduler and kwok, and trimmed API
servers of tenants that share one etcd. The syncer gets exactly the rights of its tables and the
chart's admission policy, as installed. Must not know loads. All programs listen on loopback, and
end with this process.
"""

import asyncio
import sys
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from bench.programs.super_cluster import ROOT
from kubeio.api.client import Client
from kubeio.errors import AlreadyExists
from syncer.rbac import TENANT_RBAC_RULES
from tenancy.resources import NAMESPACES, NODES
from tests.support import kwok_nodes
from tests.support.controlplane import LocalControlPlane
from tests.support.declared_tenants import (
    SUPER_SYNCER,
    UNUSED,
    TenantServer,
    declare,
    install,
)
from tests.support.grants import grant
from tests.support.load_shapes import LoadShape
from tests.support.processes import ProgramProcess
from tools.testbed.artifacts import binaries

DIRECT = "direct"
"""Namespace of the pods that no syncer syncs."""
_AT_ONCE = 3  # API servers that start together on two cores


@dataclass(kw_only=True)
class BenchStage:
    """All running programs except the syncer."""

    folder: Path
    shape: LoadShape
    super_plane: LocalControlPlane
    below: Client
    """Client with the super cluster's administrator credential."""
    places: list[TenantServer] = field(default_factory=list)
    programs: dict[str, ProgramProcess] = field(default_factory=dict)
    """Scheduler and kwok."""

    def pids(self) -> dict[str, int]:
        """Return all processes of the clusters by role, and tenants' API servers by number."""
        found = {f"super {name}": pid for name, pid in self.super_plane.pids().items()}
        found |= {name: program.pid for name, program in self.programs.items()}
        for number, place in enumerate(self.places):
            found |= {f"tenant-{number} {name}": pid for name, pid in place.plane.pids().items()}
        return found

    def clusters(self) -> Iterable[tuple[str, str, Path]]:
        """Return name, side and administrator's kubeconfig of every cluster."""
        yield "super", "super", self.kubeconfig("super", self.super_plane)
        for place in self.places:
            yield place.plane.name, "tenant", self.kubeconfig(place.plane.name, place.plane)

    def syncer_kubeconfig(self) -> Path:
        """Write the super cluster's kubeconfig with the syncer's rights. Returns its path."""
        return self.kubeconfig("syncer", self.super_plane, SUPER_SYNCER, "")

    def kubeconfig(
        self,
        name: str,
        plane: LocalControlPlane,
        user: str = "admin",
        group: str = "system:masters",
    ) -> Path:
        """Write a kubeconfig for a user. Returns its path."""
        path = self.folder / f"{name}.kubeconfig"
        path.write_bytes(plane.kubeconfig(user, group=group))
        path.chmod(0o600)
        return path


@asynccontextmanager
async def running(
    folder: Path,
    *,
    tenants: int,
    shape: LoadShape,
    node_count: int,
    audit: bool,
    gate: bool,
    scheduler: bool,
    gogc: str,
) -> AsyncIterator[BenchStage]:
    """Run all programs for the duration of a block."""
    async with AsyncExitStack() as stack:
        plane = LocalControlPlane(
            folder / "super",
            name="super",
            audit=audit,
            api_args={**_without(shape, "TaintNodesByCondition"), "max-requests-inflight": "800"},
            env={"GOGC": gogc},
        )
        stack.push_async_callback(plane.stop)
        await plane.start()
        below = await stack.enter_async_context(Client(plane.endpoint))
        stage = BenchStage(folder=folder, shape=shape, super_plane=plane, below=below)
        await install(below, SUPER_SYNCER, gate=gate)
        for node in kwok_nodes.nodes(node_count):
            await below.create(NODES, node)
        await furnish(below, DIRECT, shape)
        _start_programs(stage, stack, _scheduler if scheduler else _binder(node_count))
        await _start_tenants(stage, tenants, stack, audit=audit, gogc=gogc)
        yield stage


async def furnish(client: Client, namespace: str, shape: LoadShape) -> None:
    """Create a namespace with all objects that pods of a shape need."""
    space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}
    with suppress(AlreadyExists):
        await client.create(NAMESPACES, space)
    for resource, body in shape.companions():
        await client.create(resource, body, namespace=namespace)


def _start_programs(
    stage: BenchStage, stack: AsyncExitStack, scheduler: Callable[[Path], list[str]]
) -> None:
    stages = stage.folder / "kwok.yaml"
    stages.write_text(kwok_nodes.documents(staged=stage.shape.is_real))
    kubeconfig = stage.kubeconfig("programs", stage.super_plane, "programs")
    kwok = [
        str(binaries.path("kwok")),
        f"--kubeconfig={kubeconfig}",
        f"--config={stages}",
        "--cidr=10.128.0.0/9",
        "--v=WARN",
    ]
    stage.programs = {
        "kwok": ProgramProcess(kwok, stage.folder / "kwok.log"),
        "kube-scheduler": ProgramProcess(scheduler(kubeconfig), stage.folder / "scheduler.log"),
    }
    for program in stage.programs.values():
        stack.push_async_callback(program.stop)


def _scheduler(kubeconfig: Path) -> list[str]:
    return [
        str(binaries.path("kube-scheduler")),
        f"--kubeconfig={kubeconfig}",
        f"--authentication-kubeconfig={kubeconfig}",
        f"--authorization-kubeconfig={kubeconfig}",
        "--leader-elect=false",
        "--secure-port=0",
        "--kube-api-qps=1000",
        "--kube-api-burst=2000",
    ]


def _binder(node_count: int) -> Callable[[Path], list[str]]:
    return lambda kubeconfig: [
        *("env", f"PYTHONPATH={ROOT}"),
        *(sys.executable, "-m", "bench.lifecycle.scheduler", str(kubeconfig), str(node_count)),
    ]


async def _start_tenants(
    stage: BenchStage, count: int, stack: AsyncExitStack, *, audit: bool, gogc: str
) -> None:
    first: LocalControlPlane | None = None
    slots = asyncio.Semaphore(_AT_ONCE)
    planes: list[LocalControlPlane] = []
    for number in range(count):
        service_range = _slice(number)
        plane = LocalControlPlane(
            stage.folder / f"tenant-{number}",
            name=f"tenant-{number}",
            service_range=service_range,
            audit=audit,
            api_args={
                # As vc-manager has it: or each node that is shown would look closed by its tenant.
                **_without(stage.shape, "TaintNodesByCondition"),
                "enable-priority-and-fairness": "false",
                "runtime-config": ",".join(f"{group}=false" for group in UNUSED),
            },
            store_of=first,
            env={"GOGC": gogc},
        )
        first = first or plane
        planes.append(plane)
        stack.push_async_callback(plane.stop)

    async def start(number: int, plane: LocalControlPlane) -> TenantServer:
        async with slots:
            await plane.start()
        async with Client(plane.endpoint) as above:
            await grant(above, TENANT_RBAC_RULES, "syncer")
            await furnish(above, "default", stage.shape)
        return await declare(
            stage.below, plane, name=f"bench-{number}", service_range=_slice(number)
        )

    if planes:
        stage.places.append(await start(0, planes[0]))  # it runs the etcd of the others
        rest = (start(number, plane) for number, plane in enumerate(planes[1:], 1))
        stage.places += await asyncio.gather(*rest)
    sys.stderr.write(f"{count} tenants run\n")


def _slice(number: int) -> str:
    """Return a tenant's service range, part of the super cluster's. The first part stays free."""
    return f"10.96.{4 * (number + 1)}.0/22"


def _without(shape: LoadShape, *plugins: str) -> dict[str, str]:
    """Return the flag that disables admission plugins whose controllers do not run here."""
    names = plugins if shape.has_account else (*plugins, "ServiceAccount")
    return {"disable-admission-plugins": ",".join(names)}
