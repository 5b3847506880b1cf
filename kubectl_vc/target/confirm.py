"""`kubectl vc target confirm`: tell that what is missing in another cluster is gone for good.

Owns the one annotation that ends the hold on what is concluded from absence there. Hazard: from
then on the pods that are missing count as lost, so only the state that the person was told of is
confirmed.
"""

import re
from collections.abc import Mapping
from typing import Any

from kubectl_vc.client.config_flags import Access
from kubectl_vc.client.connection import connected
from kubectl_vc.output import printers
from kubectl_vc.output.cli_errors import CliProblem
from kubectl_vc.output.terminal import Terminal
from kubectl_vc.target import manifests
from kubeio import errors
from tenancy import conditions, super_clusters, wellknown
from tenancy.resources import SUPER_CLUSTERS

IDENTITY_CHANGED = "IdentityChanged"
"""Reason of vc-manager's condition Reachable: another cluster answers."""
_UID = re.compile(r"its kube-system is ([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}),")


async def run(access: Access, terminal: Terminal, *, name: str) -> None:
    """Annotate a SuperCluster with the state, or the cluster, that is meant."""
    manifests.checked_name(name)
    async with connected(access) as connection:
        here = connection.super_client
        try:
            body = await here.get(SUPER_CLUSTERS, name)
        except errors.NotFound as problem:
            raise CliProblem(
                f"there is no SuperCluster {name}; see `kubectl vc target list`"
            ) from problem
        word, meant = confirmed(name, body)
        metadata = {"uid": body["metadata"]["uid"], "annotations": {wellknown.CONFIRM_LOSSES: word}}
        await here.patch(SUPER_CLUSTERS, name, {"metadata": metadata}, field_manager="kubectl-vc")
    terminal.say(f"{printers.full_name(SUPER_CLUSTERS, name)} confirmed ({meant})")


def confirmed(name: str, body: Mapping[str, Any]) -> tuple[str, str]:
    """Return the word that is to be said, and what it means. Raises CliProblem."""
    listed = (body.get("status") or {}).get("conditions")
    reachable = conditions.find(listed, super_clusters.REACHABLE) or {}
    if reachable.get("reason") == IDENTITY_CHANGED:
        found = _UID.search(str(reachable.get("message") or ""))
        if found:
            return found[1], f"the cluster with kube-system {found[1]} is the one that is meant"
    held = conditions.find(listed, super_clusters.LOSSES_HELD) or {}
    if held.get("status") != "True":
        raise CliProblem(f"nothing is held for {name}, so there is nothing to confirm")
    state = conditions.named_state(str(held.get("message") or ""))
    if not state:
        raise CliProblem(
            f"the condition {super_clusters.LOSSES_HELD} of {name} names no state; wait until the"
            " syncer has said which pods are missing"
        )
    return state, f"what is missing is gone, state {state}"
