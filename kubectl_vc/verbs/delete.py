"""`kubectl vc delete`: deletion of a tenant and all that runs in it.

Hazard: the request must contain the UID of the VirtualCluster that was read. Its name may belong to
another VirtualCluster by the time of the delete.
"""

import contextlib

from kubectl_vc.client import lookup, waiting
from kubectl_vc.client.config_flags import ConfigFlags
from kubectl_vc.client.connection import connect_super_cluster
from kubectl_vc.output import printers
from kubectl_vc.output.terminal import Terminal
from kubeio import errors
from tenancy.resources import VIRTUAL_CLUSTERS


async def run_delete(
    access: ConfigFlags,
    terminal: Terminal,
    *,
    name: str,
    wait: bool,
    seconds: float,
    ignore_not_found: bool,
) -> None:
    """Delete a VirtualCluster, and wait until nothing of it is left."""
    async with connect_super_cluster(access) as connection:
        super_client, namespace = connection.super_client, connection.namespace
        try:
            body = await lookup.fetch_virtual_cluster(connection, name)
        except lookup.VirtualClusterNotFoundError:
            if ignore_not_found:
                return
            raise
        with contextlib.suppress(errors.NotFound):  # already deleted by another request
            await super_client.delete(
                VIRTUAL_CLUSTERS, name, namespace=namespace, uid=body["metadata"]["uid"]
            )
        if wait:
            with terminal.create_progress() as progress:
                await waiting.wait_deleted(super_client, body, seconds=seconds, progress=progress)
    done = "deleted" if wait else "is being deleted"
    terminal.print_result(f"{printers.format_full_name(VIRTUAL_CLUSTERS, name)} {done}")
