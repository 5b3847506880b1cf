"""Connection to the super cluster with kubectl's flags.

Owns the conversion of flags to a client and a namespace. Must not know the verbs.
"""

import contextlib
import dataclasses
import os
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

from kubectl_vc.client.config_flags import Access
from kubectl_vc.output.cli_errors import CliProblem, UsageProblem
from kubeio.api.client import Client
from kubeio.config import loading
from kubeio.http.rest import DEADLINE
from tenancy import names

DEFAULT_NAMESPACE = "default"
_USUAL_FILE = Path("~/.kube/config")


@dataclass(frozen=True, slots=True)
class Connection:
    """Client of the super cluster, and the namespace for a name without one."""

    super_client: Client
    namespace: str
    is_explicit: bool
    """Whether the namespace was set by flag."""


@contextlib.asynccontextmanager
async def connected(access: Access, user_agent: str = "kubectl-vc") -> AsyncIterator[Connection]:
    """Open a client for the super cluster. Raises CliProblem and UsageProblem for invalid flags."""
    if access.namespace and not names.is_dns_label(access.namespace):
        raise CliProblem(
            f"the namespace {access.namespace!r} is not a DNS label; use {names.label_rule()}"
        )
    if access.as_groups and not access.as_user:
        raise UsageProblem("--as-group needs --as; say who the member of the group is")
    is_in_pod = _is_in_pod(access)
    if is_in_pod:
        endpoint = loading.in_cluster()
    else:
        endpoint = await loading.user_kubeconfig(access.kubeconfig, access.context)
    if access.as_user:
        endpoint = dataclasses.replace(
            endpoint, impersonate=access.as_user, impersonate_groups=access.as_groups
        )
    namespace = access.namespace or _usual_namespace(access, is_in_pod=is_in_pod)
    deadline = access.request_seconds or DEADLINE
    async with Client(endpoint, user_agent=user_agent, deadline=deadline) as client:
        yield Connection(client, namespace, is_explicit=bool(access.namespace))


def _is_in_pod(access: Access) -> bool:
    """Return True without a kubeconfig but with a pod's account, as kubectl decides."""
    if access.kubeconfig or access.context or os.environ.get("KUBECONFIG"):
        return False
    return "KUBERNETES_SERVICE_HOST" in os.environ and not _USUAL_FILE.expanduser().exists()


def _usual_namespace(access: Access, *, is_in_pod: bool) -> str:
    if not is_in_pod:
        found = loading.context_namespace(access.kubeconfig, access.context)
        return found or DEFAULT_NAMESPACE
    try:
        return (loading.ACCOUNT_DIRECTORY / "namespace").read_text().strip() or DEFAULT_NAMESPACE
    except OSError:
        return DEFAULT_NAMESPACE
