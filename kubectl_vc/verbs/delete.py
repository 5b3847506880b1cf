"""`kubectl vc delete`: deletion of a tenant and all that runs in it, after its grace period.

Hazard: the request must contain the UID of the VirtualCluster that was read. Its name may belong to
another VirtualCluster by the time of the delete.
"""

import contextlib
from datetime import UTC, datetime, timedelta

from kubectl_vc.client import lookup, waiting
from kubectl_vc.client.config_flags import ConfigFlags
from kubectl_vc.client.connection import SuperConnection, connect_super_cluster
from kubectl_vc.output import cli_errors, printers
from kubectl_vc.output.terminal import Terminal
from kubeio import Object, errors
from tenancy import conditions, deletion, wellknown
from tenancy.resources import VIRTUAL_CLUSTERS

_MANAGER = "kubectl-vc"


async def run_delete(
    access: ConfigFlags,
    terminal: Terminal,
    *,
    name: str,
    wait: bool,
    seconds: float,
    ignore_not_found: bool,
    asks: bool = True,
    now: bool = False,
    dry_run: str = "none",
) -> None:
    """Delete a VirtualCluster, and wait until nothing of it is left.

    `asks`: on a terminal, the user types the name first. `now`: the grace period is left out.
    `dry_run`: none, client or server.
    """
    async with connect_super_cluster(access) as connection:
        super_client, namespace = connection.super_client, connection.namespace
        try:
            body = await lookup.fetch_virtual_cluster(connection, name)
        except lookup.VirtualClusterNotFoundError:
            if ignore_not_found:
                return
            raise
        shown = printers.format_full_name(VIRTUAL_CLUSTERS, name)
        is_deleting = "deletionTimestamp" in body["metadata"]
        if dry_run != "none":
            await _check_deletion(connection, terminal, body, is_server=dry_run == "server")
            return
        if asks and not is_deleting:
            _ask_for_name(terminal, name, namespace)
        grace = deletion.parse_grace_period((body.get("spec") or {}).get("deletionGracePeriod"))
        known = deletion.parse_scheduled_time(body["metadata"].get("annotations") or {})
        if grace and not is_deleting:
            if known is None or now:  # a second delete does not put off the first
                body = await _schedule(connection, body, timedelta(0) if now else grace)
            if not now:
                moment = body["metadata"]["annotations"][wellknown.DELETE_AFTER]
                terminal.print_result(
                    f"{shown} will be deleted at {moment}. Take it back with `kubectl vc undelete"
                    f" {name} -n {namespace}`."
                )
                return
        else:
            await _remove_protection(connection, body)
            with contextlib.suppress(errors.NotFound):  # already deleted by another request
                await super_client.delete(
                    VIRTUAL_CLUSTERS, name, namespace=namespace, uid=body["metadata"]["uid"]
                )
        if wait:
            with terminal.create_progress() as progress:
                await waiting.wait_deleted(super_client, body, seconds=seconds, progress=progress)
    terminal.print_result(f"{shown} {'deleted' if wait else 'is being deleted'}")


async def _check_deletion(
    connection: SuperConnection, terminal: Terminal, body: Object, *, is_server: bool
) -> None:
    """Print what a deletion would do. With `is_server`, the API server checks the write first.

    It is the first write of a deletion, which removes the protection. A delete itself would be
    refused until then.
    """
    metadata = body["metadata"]
    if is_server:
        await connection.super_client.patch(
            VIRTUAL_CLUSTERS,
            metadata["name"],
            {"metadata": {"uid": metadata["uid"], "labels": {wellknown.DELETION_PROTECTION: None}}},
            namespace=metadata["namespace"],
            field_manager=_MANAGER,
            dry_run=True,
        )
    shown = printers.format_full_name(VIRTUAL_CLUSTERS, metadata["name"])
    terminal.print_result(f"{shown} deleted ({'server dry run' if is_server else 'dry run'})")


def _ask_for_name(terminal: Terminal, name: str, namespace: str) -> None:
    """Compare the typed name. Raises CliError for another name."""
    shown = cli_errors.describe_object(VIRTUAL_CLUSTERS, name, namespace)
    effect = f"This deletes {shown} with all its pods and volumes."
    terminal.ask_for_name(name, shown, effect=effect, done="deleted")


async def _schedule(connection: SuperConnection, body: Object, grace: timedelta) -> Object:
    """Record when vc-manager deletes a VirtualCluster. Return it with the annotation."""
    moment = conditions.format_time(datetime.now(UTC) + grace)
    return await _patch(
        connection,
        body,
        {
            "annotations": {wellknown.DELETE_AFTER: moment},
            "labels": {wellknown.DELETION_PROTECTION: None},
        },
    )


async def _remove_protection(connection: SuperConnection, body: Object) -> None:
    if deletion.is_protected(body["metadata"].get("labels") or {}):
        await _patch(connection, body, {"labels": {wellknown.DELETION_PROTECTION: None}})


async def _patch(connection: SuperConnection, body: Object, metadata: Object) -> Object:
    return await connection.super_client.patch(
        VIRTUAL_CLUSTERS,
        body["metadata"]["name"],
        {"metadata": {"uid": body["metadata"]["uid"], **metadata}},
        namespace=body["metadata"]["namespace"],
        field_manager=_MANAGER,
    )
