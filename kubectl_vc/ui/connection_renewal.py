"""Connection to the super cluster for the life of the server.

Credentials of login plugins end after minutes. The connection is then opened again from the
kubeconfig.
"""

import asyncio
import contextlib
from types import TracebackType
from typing import Self

from kubectl_vc.client.config_flags import ConfigFlags
from kubectl_vc.client.connection import SuperConnection, connect_super_cluster
from kubectl_vc.flags import MANAGER_NAMESPACE
from kubectl_vc.ui.tenant_clients import TenantApiClients

USER_AGENT = "kubectl-vc-ui"
_MIN_SECONDS_BETWEEN = 5.0
"""Shortest time in seconds between two logins. Otherwise each open page would start a plugin."""


class RenewedConnection:
    """The present connection. Use as `async with RenewedConnection(access) as renewed`."""

    def __init__(self, access: ConfigFlags, manager_namespace: str = MANAGER_NAMESPACE) -> None:
        """Create it. The connection is opened on entry."""
        self.manager_namespace = manager_namespace
        self._access = access
        self._stack = contextlib.AsyncExitStack()
        self._lock = asyncio.Lock()
        self._opened = 0.0
        self._connection: SuperConnection | None = None
        self.tenants = TenantApiClients()

    @property
    def connection(self) -> SuperConnection:
        """Return the present connection."""
        assert self._connection is not None, "the connection is not entered"  # noqa: S101
        return self._connection

    async def __aenter__(self) -> Self:
        """Open the connection. Raises CliError and KubeError."""
        self._stack.push_async_callback(self.tenants.close)
        await self._open()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        problem: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Close all connections."""
        await self._stack.aclose()

    async def reconnect(self) -> None:
        """Open the connection again, unless that happened a moment ago."""
        async with self._lock:
            if asyncio.get_running_loop().time() - self._opened >= _MIN_SECONDS_BETWEEN:
                await self._open()

    async def _open(self) -> None:
        opened = connect_super_cluster(self._access, USER_AGENT)
        self._connection = await self._stack.enter_async_context(opened)
        self._opened = asyncio.get_running_loop().time()
