"""One process of the syncer, from its start to its end, as `syncer.app.run_with_leader_election`
runs it.

Owns the life of a process: it waits for the Lease, works, is killed, stopped, cut off, and started
again by its kubelet. What it runs is the product's own. Hazard: a process that is killed may do
nothing on its way out, so its wires are dead before its tasks are cancelled.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING

from kubeio.api.client import Client
from kubeio.api.leader_election import LeaderElector
from kubeio.config.endpoint import Endpoint
from kubeio.http.rest import ClientOptions
from kubeio.http.transport_protocol import Fence, HttpRequest, HttpTransport
from syncer.app import Syncer, SyncerOptions, _run_while_leading
from syncer.tenants.session import Session
from tenancy import wellknown
from tests.chaos.memory.judge import HOME
from tests.chaos.memory.loop import running
from tests.support.memapi.direct import DirectTransport, RequestFate, WatchTap

if TYPE_CHECKING:
    from tests.chaos.memory.world import MachineWorld

RESTART_SECONDS = 2.0
RESYNC_SECONDS = 60.0
_LEASE = {"duration": 15.0, "renew_deadline": 12.0, "period": 4.0, "acquire_interval": 3.0}


class SimulatedReplica:
    """A pod of the syncer."""

    def __init__(self, world: MachineWorld, name: str) -> None:
        self.world = world
        self.name = name
        self.is_dead = True
        self.cut_off: set[str] = set()
        """Sides that cannot be reached."""
        self.syncer: Syncer | None = None
        self.lease: LeaderElector | None = None
        self.starts = 0
        self._task: asyncio.Task[None] | None = None
        self._stop = asyncio.Event()

    @property
    def identity(self) -> str:
        """The identity of its process."""
        return f"{self.name}-{self.starts}"

    @property
    def sessions(self) -> list[Session]:
        """The sessions of the process that holds the Lease."""
        if self.is_dead or self.syncer is None or self.lease is None or not self.lease.is_held:
            return []
        found = self.syncer.tenants.sessions.values()
        return [session for sessions in found for session in sessions.values()]

    def start(self) -> None:
        """Start a process, unless one runs."""
        if self.is_dead:
            self.is_dead = False
            self.starts += 1
            self._stop = asyncio.Event()
            self._task = asyncio.get_running_loop().create_task(self._life())

    def kill(self) -> None:
        """End the process without a word. What it has sent may still arrive."""
        self.is_dead = True
        self.world.loop.thaw(self)
        if self._task is not None:
            self._task.cancel()

    def stop(self) -> None:
        """Tell the process to end."""
        self._stop.set()

    async def _life(self) -> None:
        running.set(self)
        number = self.starts
        try:
            await self._serve()
        except asyncio.CancelledError:
            return
        except BaseException as problem:  # noqa: BLE001 - a process that falls is a finding
            if self.starts == number and not self.is_dead:
                self.world.judge.fell(self.name, problem)
        finally:
            if self.starts == number and not self.is_dead:
                self.is_dead = True
                loop = asyncio.get_running_loop()
                loop.call_later(RESTART_SECONDS, self.start)

    async def _serve(self) -> None:
        endpoint = self.world.endpoint
        agent = f"vc-syncer/{self.name}"
        async with contextlib.AsyncExitStack() as stack:
            client = Client(endpoint, ClientOptions(user_agent=agent, connections=1))
            self.lease = LeaderElector(
                await stack.enter_async_context(client),
                namespace=HOME,
                name=wellknown.SYNCER,
                identity=self.identity,
                **_LEASE,
            )
            super_client = Client(
                endpoint, ClientOptions(user_agent=agent, fence=self.lease.check_fence)
            )
            options = SyncerOptions(
                namespace=HOME,
                port=0,
                identity=self.name,
                version="0",
                resync_seconds=RESYNC_SECONDS,
            )
            self.syncer = Syncer(await stack.enter_async_context(super_client), options)
            await _run_while_leading(self.syncer, self.lease, self._stop)


class ProcessConnection:
    """Between one process and one cluster."""

    def __init__(self, replica: SimulatedReplica, side: str, number: int) -> None:
        self._replica = replica
        self._number = number
        """Which of the replica's processes it belongs to: a later one is another."""
        self._side = side

    def fate(self, request: HttpRequest) -> RequestFate:
        """Have a request judged, and say what becomes of it."""
        replica, world = self._replica, self._replica.world
        if replica.is_dead or replica.starts != self._number:
            return RequestFate(is_lost=True)
        world.judge.sent(self._side, request, replica.identity)
        return world.faults.fate(self._side, request, replica)

    def opened(self, tap: WatchTap) -> None:
        """Take note of a watch."""
        world = self._replica.world
        world.faults.opened(self._side, tap)
        world.sight.opened(
            self._side,
            self._replica.identity,
            tap.asked,
            is_noticed=any(each.side == self._side and world.holds(each) for each in world.tenants),
        )


def wires(world: MachineWorld) -> object:
    """Return what gives a client of this world its wire."""

    def wire(endpoint: Endpoint, fence: Fence | None) -> HttpTransport:
        side, api = world.reached(endpoint)
        replica = running.get()
        assert isinstance(replica, SimulatedReplica), "only processes of the syncer ask"
        return DirectTransport(api, ProcessConnection(replica, side, replica.starts), fence)

    return wire
