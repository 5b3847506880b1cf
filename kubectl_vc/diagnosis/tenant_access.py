"""Connection to a tenant's API by its kubeconfig Secret, without any write.

Hazard: `kubectl vc kubeconfig` adds a user to the readers of the Secret if needed. A diagnosis must
not, because it may write nothing.
"""

import base64
import contextlib
from collections.abc import AsyncIterator

from kubectl_vc.client.connection import SuperConnection
from kubectl_vc.output.cli_errors import CliError
from kubectl_vc.verbs.kubeconfig_readers import ADMIN_KUBECONFIG
from kubeio import errors
from kubeio.api.client import Client
from kubeio.config import loading
from kubeio.http.rest import ClientOptions
from tenancy.ownership import Tenant
from tenancy.resources import SECRETS

TENANT_DEADLINE_SECONDS = 5.0
"""Time limit in seconds of one request to the tenant. A tenant that is down is a result."""


class NoTenantAccessError(CliError):
    """The user may not read the kubeconfig Secret of the tenant, or it does not exist."""

    def __init__(self, what: str, text: str, *, is_missing: bool) -> None:
        super().__init__(text)
        self.what = what
        self.is_missing = is_missing


@contextlib.asynccontextmanager
async def connect_tenant(connection: SuperConnection, tenant: Tenant) -> AsyncIterator[Client]:
    """Open a client for the tenant's API. Raises NoTenantAccessError or KubeError."""
    what = f"Secret {tenant.root}/{ADMIN_KUBECONFIG}"
    try:
        secret = await connection.super_client.get(SECRETS, ADMIN_KUBECONFIG, namespace=tenant.root)
        encoded = (secret.get("data") or {})[ADMIN_KUBECONFIG]
    except (errors.Forbidden, errors.NotFound, KeyError) as problem:
        is_refused = isinstance(problem, errors.Forbidden)
        reason = "you may not read" if is_refused else "there is no"
        raise NoTenantAccessError(
            what,
            f"{reason} {what}, which has the kubeconfig of the tenant. Use the tenant's own"
            " kubeconfig with --kubeconfig, and leave out --vc.",
            is_missing=not is_refused,
        ) from problem
    endpoint = loading.load_tenant_kubeconfig(base64.b64decode(encoded))
    options = ClientOptions(user_agent="kubectl-vc", deadline=TENANT_DEADLINE_SECONDS)
    async with Client(endpoint, options) as client:
        yield client
