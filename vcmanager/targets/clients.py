"""Clients of targets, and the watch on the Secrets that have their credentials.

Owns one client per SuperCluster while its credentials stay the same, and the last probe with its
time. Owns one watch on the metadata of Secrets in the components' namespace. Must not judge.
Hazard: without a target all of it must cost nothing, so the watch begins with the first target.
"""

import asyncio
import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from types import TracebackType
from typing import Self

from kubeio.api.client import Client
from kubeio.cache.reflector import Reflector, ReflectorOptions
from kubeio.cache.store import Entry, Store
from kubeio.config.endpoint import Endpoint, compute_digest
from kubeio.http.rest import ClientOptions
from kubeio.http.transport_protocol import Fence
from tenancy.resources import SECRETS
from vcmanager.targets.probe import DEADLINE_SECONDS, ProbeResult
from vcmanager.targets.required_permissions import RequiredPermission

_MAX_CONNECTIONS = 4
_MAX_RESPONSE_BYTES = 32 * 1024 * 1024
"""Largest answer in bytes: 500 nodes with 64 KiB each. The server may be hostile."""


@dataclass(frozen=True, slots=True)
class CompletedProbe:
    """Time, subject and result of the last full probe of a cluster."""

    cache_key: tuple[str, int, str, str, str]
    """Subject of the probe: UID and generation of the SuperCluster, and more.

    The rest is the digest of the endpoint, and the version and identity of the cluster.
    """
    probed_at: float
    """By the loop's clock."""
    result: ProbeResult


@dataclass(frozen=True, slots=True)
class AgentTokenCheck:
    """Permissions that the agent's token was found to lack."""

    cache_key: str
    """Digest of the token and of its servers."""
    until: datetime
    """Time of the next check."""
    missing_permissions: tuple[RequiredPermission, ...]


class TargetClientCache:
    """State of targets between two reconciles. Use as `async with`."""

    def __init__(self, *, user_agent: str = "vc-manager", fence: Fence | None = None) -> None:
        """Set the user agent and the fence of all clients."""
        self._user_agent, self._fence = user_agent, fence
        self._clients: dict[str, tuple[str, Client]] = {}
        self._super_clusters_by_secret: dict[str, set[str]] = {}
        """Names of SuperClusters, by the name of their Secret."""
        self._watch_task: asyncio.Future[None] | None = None
        self.last_probes: dict[str, CompletedProbe] = {}
        """By name of the SuperCluster."""
        self.agent_checks: dict[str, AgentTokenCheck] = {}
        """By name of the SuperCluster, too."""
        self.reported_losses: dict[str, str] = {}
        """Start of the held losses that Events have reported, by name of the SuperCluster."""

    async def __aenter__(self) -> Self:
        """Return the object. Nothing is opened yet."""
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        problem: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """End the watch and close every client."""
        if self._watch_task is not None:
            self._watch_task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._watch_task
        for name in list(self._clients):
            await self._close_client(name)

    async def get_client(self, name: str, endpoint: Endpoint) -> Client:
        """Return the client of a SuperCluster. A new credential or address needs a new client."""
        digest = compute_digest(endpoint)
        known = self._clients.get(name)
        if known is not None and known[0] == digest:
            return known[1]
        await self._close_client(name)
        made = self.open_client(endpoint)
        await made.__aenter__()
        self._clients[name] = (digest, made)
        return made

    def open_client(self, endpoint: Endpoint) -> Client:
        """Return a client that is not kept, for `async with`."""
        return Client(
            endpoint,
            ClientOptions(
                user_agent=self._user_agent,
                connections=_MAX_CONNECTIONS,
                deadline=DEADLINE_SECONDS,
                fence=self._fence,
                max_response_bytes=_MAX_RESPONSE_BYTES,
            ),
        )

    async def forget(self, name: str) -> None:
        """Drop all state of a deleted SuperCluster."""
        self._unwatch_secret(name)
        self.reported_losses.pop(name, None)
        await self.drop(name)

    async def drop(self, name: str) -> None:
        """Drop the credential of a SuperCluster, and all results obtained with it."""
        self.last_probes.pop(name, None)
        self.agent_checks.pop(name, None)
        await self._close_client(name)

    def watch_secret(
        self,
        super_client: Client,
        *,
        namespace: str,
        secret: str,
        name: str,
        enqueue: Callable[[str], None],
    ) -> None:
        """Wake a SuperCluster by name when its Secret is created, changed or deleted."""
        self._unwatch_secret(name)
        self._super_clusters_by_secret.setdefault(secret, set()).add(name)
        if self._watch_task is not None:
            return
        store = Store()

        def handle_event(old: Entry | None, new: Entry | None, _live: bool) -> None:
            entry = new or old
            for user in (
                self._super_clusters_by_secret.get(entry.name, ()) if entry is not None else ()
            ):
                enqueue(user)

        store.subscribe(handle_event)
        reflector = Reflector(
            super_client,
            SECRETS,
            store,
            ReflectorOptions(namespace=namespace, metadata_only=True, side="super"),
        )
        self._watch_task = asyncio.ensure_future(reflector.run())

    def _unwatch_secret(self, name: str) -> None:
        for users in self._super_clusters_by_secret.values():
            users.discard(name)
        self._super_clusters_by_secret = {
            secret: users for secret, users in self._super_clusters_by_secret.items() if users
        }

    async def _close_client(self, name: str) -> None:
        known = self._clients.pop(name, None)
        if known is not None:
            await known[1].__aexit__(None, None, None)
