"""Clients of tenants' APIs, by their admin kubeconfig Secrets.

Hazard: the Secret must be read again for each page. Otherwise a user without the right any longer
could still read the tenant.
"""

import base64
import contextlib
import time
from collections.abc import Callable
from dataclasses import dataclass

from kubectl_vc.verbs.kubeconfig_readers import ADMIN_KUBECONFIG
from kubeio import errors
from kubeio.api.client import Client
from kubeio.config import loading
from kubeio.http.rest import ClientOptions
from tenancy.ownership import Tenant
from tenancy.resources import SECRETS

DEADLINE_SECONDS = 2.0
"""Time limit of one request to a tenant. A page must not wait long for a tenant that is down."""
PAUSE_SECONDS = 15.0
"""Time after a failed connection in which no further one is tried."""


class NoTenantClientError(Exception):
    """The tenant's API cannot be read. The message is one sentence for the page."""


@dataclass(frozen=True, slots=True)
class _OpenClient:
    kubeconfig: str
    client: Client
    closing: contextlib.AsyncExitStack


class TenantApiClients:
    """Open clients by the UID of the VirtualCluster."""

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        """Create it without a connection."""
        self._open: dict[str, _OpenClient] = {}
        self._failed: dict[str, float] = {}
        self._clock = clock

    async def connect(self, super_client: Client, tenant: Tenant) -> Client:
        """Return the client of a tenant. Raises NoTenantClientError."""
        failed = self._failed.get(tenant.uid)
        if failed is not None and self._clock() - failed < PAUSE_SECONDS:
            raise NoTenantClientError("The tenant's API did not answer a moment ago.")
        encoded = await _fetch_kubeconfig(super_client, tenant)
        known = self._open.get(tenant.uid)
        if known is not None and known.kubeconfig == encoded:
            return known.client
        try:
            endpoint = loading.load_tenant_kubeconfig(base64.b64decode(encoded))
        except (errors.CredentialsError, ValueError) as problem:
            raise NoTenantClientError(
                f"The kubeconfig in the Secret {tenant.root}/{ADMIN_KUBECONFIG} cannot be used."
            ) from problem
        await self._close(tenant.uid)
        options = ClientOptions(user_agent="kubectl-vc-ui", deadline=DEADLINE_SECONDS)
        async with contextlib.AsyncExitStack() as stack:
            client = await stack.enter_async_context(Client(endpoint, options))
            self._open[tenant.uid] = _OpenClient(encoded, client, stack.pop_all())
        return client

    def report_failure(self, tenant: Tenant) -> None:
        """Record that a tenant's API did not answer."""
        self._failed[tenant.uid] = self._clock()

    async def close(self) -> None:
        """Close all clients."""
        for uid in [*self._open]:
            await self._close(uid)

    async def _close(self, uid: str) -> None:
        known = self._open.pop(uid, None)
        if known is not None:
            await known.closing.aclose()


async def _fetch_kubeconfig(super_client: Client, tenant: Tenant) -> str:
    where = f"Secret {tenant.root}/{ADMIN_KUBECONFIG}"
    try:
        secret = await super_client.get(SECRETS, ADMIN_KUBECONFIG, namespace=tenant.root)
    except errors.Forbidden as problem:
        raise NoTenantClientError(
            f"You may not read the {where}, so only the super cluster's side is shown."
        ) from problem
    except errors.NotFound as problem:
        raise NoTenantClientError(
            f"The {where} does not exist, so only the super cluster's side is shown."
        ) from problem
    encoded = (secret.get("data") or {}).get(ADMIN_KUBECONFIG)
    if not encoded:
        raise NoTenantClientError(f"The {where} has no key {ADMIN_KUBECONFIG}.")
    return str(encoded)
