"""`VirtualCluster.spec.kubeconfigReaders`: the user of a command adds itself to it.

Owns that write and the wait for the RoleBinding that vc-manager creates from it. Hazard: only a
user who may update the VirtualCluster may add a reader. The API server must decide each time.
"""

import asyncio
from collections.abc import Mapping
from typing import Any

from kubectl_vc.client.connection import SuperConnection
from kubectl_vc.output.cli_errors import CliError
from kubeio import Object, errors
from tenancy.resources import SECRETS, SELF_SUBJECT_REVIEWS, VIRTUAL_CLUSTERS

ADMIN_KUBECONFIG = "admin-kubeconfig"
"""Secret in the root namespace, and its data key."""
WAIT_SECONDS = 30.0
"""Limit in seconds for the RoleBinding. vc-manager writes it within a second of the change."""
_POLL_SECONDS = 0.5
_ATTEMPTS = 3
"""Writes of the list in all, while other clients change the VirtualCluster at the same time."""


async def fetch_user_name(connection: SuperConnection) -> str:
    """Return the name that the API server knows the user by, empty if it does not report one."""
    question = {
        "apiVersion": SELF_SUBJECT_REVIEWS.api_version,
        "kind": SELF_SUBJECT_REVIEWS.kind,
    }
    try:
        answer = await connection.super_client.create(SELF_SUBJECT_REVIEWS, question)
    except errors.ApiError:
        return ""
    user = (answer.get("status") or {}).get("userInfo") or {}
    return str(user.get("username") or "")


def with_reader(readers: Any, user: str) -> list[Mapping[str, Any]]:
    """Return the list with the user in it. Pure."""
    entry = {"kind": "User", "name": user}
    known = [*(readers or ())]
    return known if entry in known else [*known, entry]


async def add_reader(connection: SuperConnection, body: Object, user: str) -> None:
    """Write the user into the list of a VirtualCluster. Raises ApiError."""
    client, metadata = connection.super_client, body["metadata"]
    name, namespace = metadata["name"], metadata["namespace"]
    for attempt in range(_ATTEMPTS):
        readers = (body.get("spec") or {}).get("kubeconfigReaders") or []
        wanted = with_reader(readers, user)
        if wanted == readers:
            return
        now = {key: body["metadata"][key] for key in ("uid", "resourceVersion")}
        patch = {"metadata": now, "spec": {"kubeconfigReaders": wanted}}
        try:
            await client.patch(VIRTUAL_CLUSTERS, name, patch, namespace=namespace)
        except errors.Conflict:
            if attempt + 1 == _ATTEMPTS:
                raise
            body = await client.get(VIRTUAL_CLUSTERS, name, namespace=namespace)
        else:
            return


async def wait_for_secret(connection: SuperConnection, root: str, shown: str) -> Object:
    """Return the Secret as soon as the user may get it. Raises CliProblem and ApiError."""
    loop = asyncio.get_running_loop()
    ends = loop.time() + WAIT_SECONDS
    while True:
        try:
            return await connection.super_client.get(SECRETS, ADMIN_KUBECONFIG, namespace=root)
        except errors.Forbidden as problem:
            if loop.time() > ends:
                raise CliError(
                    f"{shown} names you in spec.kubeconfigReaders, but vc-manager has not written"
                    f" the RoleBinding in the namespace {root} for {WAIT_SECONDS:.0f} s. Check"
                    " that vc-manager runs, and run the command again."
                ) from problem
        await asyncio.sleep(_POLL_SECONDS)
