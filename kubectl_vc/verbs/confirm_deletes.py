"""`kubectl vc confirm-deletes`: confirmation that a tenant's new etcd data is intended.

Owns the one annotation that ends delete protection (condition DeletesHeld). Hazard: only the store
named in the status may be confirmed. From then on the syncer deletes every object in the super
cluster that the new store lacks.
"""

from collections.abc import Mapping
from typing import Any

from kubectl_vc.client import lookup
from kubectl_vc.client.config_flags import ConfigFlags
from kubectl_vc.client.connection import connect_super_cluster
from kubectl_vc.output import cli_errors, printers
from kubectl_vc.output.cli_errors import CliError
from kubectl_vc.output.terminal import Terminal
from tenancy import conditions, wellknown
from tenancy.resources import VIRTUAL_CLUSTERS


async def run_confirm_deletes(
    access: ConfigFlags, terminal: Terminal, *, name: str, asks: bool = True, dry_run: str = "none"
) -> None:
    """Annotate a VirtualCluster with the UID of the store whose deletes are intended.

    `asks`: on a terminal, the user types the name first. `dry_run`: none, client or server.
    """
    async with connect_super_cluster(access) as connection:
        super_client, namespace = connection.super_client, connection.namespace
        body = await lookup.fetch_virtual_cluster(connection, name)
        shown = cli_errors.describe_object(VIRTUAL_CLUSTERS, name, namespace)
        store = held_store(shown, body)
        if asks and dry_run == "none":
            effect = f"This deletes what the etcd of {shown} does not contain, volumes included."
            terminal.ask_for_name(name, shown, effect=effect, done="confirmed")
        metadata = {
            "uid": body["metadata"]["uid"],
            "annotations": {wellknown.CONFIRM_DELETES: store},
        }
        if dry_run != "client":
            await super_client.patch(
                VIRTUAL_CLUSTERS,
                name,
                {"metadata": metadata},
                namespace=namespace,
                field_manager="kubectl-vc",
                dry_run=dry_run == "server",
            )
    notes = {"none": "", "client": " (dry run)", "server": " (server dry run)"}
    terminal.print_result(
        f"{printers.format_full_name(VIRTUAL_CLUSTERS, name)}: deletes confirmed for the etcd with"
        f" kube-system {store}{notes[dry_run]}"
    )


def held_store(shown: str, body: Mapping[str, Any]) -> str:
    """Return the UID of the store for which deletes are held. Raises CliProblem without one.

    `shown` is the name of the VirtualCluster in messages.
    """
    status = body.get("status") or {}
    held = conditions.find_condition(status.get("conditions"), wellknown.DELETES_HELD) or {}
    if held.get("status") != "True":
        raise CliError(f"{shown} has no held deletes, so there is nothing to confirm.")
    store = status.get("heldStore")
    if store is None:
        raise cli_errors.missing_field(shown, held, "heldStore", writer="syncer")
    uid = str(store.get("uid") or "")
    if not uid:
        raise CliError(
            f"{shown}: the field status.heldStore has no UID, because the tenant's etcd has no"
            " Namespace kube-system yet. Wait until the tenant's API server has created it, then"
            " run the command again."
        )
    return uid
