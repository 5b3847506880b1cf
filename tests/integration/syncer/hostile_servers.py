"""A tenant's API server that sends without end: pages of a list or watch events of one kind, or
watch events of all kinds that are never complete.

A proxy stands before a real API server, which answers all other requests. Nothing is stored, so
etcd limits nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
from collections.abc import AsyncIterator
from typing import Literal

from kubeio import Object
from tenancy.resources import NETWORK_POLICIES, SECRETS
from tests.chaos.processes import http
from tests.chaos.processes.faults import FaultScript, RequestFault
from tests.chaos.processes.http import ProxiedRequest
from tests.chaos.processes.proxy import FaultProxy, ProxiedExchange
from tests.integration.syncer.world import SYNCER, SyncerWorld

Hostility = Literal["pages", "watch", "unfinished"]
_PAGE_ITEMS = 4
_UNFINISHED_PIECES, _PIECE_BYTES = 15, 200_000


class EndlessScript(FaultScript):
    """Sends NetworkPolicies, or unfinished events, without end while `hostility` is set."""

    def __init__(self, hostility: Hostility, policy_bytes: int = 200_000) -> None:
        """Begin hostile."""
        super().__init__(random.Random(1))  # noqa: S311 - no secret
        self.hostility: Hostility | None = hostility
        self.sent = 0
        """Number of NetworkPolicies that were sent, or of pieces of their size."""
        self.proxy: FaultProxy | None = None
        self._policy_bytes = policy_bytes

    def cut(self) -> None:
        """Break the watches that are open, so that the next ones are hostile."""
        for relay in list(self.proxy.relays if self.proxy is not None else ()):
            relay.cut()

    def fate(self, side: str, request: ProxiedRequest) -> RequestFault | None:  # noqa: ARG002 - as the base
        """Answer requests for NetworkPolicies, or all watches, in the server's place."""
        if self.hostility == "unfinished":
            return RequestFault("unfinished", 0, self._mumble) if request.is_watch else None
        is_read = request.method == "GET" and request.path.endswith("/networkpolicies")
        if self.hostility is None or not is_read:
            return None
        if request.query.get("sendInitialEvents"):
            return RequestFault("streamed", 0, _refuse_streamed_list)
        if request.is_watch and self.hostility == "watch":
            return RequestFault("watch", 0, self._grow)
        if not request.is_watch and self.hostility == "pages":
            return RequestFault("pages", 0, self._add_page)
        return None

    async def _add_page(self, exchange: ProxiedExchange) -> None:
        """Answer with a page that is never the last one."""
        items = [self._build_policy() for _ in range(_PAGE_ITEMS)]
        metadata = {"resourceVersion": "1", "continue": f"more-{self.sent}"}
        body = {
            "apiVersion": NETWORK_POLICIES.api_version,
            "kind": "NetworkPolicyList",
            "metadata": metadata,
            "items": items,
        }
        await exchange.pass_on(http.reply(200, json.dumps(body).encode()))

    async def _grow(self, exchange: ProxiedExchange) -> None:
        """Send an event about a new object, again and again."""
        async for piece in self._iterate_events():
            await exchange.stream(piece)

    async def _mumble(self, exchange: ProxiedExchange) -> None:
        """Send an event without an end: most of a line first, then nothing."""
        await exchange.stream(b'{"type": "ADDED", "object": {"data": "')
        for _ in range(_UNFINISHED_PIECES):
            self.sent += 1
            await exchange.stream(b"x" * _PIECE_BYTES)
        await asyncio.Event().wait()

    async def _iterate_events(self) -> AsyncIterator[bytes]:
        while self.hostility is not None:
            event = {"type": "ADDED", "object": self._build_policy()}
            yield json.dumps(event).encode() + b"\n"

    def _build_policy(self) -> Object:
        self.sent += 1
        return {
            "apiVersion": NETWORK_POLICIES.api_version,
            "kind": "NetworkPolicy",
            "metadata": {
                "name": f"endless-{self.sent}",
                "namespace": "default",
                "uid": f"00000000-0000-0000-0000-{self.sent:012d}",
                "resourceVersion": str(1_000_000 + self.sent),
                "annotations": {"example.com/x": "y" * self._policy_bytes},
            },
            "spec": {"podSelector": {}},
        }


async def _refuse_streamed_list(exchange: ProxiedExchange) -> None:
    """Let the client ask for pages and a plain watch."""
    await exchange.refuse(400, "BadRequest")


@contextlib.asynccontextmanager
async def hostile(world: SyncerWorld, script: EndlessScript) -> AsyncIterator[None]:
    """Lead the syncer's kubeconfig of a tenant through the hostile server."""
    endpoint = world.tenant_plane.endpoint_for(SYNCER, group="")
    async with FaultProxy("tenant", endpoint, script) as proxy:
        script.proxy = proxy
        change = {"stringData": {"syncer-kubeconfig": proxy.kubeconfig().decode()}}
        await world.super_client.patch(
            SECRETS, "syncer-kubeconfig", change, namespace=world.tenant.root
        )
        yield
