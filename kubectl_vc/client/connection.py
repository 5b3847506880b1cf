"""Connection to the super cluster with kubectl's flags.

Owns the conversion of flags to a client and a namespace. Must not know the verbs.
"""

import contextlib
import dataclasses
import os
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

from kubectl_vc.client.config_flags import ConfigFlags
from kubectl_vc.output.cli_errors import CliError, UsageError
from kubeio.api.client import Client
from kubeio.config import loading
from kubeio.http.rest import DEFAULT_DEADLINE_SECONDS, ClientOptions
from tenancy import names

DEFAULT_NAMESPACE = "default"
_DEFAULT_KUBECONFIG = Path("~/.kube/config")


@dataclass(frozen=True, slots=True)
class SuperConnection:
    """Client of the super cluster, and the namespace for a name without one."""

    super_client: Client
    namespace: str
    is_explicit: bool
    """Whether the namespace was set by flag."""
    context: str = ""
    """Context of the kubeconfig. Empty for the account of a pod."""


@contextlib.asynccontextmanager
async def connect_super_cluster(
    access: ConfigFlags, user_agent: str = "kubectl-vc", *, is_super: bool = True
) -> AsyncIterator[SuperConnection]:
    """Open a client for the super cluster. Raises CliProblem and UsageProblem for invalid flags.

    While the current context is one of `kubectl vc connect`, it is the context that this command
    was connected from. With `is_super` False, it is the tenant's own.
    """
    if access.namespace and not names.is_dns_label(access.namespace):
        raise CliError(
            f"the namespace {access.namespace!r} is not a DNS label. Use"
            f" {names.describe_label_rule()}."
        )
    if any(not text.isprintable() for text in (access.as_user, *access.as_groups)):
        raise UsageError("--as or --as-group has a control character. Correct the name.")
    if access.as_groups and not access.as_user:
        raise UsageError("--as-group needs --as. Add --as USER.")
    is_in_pod = _is_in_pod(access)
    if not is_in_pod:
        access = _with_context(access, is_super=is_super)
    if is_in_pod:
        endpoint = loading.load_in_cluster()
    else:
        endpoint = await loading.load_user_kubeconfig(access.kubeconfig, access.context)
    if access.as_user:
        endpoint = dataclasses.replace(
            endpoint, impersonate=access.as_user, impersonate_groups=access.as_groups
        )
    namespace = access.namespace or _get_default_namespace(access, is_in_pod=is_in_pod)
    deadline = access.request_timeout_seconds or DEFAULT_DEADLINE_SECONDS
    async with Client(
        endpoint, ClientOptions(user_agent=user_agent, deadline=deadline, counts_requests=False)
    ) as client:
        yield SuperConnection(
            client, namespace, is_explicit=bool(access.namespace), context=access.context
        )


def _with_context(access: ConfigFlags, *, is_super: bool) -> ConfigFlags:
    """Return the flags with the context that they stand for."""
    if access.context:
        return access
    connected = loading.get_connection(access.kubeconfig) if is_super else None
    context = str((connected or {}).get("superContext") or "")
    return dataclasses.replace(
        access, context=context or loading.get_current_context(access.kubeconfig)
    )


def _is_in_pod(access: ConfigFlags) -> bool:
    """Return True without a kubeconfig but with a pod's account, as kubectl decides."""
    if access.kubeconfig or access.context or os.environ.get("KUBECONFIG"):
        return False
    return "KUBERNETES_SERVICE_HOST" in os.environ and not _has_default_kubeconfig()


def _get_default_namespace(access: ConfigFlags, *, is_in_pod: bool) -> str:
    if not is_in_pod:
        found = loading.get_context_namespace(access.kubeconfig, access.context)
        return found or DEFAULT_NAMESPACE
    try:
        return (loading.ACCOUNT_DIRECTORY / "namespace").read_text().strip() or DEFAULT_NAMESPACE
    except OSError:
        return DEFAULT_NAMESPACE


def _has_default_kubeconfig() -> bool:
    try:
        return _DEFAULT_KUBECONFIG.expanduser().exists()
    except RuntimeError:  # a user without a home directory, as in many containers
        return False
