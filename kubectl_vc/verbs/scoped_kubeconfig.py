"""`kubectl vc kubeconfig` with `--renew`, `--role` or `--revoke`: credentials of a tenant's users.

Each works with the tenant's own kubeconfig alone. Hazard: the API server cannot revoke a
certificate. Only a kubeconfig with a user name of its own can be revoked, by all bindings of that
name. Credentials that its holder created for other users stay valid.
"""

import secrets
from dataclasses import dataclass
from pathlib import Path

from kubectl_vc.client import client_certificates, server_authority, user_bindings
from kubectl_vc.client.client_certificates import MIN_SECONDS
from kubectl_vc.client.config_flags import ConfigFlags
from kubectl_vc.client.connection import connect_super_cluster
from kubectl_vc.client.lookup import fetch_virtual_cluster
from kubectl_vc.output import durations, files
from kubectl_vc.output.cli_errors import CliError, describe_server_problem
from kubectl_vc.output.terminal import Terminal
from kubectl_vc.verbs.kubeconfig import fetch_kubeconfig
from kubeio import Object, errors
from kubeio.api.client import Client
from kubeio.config import loading
from kubeio.http.rest import DEFAULT_DEADLINE_SECONDS, ClientOptions
from tenancy import wellknown
from tenancy.resources import CLUSTER_ROLE_BINDINGS

_RBAC = "rbac.authorization.k8s.io"
_BINDING_PREFIX = "vc-kubeconfig-"


@dataclass(frozen=True, slots=True)
class ScopedOptions:
    """Flags of a kubeconfig with a role."""

    role: str
    """Name of one of Kubernetes' user-facing ClusterRoles."""
    lifetime_seconds: int
    output: Path | None
    force: bool


async def run_renew(access: ConfigFlags, terminal: Terminal, path: Path) -> None:
    """Replace the certificate and key in a tenant's kubeconfig file, and its authorities."""
    content = _read(path)
    files.check_writable(path, force=True)
    user, groups = client_certificates.read_user(content)
    async with _connect_tenant(access, content) as client:
        credential = await client_certificates.request_credential(client, user, groups)
        made = client_certificates.replace_credential(content, credential)
        made = await _update_authorities(access, terminal, client, made)
    files.write_private(path, made, force=True)
    terminal.print_result(f"{path} renewed for the user {user}")


async def run_scoped(
    access: ConfigFlags, terminal: Terminal, *, name: str, options: ScopedOptions
) -> None:
    """Write a kubeconfig with one role and a short life, which can be revoked."""
    if options.lifetime_seconds < MIN_SECONDS:
        raise CliError(
            f"--ttl must be {durations.format_elapsed(MIN_SECONDS)} or longer, because the API does"
            " not accept a shorter certificate."
        )
    if options.output is not None:
        files.check_writable(options.output, force=options.force)
    content = await _fetch_base(access, name)
    number = secrets.token_hex(5)
    user = f"{wellknown.KUBECONFIG_USER_PREFIX}{options.role}:{number}"
    async with _connect_tenant(access, content) as client:
        credential = await client_certificates.request_credential(
            client, user, (), seconds=options.lifetime_seconds
        )
        await client.create(CLUSTER_ROLE_BINDINGS, _build_binding(number, user, options))
        made = client_certificates.replace_credential(content, credential)
        made = await _update_authorities(access, terminal, client, made)
    if options.output is None:
        terminal.print_result(made.decode())
    else:
        files.write_private(options.output, made, force=options.force)
    terminal.print_warning(
        f"Valid for {durations.format_elapsed(options.lifetime_seconds)} as the user {user}. Revoke"
        f" it with `kubectl vc kubeconfig {name + ' ' if name else ''}--revoke {user}`."
    )


async def run_revoke(access: ConfigFlags, terminal: Terminal, *, name: str, user: str) -> None:
    """Revoke a kubeconfig by its user name: remove the name from all bindings."""
    number = user.rpartition(":")[2]
    if not user.startswith(wellknown.KUBECONFIG_USER_PREFIX) or not number:
        raise CliError(
            f"{user!r} is not the user of a kubeconfig with a role. All such users are listed by"
            f" `kubectl get clusterrolebindings -l {wellknown.KUBECONFIG_ROLE}` in the virtual"
            " cluster."
        )
    content = await _fetch_base(access, name)
    async with _connect_tenant(access, content) as client:
        removed = await user_bindings.remove_bindings(client, user)
    if not removed.total:
        raise CliError(f"the kubeconfig of the user {user} is revoked already.")
    terminal.print_result(f"kubeconfig of the user {user} revoked: {removed.describe()}")
    if not user.startswith(f"{wellknown.KUBECONFIG_USER_PREFIX}view:"):
        terminal.print_warning(
            "ServiceAccount tokens that its holder created or read stay valid. The section"
            " Kubeconfigs for guests of the documentation has the commands that find them."
        )


def _build_binding(number: str, user: str, options: ScopedOptions) -> Object:
    return {
        "apiVersion": f"{_RBAC}/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {
            "name": f"{_BINDING_PREFIX}{number}",
            "labels": {wellknown.KUBECONFIG_ROLE: options.role},
        },
        "roleRef": {"apiGroup": _RBAC, "kind": "ClusterRole", "name": options.role},
        "subjects": [{"apiGroup": _RBAC, "kind": "User", "name": user}],
    }


async def _update_authorities(
    access: ConfigFlags, terminal: Terminal, client: Client, content: bytes
) -> bytes:
    """Return a kubeconfig that trusts the present authorities of the virtual cluster.

    They replace the known ones only if the kubeconfig still reaches the server with them.
    """
    try:
        pem = await server_authority.fetch_authorities(client)
        made = server_authority.replace_authorities(content, pem)
        if made != content:
            async with _connect_tenant(access, made) as trusting:
                await trusting.version()
    except (errors.KubeError, CliError) as problem:
        reason = str(problem)
        if isinstance(problem, errors.KubeError):
            reason = describe_server_problem(problem)
        terminal.print_warning(
            f"The CA in the file is kept, because the present one cannot be used: {reason}"
            f"{'' if reason.endswith('.') else '.'} After a rotation of the authority serving"
            " the file reaches no server. Fetch the kubeconfig again then."
        )
        return content
    return made


async def _fetch_base(access: ConfigFlags, name: str) -> bytes:
    """Return an administrator's kubeconfig: the tenant's Secret, or without a name the own file."""
    if not name:
        if not access.kubeconfig:
            raise CliError(
                "NAME is missing. Add NAME, or --kubeconfig FILE with a kubeconfig of the virtual"
                " cluster."
            )
        return _read(Path(access.kubeconfig))
    async with connect_super_cluster(access) as connection:
        return await fetch_kubeconfig(connection, await fetch_virtual_cluster(connection, name))


def _connect_tenant(access: ConfigFlags, content: bytes) -> Client:
    endpoint = loading.load_tenant_kubeconfig(content)
    deadline = access.request_timeout_seconds or DEFAULT_DEADLINE_SECONDS
    return Client(
        endpoint, ClientOptions(user_agent="kubectl-vc", deadline=deadline, counts_requests=False)
    )


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as problem:
        raise CliError(f"{path} cannot be read: {problem.strerror}.") from problem
