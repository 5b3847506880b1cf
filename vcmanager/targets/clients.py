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
from kubeio.cache.reflector import Reflector
from kubeio.cache.store import Entry, Store
from kubeio.config.endpoint import Endpoint, digest_of
from kubeio.http.transport_protocol import Fence
from tenancy.resources import SECRETS
from vcmanager.targets.probe import DEADLINE_SECONDS, Sight
from vcmanager.targets.required_permissions import Right

_CONNECTIONS = 4
_MOST_BYTES = 32 * 1024 * 1024
"""Largest answer in bytes: 500 nodes with 64 KiB each. The server may be hostile."""


@dataclass(frozen=True, slots=True)
class Look:
    """Time, subject and result of the last full probe of a cluster."""

    head: tuple[str, int, str, str, str]
    """Subject of the probe: UID and generation of the SuperCluster, and more.

    The rest is the digest of the endpoint, and the version and identity of the cluster.
    """
    at: float
    """By the loop's clock."""
    sight: Sight


@dataclass(frozen=True, slots=True)
class AgentLook:
    """Permissions that the agent's token was found to lack."""

    head: str
    """Digest of the token and of its servers."""
    until: datetime
    """Time of the next check."""
    lacking: tuple[Right, ...]


class Targets:
    """State of targets between two reconciles. Use as `async with`."""

    def __init__(self, *, user_agent: str = "vc-manager", fence: Fence | None = None) -> None:
        """Set the user agent and the fence of all clients."""
        self._user_agent, self._fence = user_agent, fence
        self._clients: dict[str, tuple[str, Client]] = {}
        self._users: dict[str, set[str]] = {}
        """Names of SuperClusters, by the name of their Secret."""
        self._watching: asyncio.Future[None] | None = None
        self.looks: dict[str, Look] = {}
        """By name of the SuperCluster."""
        self.agents: dict[str, AgentLook] = {}
        """By name of the SuperCluster, too."""
        self.losses_told: dict[str, str] = {}
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
        if self._watching is not None:
            self._watching.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._watching
        for name in list(self._clients):
            await self._close(name)

    async def client(self, name: str, endpoint: Endpoint) -> Client:
        """Return the client of a SuperCluster. A new credential or address needs a new client."""
        digest = digest_of(endpoint)
        known = self._clients.get(name)
        if known is not None and known[0] == digest:
            return known[1]
        await self._close(name)
        made = self.opened(endpoint)
        await made.__aenter__()
        self._clients[name] = (digest, made)
        return made

    def opened(self, endpoint: Endpoint) -> Client:
        """Return a client that is not kept, for `async with`."""
        return Client(
            endpoint,
            user_agent=self._user_agent,
            connections=_CONNECTIONS,
            deadline=DEADLINE_SECONDS,
            fence=self._fence,
            most=_MOST_BYTES,
        )

    async def forget(self, name: str) -> None:
        """Drop all state of a deleted SuperCluster."""
        self._unfollow(name)
        self.losses_told.pop(name, None)
        await self.drop(name)

    async def drop(self, name: str) -> None:
        """Drop the credential of a SuperCluster, and all results obtained with it."""
        self.looks.pop(name, None)
        self.agents.pop(name, None)
        await self._close(name)

    def follow(
        self,
        super_client: Client,
        *,
        namespace: str,
        secret: str,
        name: str,
        wake: Callable[[str], None],
    ) -> None:
        """Wake a SuperCluster by name when its Secret is created, changed or deleted."""
        self._unfollow(name)
        self._users.setdefault(secret, set()).add(name)
        if self._watching is not None:
            return
        store = Store()

        def seen(old: Entry | None, new: Entry | None, _live: bool) -> None:
            entry = new or old
            for user in self._users.get(entry.name, ()) if entry is not None else ():
                wake(user)

        store.subscribe(seen)
        reflector = Reflector(
            super_client, SECRETS, store, namespace=namespace, metadata_only=True, side="super"
        )
        self._watching = asyncio.ensure_future(reflector.run())

    def _unfollow(self, name: str) -> None:
        for users in self._users.values():
            users.discard(name)
        self._users = {secret: users for secret, users in self._users.items() if users}

    async def _close(self, name: str) -> None:
        known = self._clients.pop(name, None)
        if known is not None:
            await known[1].__aexit__(None, None, None)
