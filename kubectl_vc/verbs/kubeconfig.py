"""`kubectl vc kubeconfig`: the credential of a tenant's administrator.

Owns its source and the check that it is safe to use. Hazard: the credential must be written to a
private file only, or to standard output on request, and never into a message. It is a key to a
whole cluster.
"""

import base64
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kubectl_vc.client import lookup, readiness
from kubectl_vc.client.config_flags import Access
from kubectl_vc.client.connection import Connection, connected
from kubectl_vc.output import cli_errors, files
from kubectl_vc.output.cli_errors import CliProblem
from kubectl_vc.output.terminal import Terminal
from kubeio import errors
from kubeio.config import loading
from tenancy import specs
from tenancy.resources import SECRETS, SELF_SUBJECT_ACCESS_REVIEWS, VIRTUAL_CLUSTERS

SECRET = "admin-kubeconfig"  # noqa: S105 - a name, not a credential
"""Secret in the root namespace, and its data key."""
ROLE = "virtual-cluster-kubeconfigs"
"""ClusterRole of the chart that allows only to get Secrets of this name."""


async def run(
    access: Access, terminal: Terminal, *, name: str, output: Path | None, force: bool
) -> None:
    """Write the kubeconfig of one VirtualCluster to a file, or to standard output."""
    if output is not None:
        files.refuse_unwritable(output, force=force)
    async with connected(access) as connection:
        body = await lookup.fetch(connection, name)
        content = await fetch(connection, body)
    if output is None:
        terminal.say(content.decode())
        return
    files.write_private(output, content, force=force)
    terminal.warn(f"{output} written; use it with `kubectl --kubeconfig {output} get namespaces`")


async def fetch(connection: Connection, body: Mapping[str, Any]) -> bytes:
    """Return the kubeconfig of a VirtualCluster's administrator."""
    tenant = specs.parse_virtual_cluster(body).tenant
    shown = cli_errors.described(VIRTUAL_CLUSTERS, tenant.name, tenant.namespace)
    try:
        secret = await connection.super_client.get(SECRETS, SECRET, namespace=tenant.root)
    except errors.NotFound as problem:
        blocker = readiness.assess(body).blocker
        raise CliProblem(
            f"{shown} has no kubeconfig yet"
            + (f", because it waits for {blocker}" if blocker else "")
            + f"; see `kubectl vc get {tenant.name} -n {tenant.namespace}`"
        ) from problem
    except errors.Forbidden as problem:
        raise CliProblem(
            f"you may not get the Secret {SECRET} in the namespace {tenant.root}, which holds the"
            f" kubeconfig of {shown}; {grant(tenant.root, problem)}"
        ) from problem
    content = _value(secret, tenant.root)
    try:
        loading.tenant_kubeconfig(content)
    except errors.CredentialsProblem as problem:
        raise CliProblem(
            f"the kubeconfig of {shown} cannot be used safely: {problem}; vc-manager writes the"
            f" Secret {tenant.root}/{SECRET} anew when you delete it"
        ) from problem
    return content


async def may_fetch(connection: Connection) -> bool:
    """Return whether the user may get the Secret of a tenant that does not exist yet.

    The name of its root namespace has a digest of a UID that the API server has not chosen yet.
    Therefore the right must apply in all namespaces, for Secrets of this one name.
    """
    question = {
        "apiVersion": SELF_SUBJECT_ACCESS_REVIEWS.api_version,
        "kind": SELF_SUBJECT_ACCESS_REVIEWS.kind,
        "spec": {"resourceAttributes": {"verb": "get", "resource": "secrets", "name": SECRET}},
    }
    try:
        answer = await connection.super_client.create(SELF_SUBJECT_ACCESS_REVIEWS, question)
    except errors.ApiError:
        return True  # without an answer the real request decides
    return bool((answer.get("status") or {}).get("allowed"))


def grant(root: str, problem: errors.Forbidden) -> str:
    """Return the command with which an administrator lets a user fetch the Secret."""
    refused = cli_errors.denial(cli_errors.said(problem))
    user = refused.user if refused else "YOU"
    return (
        "ask an administrator of the super cluster for the file, or to run: kubectl create"
        f" rolebinding {SECRET} --namespace {root} --clusterrole {ROLE} --user {user}"
    )


def _value(secret: Mapping[str, Any], root: str) -> bytes:
    encoded = (secret.get("data") or {}).get(SECRET)
    if not encoded:
        raise CliProblem(
            f"the Secret {root}/{SECRET} has no key {SECRET}; vc-manager writes it anew when you"
            " delete it"
        )
    return base64.b64decode(encoded)
