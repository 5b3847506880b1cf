"""The servers of a drill: a super cluster, tenants, the syncer's processes, and who watches them.

Owns starting and stopping. Tenants are trimmed API servers that share one etcd, unless a drill
breaks stores. The syncer has the rights of its tables and meets the chart's gate. Must not break
anything: `drills` does. Everything listens on loopback, and ends with this process.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from kubeio.api.client import Client
from kubeio.errors import KubeError
from syncer.rbac import TENANT_RBAC_RULES
from tenancy import conditions, wellknown
from tenancy.resources import LEASES, NAMESPACES, NODES, SERVICES, VIRTUAL_CLUSTERS
from tests.chaos import edits
from tests.chaos.oracles import Violation
from tests.chaos.processes import outage, rest, steps
from tests.chaos.processes.faults import FaultScript
from tests.chaos.processes.following import KindWatch
from tests.chaos.processes.judge import AuditLogTail, DrillChecker
from tests.chaos.processes.kubelet import DrillKubelet
from tests.chaos.processes.outage import OutageTarget
from tests.chaos.processes.processes import SyncerSlot
from tests.chaos.processes.proxy import FaultProxy
from tests.chaos.processes.sides import SYNCED, DrillTenant
from tests.chaos.processes.tasks import ended
from tests.support import kwok_nodes
from tests.support.controlplane import LocalControlPlane
from tests.support.declared_tenants import HOME, SUPER_SYNCER, UNUSED, enlist, install
from tests.support.eventually import eventually
from tests.support.grants import grant
from tests.support.memapi.clusters import service_range

NODE_COUNT = 2
CALM_SECONDS = 150.0
"""How long everything may take to be as it must be. A silent watch is given up after 75."""
_SUPER = "super"
_TENANT_USER = "syncer"
_LOOK_SECONDS = 0.25
_LEFT_SILENT = 0.05


@dataclass(frozen=True, kw_only=True)
class DrillPlan:
    """The parts that a drill needs."""

    tenants: int = 2
    replicas: int = 1
    is_proxied: bool = False
    has_own_stores: bool = False
    audits_tenants: bool = False
    has_target: bool = False
    """Whether the last tenant has its pods in a second cluster as well."""
    calm_seconds: float = CALM_SECONDS
    mutant: str = ""
    """In which way the syncer is broken on purpose. Empty: in none."""
    env: Mapping[str, str] = field(default_factory=dict)
    """Of the syncer's processes."""

    def asked(self, mutant: str, calm_seconds: float) -> DrillPlan:
        """Return the same plan with what a run of it may choose."""
        return replace(self, mutant=mutant, calm_seconds=calm_seconds)


@dataclass(kw_only=True)
class DrillStage:
    """Everything, running."""

    folder: Path
    super_plane: LocalControlPlane
    below: Client
    """The super cluster's administrator."""
    script: FaultScript
    calm_seconds: float = CALM_SECONDS
    tenants: list[DrillTenant] = field(default_factory=list)
    proxies: dict[str, FaultProxy] = field(default_factory=dict)
    """By side. Empty when no one stands in the middle."""
    slots: list[SyncerSlot] = field(default_factory=list)
    followings: list[KindWatch] = field(default_factory=list)
    last_seen: list[Violation] = field(default_factory=list)
    """What took longest to be as it must be."""
    outage_target: OutageTarget | None = None
    """The second cluster, where a drill has one."""
    held: set[asyncio.Task[None]] = field(default_factory=set)
    """Those that will let watches go on."""

    def __post_init__(self) -> None:
        """Judge from the beginning."""
        self.judge = DrillChecker(self.tenants)
        self.audit = AuditLogTail(self.super_plane.audit_log, SUPER_SYNCER)

    @property
    def planes(self) -> list[LocalControlPlane]:
        """All clusters, the super one first."""
        return [self.super_plane, *(tenant.plane for tenant in self.tenants)]

    async def holder(self) -> str:
        """Return the name of the process that has the Lease. Empty when that is not known."""
        return str((await self._lease()).get("holderIdentity") or "").split("_")[0]

    async def renewed_at(self) -> datetime:
        """Return when the Lease was renewed. Long ago when that is not known."""
        told = (await self._lease()).get("renewTime")
        return datetime.fromisoformat(told) if told else datetime.min.replace(tzinfo=UTC)

    async def _lease(self) -> Mapping[str, Any]:
        try:
            return dict((await self.below.get(LEASES, wellknown.SYNCER, namespace=HOME))["spec"])
        except KubeError:
            return {}

    async def says(self, tenant: DrillTenant, kind: str, status: str) -> bool:
        """Return whether a condition of a VirtualCluster is like that. False when no one knows."""
        try:
            found = await self.below.get(
                VIRTUAL_CLUSTERS, tenant.tenant.name, namespace=tenant.tenant.namespace
            )
        except KubeError:
            return False
        told = conditions.find_condition((found.get("status") or {}).get("conditions"), kind)
        return told is not None and told["status"] == status

    def slot_of(self, process: str) -> SyncerSlot | None:
        """Return whose process a name is."""
        return next(
            (each for each in self.slots if each.replica and each.replica.name == process), None
        )

    async def look(self) -> list[Violation]:
        """Compare both sides once, from live lists."""
        try:
            clients = [self.below, *(tenant.client for tenant in self.tenants)]
            below, *above = await asyncio.gather(*(rest.contents(each) for each in clients))
        except KubeError as problem:
            return [Violation("unreachable", str(problem))]
        return rest.findings(below, list(zip(self.tenants, above, strict=True)))

    async def calm(self) -> list[Violation]:
        """Wait until nothing is wrong and stays so. Return what is still wrong after the time."""
        loop = asyncio.get_running_loop()
        ends, quiet = loop.time() + self.calm_seconds, 0
        while True:
            found = await self.look()
            self.last_seen = found or self.last_seen
            quiet = 0 if found else quiet + 1
            if quiet > 1 or loop.time() > ends:
                return found
            await asyncio.sleep(_LOOK_SECONDS)

    async def heal(self, chance: random.Random) -> None:
        """End the faults. Some of the watches that fell silent are left to their clients.

        Returns when nothing of the script is on its way.
        """
        self.script.heal()
        await asyncio.gather(*self.held)
        for proxy in self.proxies.values():
            for relay in list(proxy.relays):
                if relay.is_silent and chance.random() >= _LEFT_SILENT:
                    relay.cut()
        await eventually(lambda: not self.script.under_way)

    def verdict(self) -> list[Violation]:
        """Return what was broken since the last look, and forget it."""
        for event in self.audit.writes():
            self.judge.sent(event)
        found = self.judge.findings[:]
        found += [Violation("hasty", text) for text in self.script.hasty]
        found += [Violation("process", text) for slot in self.slots for text in slot.fell]
        self.judge.findings.clear()
        self.script.hasty.clear()
        for slot in self.slots:
            slot.fell.clear()
        return found


@asynccontextmanager
async def running(folder: Path, plan: DrillPlan) -> AsyncIterator[DrillStage]:
    """Run everything for the length of a block."""
    async with AsyncExitStack() as stack:
        plane = LocalControlPlane(
            folder / _SUPER,
            name=_SUPER,
            audit=True,
            api_args={"disable-admission-plugins": "TaintNodesByCondition,ServiceAccount"},
        )
        stack.push_async_callback(plane.stop)
        await plane.start()
        below = await stack.enter_async_context(Client(plane.endpoint))
        script = FaultScript(random.Random(0))  # noqa: S311 - the same at each run
        stage = DrillStage(
            folder=folder,
            super_plane=plane,
            below=below,
            script=script,
            calm_seconds=plan.calm_seconds,
        )
        await install(below, SUPER_SYNCER, gate=True)
        for node in kwok_nodes.nodes(NODE_COUNT):
            await below.create(NODES, node)
        if plan.is_proxied:
            await _stand_between(stage, _SUPER, plane, SUPER_SYNCER, stack)
        for tenant in await _start_tenants(folder, plan, stack):
            await _enlist(stage, plan, tenant, stack)
        background = await stack.enter_async_context(ended())
        await _watch(stage, background)
        _start_syncers(stage, plan, background, stack)
        await steps.sentinel(stage, 0)
        found = await stage.calm()
        assert not found, f"it does not begin: {found}"
        await _strangers(stage)
        if plan.has_target:
            stage.outage_target = await outage.join(stage, stack)
        yield stage


async def _start_tenants(
    folder: Path, plan: DrillPlan, stack: AsyncExitStack
) -> Sequence[tuple[LocalControlPlane, Client]]:
    planes: list[LocalControlPlane] = []
    for number in range(plan.tenants):
        shared = planes[0] if planes and not plan.has_own_stores else None
        plane = LocalControlPlane(
            folder / f"tenant{number}",
            name=f"tenant{number}",
            service_range=service_range(number),
            audit=plan.audits_tenants,
            api_args={
                # As vc-manager has it: a taint of the server's own would pass for the tenant's.
                "disable-admission-plugins": "TaintNodesByCondition,ServiceAccount",
                "enable-priority-and-fairness": "false",
                "runtime-config": ",".join(f"{group}=false" for group in UNUSED),
            },
            store_of=shared,
        )
        planes.append(plane)
        stack.push_async_callback(plane.stop)
    await planes[0].start()  # it may run the etcd of the others
    await asyncio.gather(*(plane.start() for plane in planes[1:]))
    clients = [await stack.enter_async_context(Client(plane.endpoint)) for plane in planes]
    return list(zip(planes, clients, strict=True))


async def _enlist(
    stage: DrillStage,
    plan: DrillPlan,
    found: tuple[LocalControlPlane, Client],
    stack: AsyncExitStack,
) -> None:
    plane, client = found
    number = len(stage.tenants)
    await grant(client, TENANT_RBAC_RULES, _TENANT_USER)
    for space in edits.SPACES:
        if space != "default":
            await client.create(NAMESPACES, {"metadata": {"name": space}})
    kubeconfig = plane.kubeconfig(_TENANT_USER, group="")
    if plan.is_proxied:
        between = await _stand_between(stage, plane.name, plane, _TENANT_USER, stack)
        kubeconfig = between.kubeconfig()
    tenant = await enlist(
        stage.below,
        {"syncer": kubeconfig},
        name=plane.name,
        service_range=service_range(number),
    )
    stage.tenants.append(DrillTenant(number, plane, tenant, client))


async def _stand_between(
    stage: DrillStage, side: str, plane: LocalControlPlane, user: str, stack: AsyncExitStack
) -> FaultProxy:
    proxy = FaultProxy(side, plane.endpoint_for(user), stage.script)
    stage.proxies[side] = await stack.enter_async_context(proxy)
    return proxy


async def _watch(stage: DrillStage, background: asyncio.TaskGroup) -> None:
    judge = stage.judge
    for resource in SYNCED:
        stage.followings.append(KindWatch(stage.below, resource, judge.below(resource)))
        stage.followings += [
            KindWatch(tenant.client, resource, judge.above(tenant, resource))
            for tenant in stage.tenants
        ]
    for following in stage.followings:
        background.create_task(following.run())
    names = tuple(str(node["metadata"]["name"]) for node in kwok_nodes.nodes(NODE_COUNT))
    background.create_task(DrillKubelet(stage.below, names).run())


def _start_syncers(
    stage: DrillStage, plan: DrillPlan, background: asyncio.TaskGroup, stack: AsyncExitStack
) -> None:
    kubeconfig = stage.super_plane.kubeconfig(SUPER_SYNCER, group="")
    if stage.proxies:
        kubeconfig = stage.proxies[_SUPER].kubeconfig()
    for number in range(plan.replicas):
        slot = SyncerSlot(
            f"syncer-{number}", stage.folder, kubeconfig, mutant=plan.mutant, env=plan.env
        )
        stage.slots.append(slot)
        slot.start()
        stack.callback(slot.kill)
        background.create_task(slot.keep())


async def _strangers(stage: DrillStage) -> None:
    """Put objects of no tenant's into the super namespaces, and remember how they are."""
    for tenant in stage.tenants:
        for space in edits.SPACES:
            for resource, body in steps.bystanders(tenant.below(space)):
                made = await stage.below.create(resource, body)
                metadata = made["metadata"]
                stage.judge.bystanders[metadata["uid"]] = metadata["resourceVersion"]
        ports = {"ports": [{"port": 80}]}
        await tenant.client.create(
            SERVICES,
            {"metadata": {"name": rest.FOREIGN}, "spec": ports},
            namespace="default",
        )
