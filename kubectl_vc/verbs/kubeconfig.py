"""`kubectl vc kubeconfig`: the credential of a tenant's administrator.

Owns its source and the check that it is safe to use. Hazard: the credential must be written to a
private file only, or to standard output on request, and never into a message. It is a key to a
whole cluster.
"""

import base64
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kubectl_vc.client import access_review, lookup, readiness
from kubectl_vc.client.config_flags import ConfigFlags
from kubectl_vc.client.connection import SuperConnection, connect_super_cluster
from kubectl_vc.output import cli_errors, files
from kubectl_vc.output.cli_errors import CliError
from kubectl_vc.output.terminal import Terminal
from kubectl_vc.verbs import kubeconfig_readers
from kubectl_vc.verbs.kubeconfig_readers import ADMIN_KUBECONFIG
from kubeio import Object, errors
from kubeio.config import loading
from tenancy import specs, wellknown
from tenancy.resources import SECRETS, VIRTUAL_CLUSTERS


async def run_kubeconfig(
    access: ConfigFlags, terminal: Terminal, *, name: str, output: Path | None, force: bool
) -> None:
    """Write the kubeconfig of one VirtualCluster to a file, or to standard output."""
    if output is not None:
        files.check_writable(output, force=force)
    async with connect_super_cluster(access) as connection:
        body = await lookup.fetch_virtual_cluster(connection, name)
        content = await fetch_kubeconfig(connection, body)
    if output is None:
        terminal.print_result(content.decode())
        return
    files.write_private(output, content, force=force)
    terminal.print_warning(
        f"{output} written. Use it with `kubectl --kubeconfig {output} get namespaces`."
    )


async def fetch_kubeconfig(connection: SuperConnection, body: Mapping[str, Any]) -> bytes:
    """Return the kubeconfig of a VirtualCluster's administrator.

    A user who may not get the Secret, but may update the VirtualCluster, is added to its readers.
    """
    tenant = specs.parse_virtual_cluster(body).tenant
    shown = cli_errors.describe_object(VIRTUAL_CLUSTERS, tenant.name, tenant.namespace)
    try:
        secret = await _fetch_secret(connection, body, tenant.root, shown)
    except errors.NotFound as problem:
        blocker = readiness.assess_readiness(body).blocker
        raise CliError(
            f"{shown} has no kubeconfig yet"
            + (f", because it waits for {str(blocker).removesuffix('.')}" if blocker else "")
            + f". Check it with `kubectl vc get {tenant.name} -n {tenant.namespace}`."
        ) from problem
    content = _decode_value(secret, tenant.root)
    try:
        loading.load_tenant_kubeconfig(content)
    except errors.CredentialsError as problem:
        raise CliError(
            f"the kubeconfig of {shown} cannot be used safely: {problem}. Delete the Secret"
            f" {tenant.root}/{ADMIN_KUBECONFIG}, and vc-manager creates it again."
        ) from problem
    return content


async def _fetch_secret(
    connection: SuperConnection, body: Mapping[str, Any], root: str, shown: str
) -> Object:
    try:
        return await connection.super_client.get(SECRETS, ADMIN_KUBECONFIG, namespace=root)
    except errors.Forbidden as problem:
        refused = cli_errors.parse_denial(cli_errors.get_server_message(problem))
        refusal = CliError(
            f"you may not get the Secret {ADMIN_KUBECONFIG} in the namespace {root}, which"
            f" has the kubeconfig of {shown}. {describe_grant(root, problem)}"
        )
        if refused is None:  # not by RBAC, so no RoleBinding would help
            raise refusal from problem
        try:
            await kubeconfig_readers.add_reader(connection, dict(body), refused.user)
        except errors.Forbidden:
            raise refusal from problem
    return await kubeconfig_readers.wait_for_secret(connection, root, shown)


async def may_fetch_kubeconfig(connection: SuperConnection) -> bool:
    """Return whether the user may get the Secret of a tenant that does not exist yet.

    The name of its root namespace has a digest of a UID that the API server has not chosen yet.
    Therefore the right must apply in all namespaces, for Secrets of this one name.
    """
    attributes = {"verb": "get", "resource": "secrets", "name": ADMIN_KUBECONFIG}
    return await access_review.is_allowed(connection.super_client, attributes)


def describe_grant(root: str, problem: errors.Forbidden) -> str:
    """Return the command with which an administrator lets a user fetch the Secret."""
    refused = cli_errors.parse_denial(cli_errors.get_server_message(problem))
    user = refused.user if refused else "YOU"
    return (
        "Ask a platform administrator for the kubeconfig, or to run: kubectl create"
        f" rolebinding {ADMIN_KUBECONFIG} --namespace {root}"
        f" --clusterrole {wellknown.KUBECONFIG_READER_ROLE} --user {user}"
    )


def _decode_value(secret: Mapping[str, Any], root: str) -> bytes:
    encoded = (secret.get("data") or {}).get(ADMIN_KUBECONFIG)
    if not encoded:
        raise CliError(
            f"the Secret {root}/{ADMIN_KUBECONFIG} has no key {ADMIN_KUBECONFIG}. Delete the"
            " Secret, and vc-manager creates it again."
        )
    return base64.b64decode(encoded)
