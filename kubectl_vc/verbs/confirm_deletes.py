"""`kubectl vc confirm-deletes`: tell the syncer that a tenant's new store is meant.

Owns the one annotation that ends the brake. Hazard: from then on whatever the new store lacks is
deleted in the super cluster, so only the store that the person was told of is confirmed.
"""

from kubectl_vc.client import lookup
from kubectl_vc.client.config_flags import Access
from kubectl_vc.client.connection import connected
from kubectl_vc.output import cli_errors, printers
from kubectl_vc.output.cli_errors import CliProblem
from kubectl_vc.output.terminal import Terminal
from tenancy import conditions, wellknown
from tenancy.resources import VIRTUAL_CLUSTERS


async def run(access: Access, terminal: Terminal, *, name: str) -> None:
    """Annotate a VirtualCluster with the UID of the store whose deletes are meant."""
    async with connected(access) as connection:
        super_client, namespace = connection.super_client, connection.namespace
        body = await lookup.fetch(connection, name)
        shown = cli_errors.described(VIRTUAL_CLUSTERS, name, namespace)
        held = conditions.find((body.get("status") or {}).get("conditions"), wellknown.DELETES_HELD)
        if held is None or held.get("status") != "True":
            raise CliProblem(f"no deletes of {shown} are held, so there is nothing to confirm")
        store = conditions.named_store(str(held.get("message") or ""))
        if not store:
            raise CliProblem(
                f"the condition {wellknown.DELETES_HELD} of {shown} names no store yet; wait until"
                " the syncer has reached the tenant's API"
            )
        metadata = {
            "uid": body["metadata"]["uid"],
            "annotations": {wellknown.CONFIRM_DELETES: store},
        }
        await super_client.patch(
            VIRTUAL_CLUSTERS,
            name,
            {"metadata": metadata},
            namespace=namespace,
            field_manager="kubectl-vc",
        )
    terminal.say(f"{printers.full_name(VIRTUAL_CLUSTERS, name)} deletes confirmed (store {store})")
