"""`kubectl vc target confirm`: confirmation that pods missing in a target are lost.

Owns the one annotation that ends condition LossesHeld. Hazard: only the loss named in the status
may be confirmed. From then on the missing pods are treated as lost.
"""

from collections.abc import Mapping
from typing import Any

from kubectl_vc.client.config_flags import ConfigFlags
from kubectl_vc.client.connection import connect_super_cluster
from kubectl_vc.output import cli_errors, printers
from kubectl_vc.output.cli_errors import CliError, NotFoundError
from kubectl_vc.output.terminal import Terminal
from kubectl_vc.target import manifests
from kubeio import errors
from tenancy import conditions, super_clusters, wellknown
from tenancy.resources import SUPER_CLUSTERS


async def run_confirm(access: ConfigFlags, terminal: Terminal, *, name: str) -> None:
    """Annotate a SuperCluster with the confirmed state or the confirmed cluster."""
    manifests.check_target_name(name)
    async with connect_super_cluster(access) as connection:
        here = connection.super_client
        try:
            body = await here.get(SUPER_CLUSTERS, name)
        except errors.NotFound as problem:
            raise NotFoundError(
                f"SuperCluster {name} was not found. List all with `kubectl vc target list`."
            ) from problem
        word, meant = build_confirmation(name, body)
        metadata = {"uid": body["metadata"]["uid"], "annotations": {wellknown.CONFIRM_LOSSES: word}}
        await here.patch(SUPER_CLUSTERS, name, {"metadata": metadata}, field_manager="kubectl-vc")
    terminal.print_result(f"{printers.format_full_name(SUPER_CLUSTERS, name)} confirmed ({meant})")


def build_confirmation(name: str, body: Mapping[str, Any]) -> tuple[str, str]:
    """Return the value of the annotation, and its meaning in words. Raises CliProblem."""
    status = body.get("status") or {}
    listed = status.get("conditions")
    reachable = conditions.find_condition(listed, super_clusters.REACHABLE) or {}
    if reachable.get("reason") == super_clusters.IDENTITY_CHANGED:
        uid = str(status.get("observedIdentity") or "")
        if not uid:
            raise cli_errors.missing_field(
                f"SuperCluster {name}", reachable, "observedIdentity", writer="vc-manager"
            )
        return uid, f"the new cluster with kube-system {uid} was confirmed"
    held = conditions.find_condition(listed, super_clusters.LOSSES_HELD) or {}
    if held.get("status") != "True":
        raise CliError(f"{name} has no held losses, so there is nothing to confirm.")
    state = str((status.get("losses") or {}).get("state") or "")
    if not state:
        raise cli_errors.missing_field(f"SuperCluster {name}", held, "losses", writer="syncer")
    return state, f"the missing pods were confirmed as lost, state {state}"
