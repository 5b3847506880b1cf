"""`kubectl vc delete`: deletion of a tenant and all that runs in it.

Hazard: the request must contain the UID of the VirtualCluster that was read. Its name may belong to
another VirtualCluster by the time of the delete.
"""

import contextlib

from kubectl_vc.client import lookup, waiting
from kubectl_vc.client.config_flags import Access
from kubectl_vc.client.connection import connected
from kubectl_vc.output import printers
from kubectl_vc.output.terminal import Terminal
from kubeio import errors
from tenancy.resources import VIRTUAL_CLUSTERS


async def run(
    access: Access,
    terminal: Terminal,
    *,
    name: str,
    wait: bool,
    seconds: float,
    ignore_not_found: bool,
) -> None:
    """Delete a VirtualCluster, and wait until nothing of it is left."""
    async with connected(access) as connection:
        super_client, namespace = connection.super_client, connection.namespace
        try:
            body = await lookup.fetch(connection, name)
        except lookup.NoSuchProblem:
            if ignore_not_found:
                return
            raise
        with contextlib.suppress(errors.NotFound):  # already deleted by another request
            await super_client.delete(
                VIRTUAL_CLUSTERS, name, namespace=namespace, uid=body["metadata"]["uid"]
            )
        if wait:
            with terminal.progress() as progress:
                await waiting.gone(super_client, body, seconds=seconds, progress=progress)
    done = "deleted" if wait else "is being deleted"
    terminal.say(f"{printers.full_name(VIRTUAL_CLUSTERS, name)} {done}")
