"""`kubectl vc undelete`: end of a scheduled deletion, within the grace period.

Hazard: a VirtualCluster with a deletionTimestamp cannot be kept. Only one that waits for the end of
its grace period can.
"""

from kubectl_vc.client import lookup
from kubectl_vc.client.config_flags import ConfigFlags
from kubectl_vc.client.connection import connect_super_cluster
from kubectl_vc.output import cli_errors, printers
from kubectl_vc.output.cli_errors import CliError
from kubectl_vc.output.terminal import Terminal
from tenancy import deletion, wellknown
from tenancy.resources import VIRTUAL_CLUSTERS


async def run_undelete(access: ConfigFlags, terminal: Terminal, *, name: str) -> None:
    """Remove the time of deletion, and protect the VirtualCluster again."""
    async with connect_super_cluster(access) as connection:
        body = await lookup.fetch_virtual_cluster(connection, name)
        metadata = body["metadata"]
        shown = cli_errors.describe_object(VIRTUAL_CLUSTERS, name, metadata["namespace"])
        if "deletionTimestamp" in metadata:
            raise CliError(f"{shown} is being deleted already, and cannot be kept.")
        if wellknown.DELETE_AFTER not in (metadata.get("annotations") or {}):
            raise CliError(f"{shown} is not scheduled for deletion, so there is nothing to undo.")
        patch = {
            "uid": metadata["uid"],
            "resourceVersion": metadata["resourceVersion"],
            "annotations": {wellknown.DELETE_AFTER: None},
            "labels": {wellknown.DELETION_PROTECTION: deletion.PROTECTION_ENABLED},
        }
        await connection.super_client.patch(
            VIRTUAL_CLUSTERS,
            name,
            {"metadata": patch},
            namespace=metadata["namespace"],
            field_manager="kubectl-vc",
        )
    terminal.print_result(f"{printers.format_full_name(VIRTUAL_CLUSTERS, name)} undeleted")
