"""What every reconcile works with; made once by the composition root and passed in.

Owns no decisions. Hazard: the clients of tenants hold break-glass credentials; they are kept per
tenant UID and closed when the credential changes or the tenant goes.
"""

import asyncio
import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from types import TracebackType
from typing import Self

from kubeio import config
from kubeio.client import Client
from kubeio.events import EventRecorder
from kubeio.lease import Observer
from vcmanager.controlplane import Settings
from vcmanager.keys import Key

TENANT_DEADLINE = 5.0
"""Seconds for one request to a tenant: a tenant may be slow on purpose."""
USER_AGENT = "vc-manager"


class TenantClients:
    """One client per tenant, as long as its credential stays the same."""

    def __init__(self) -> None:
        """Know no tenant yet."""
        self._clients: dict[str, tuple[str, Client]] = {}

    async def __aenter__(self) -> Self:
        """Open nothing yet."""
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        problem: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Close every client."""
        for uid in list(self._clients):
            await self.drop(uid)

    async def get(self, uid: str, kubeconfig: bytes, name: str) -> Client:
        """Return the client of a tenant for this kubeconfig."""
        digest = hashlib.sha256(kubeconfig).hexdigest()
        known = self._clients.get(uid)
        if known is not None and known[0] == digest:
            return known[1]
        await self.drop(uid)
        endpoint = config.tenant_kubeconfig(kubeconfig, name=name)
        client = Client(endpoint, user_agent=USER_AGENT, connections=8, deadline=TENANT_DEADLINE)
        await client.__aenter__()
        self._clients[uid] = (digest, client)
        return client

    async def drop(self, uid: str) -> None:
        """Close the client of a tenant, if there is one."""
        known = self._clients.pop(uid, None)
        if known is not None:
            await known[1].__aexit__(None, None, None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Means:
    """The super cluster, the clock, and what is shared between reconciles."""

    super_client: Client
    settings: Settings
    namespace: str
    """Where our own components run."""
    recorder: EventRecorder
    now: Callable[[], datetime]
    wake: Callable[[Key], None]
    """Have a key looked at soon."""
    tenants: TenantClients = field(default_factory=TenantClients)
    syncer_lease: Observer = field(default_factory=Observer)
    claiming: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held while a slice is chosen: two tenants must not look at the same list."""
