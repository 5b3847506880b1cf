"""Reach the super cluster with the flags that kubectl has.

Owns how flags become a client and a namespace. Must not know the verbs.
"""

import contextlib
import dataclasses
from collections.abc import AsyncIterator
from dataclasses import dataclass

from kubectl_vc.access import Access
from kubectl_vc.problems import CliProblem, UsageProblem
from kubeio import config
from kubeio.client import Client
from kubeio.transport import DEADLINE
from tenancy import names

DEFAULT_NAMESPACE = "default"


@dataclass(frozen=True, slots=True)
class Connection:
    """The super cluster, and the namespace that a name without one means."""

    super_client: Client
    namespace: str
    is_explicit: bool
    """The namespace was given by flag."""


@contextlib.asynccontextmanager
async def connected(access: Access, user_agent: str = "kubectl-vc") -> AsyncIterator[Connection]:
    """Open a client for the super cluster."""
    if access.namespace and not names.is_dns_label(access.namespace):
        raise CliProblem(
            f"the namespace {access.namespace!r} is not a DNS label; use at most 63 lower-case"
            " letters, digits and hyphens"
        )
    if access.as_groups and not access.as_user:
        raise UsageProblem("--as-group needs --as; say who the member of the group is")
    endpoint = await config.user_kubeconfig(access.kubeconfig, access.context)
    if access.as_user:
        endpoint = dataclasses.replace(
            endpoint, impersonate=access.as_user, impersonate_groups=access.as_groups
        )
    namespace = (
        access.namespace
        or config.context_namespace(access.kubeconfig, access.context)
        or DEFAULT_NAMESPACE
    )
    deadline = access.request_seconds or DEADLINE
    async with Client(endpoint, user_agent=user_agent, deadline=deadline) as client:
        yield Connection(client, namespace, is_explicit=bool(access.namespace))
