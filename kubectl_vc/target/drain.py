"""Withdrawal of a target from its tenants, before the target leaves.

Owns the withdrawal of grants, and the progress reports. Must not remove the target itself. Hazard:
a tenant without another grant must be reported. Its pods run in the home cluster again.
"""

import asyncio
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from kubectl_vc.output import durations, printers
from kubectl_vc.output.cli_errors import CliError, WaitTimeoutError
from kubectl_vc.output.terminal import Terminal
from kubeio import Object, errors
from kubeio.api.client import Client
from tenancy import conditions, super_clusters
from tenancy.resources import SUPER_CLUSTERS, VIRTUAL_CLUSTERS

_MAX_SHOWN = 5
_POLL_SECONDS = 2.0  # seconds
_REMAINING_PODS_TEXT = (
    "Pods that are protected by a disruption budget, or that have no controller to recreate them,"
    " stay until they are deleted. Events in the tenant name them."
)


class RemainingObjects(NamedTuple):
    """The grant and the pods of one VirtualCluster in a target."""

    name: str
    """`NAMESPACE/NAME`."""
    is_granted: bool
    phase: str
    pods: int

    def __str__(self) -> str:
        """Return the name, and the phase and number of pods if there is a phase."""
        if not self.phase:
            return self.name
        return f"{self.name} ({self.phase}, {self.pods} pod{'' if self.pods == 1 else 's'})"


def list_remaining(
    name: str, virtual_clusters: Iterable[Mapping[str, Any]]
) -> list[RemainingObjects]:
    """Return the VirtualClusters that are granted a target or have pods in it, sorted by name."""
    found = []
    for each in virtual_clusters:
        spec, status = each.get("spec") or {}, each.get("status") or {}
        granted = {str(one.get("name")) for one in spec.get("targets") or ()}
        there = [one for one in status.get("targets") or () if one.get("name") == name]
        if name not in granted and not there:
            continue
        metadata, said = each["metadata"], there[0] if there else {}
        found.append(
            RemainingObjects(
                f"{metadata['namespace']}/{metadata['name']}",
                name in granted,
                str(said.get("phase") or ""),
                int(said.get("pods") or 0),
            )
        )
    return sorted(found)


def format_remaining(remaining: Iterable[RemainingObjects]) -> str:
    """Return the first few names and the number of the rest."""
    listed = [str(each) for each in remaining]
    more = f" and {len(listed) - _MAX_SHOWN} more" if len(listed) > _MAX_SHOWN else ""
    return f"{', '.join(listed[:_MAX_SHOWN])}{more}"


async def fetch_remaining(home_client: Client, name: str) -> list[RemainingObjects]:
    """Return the VirtualClusters left in a target now."""
    return list_remaining(name, (await home_client.list(VIRTUAL_CLUSTERS)).get("items") or ())


async def run_drain(
    home_client: Client, terminal: Terminal, name: str, *, seconds: float, dry_run: bool
) -> None:
    """Withdraw a target from all tenants and wait until it is empty.

    Raises CliProblem with the rest after `seconds` (0: no limit).
    """
    for each in (await home_client.list(VIRTUAL_CLUSTERS)).get("items") or ():
        if any(one.get("name") == name for one in (each.get("spec") or {}).get("targets") or ()):
            await _withdraw_grants(home_client, terminal, name, each, dry_run=dry_run)
    if dry_run:
        return
    left = await fetch_remaining(home_client, name)
    told: list[RemainingObjects] = []
    try:
        async with asyncio.timeout(seconds or None):
            while left:
                if left != told:
                    terminal.print_result(f"left in {name}: {format_remaining(left)}")
                    if not told and any(each.pods for each in left):
                        terminal.print_result(_REMAINING_PODS_TEXT)
                    told = left
                await asyncio.sleep(_POLL_SECONDS)
                left = await fetch_remaining(home_client, name)
    except TimeoutError as problem:
        raise WaitTimeoutError(
            f"after {durations.format_elapsed(seconds)}, {format_remaining(left)} still has"
            f" objects in {name}.{await _describe_unreachable(home_client, name)}"
            f" {_REMAINING_PODS_TEXT} Run the command again then."
        ) from problem


async def _describe_unreachable(home_client: Client, name: str) -> str:
    """Return a remark for a target that does not answer, because nothing in it can end."""
    try:
        body = await home_client.get(SUPER_CLUSTERS, name)
    except errors.KubeError:
        return ""
    listed = (body.get("status") or {}).get("conditions")
    reachable = conditions.find_condition(listed, super_clusters.REACHABLE) or {}
    if reachable.get("status") != "False":
        return ""
    return f" {name} does not answer, so nothing can be deleted there."


async def _withdraw_grants(
    home_client: Client, terminal: Terminal, name: str, found: Object, *, dry_run: bool
) -> None:
    metadata, before = found["metadata"], found["spec"]["targets"]
    after = [each for each in before if each.get("name") != name]
    operations = [
        {"op": "test", "path": "/metadata/uid", "value": metadata["uid"]},
        {"op": "test", "path": "/spec/targets", "value": before},
        {"op": "replace", "path": "/spec/targets", "value": after},
    ]
    shown = printers.format_full_name(VIRTUAL_CLUSTERS, metadata["name"])
    if not after:
        terminal.print_warning(
            f"{shown} was granted {name} only. New pods run in the home cluster."
        )
    if not dry_run:
        try:
            await home_client.patch(
                VIRTUAL_CLUSTERS,
                metadata["name"],
                operations,
                kind="json",
                namespace=metadata["namespace"],
                field_manager="kubectl-vc",
            )
        except errors.NotFound:
            return
        except errors.Invalid as problem:
            raise CliError(
                f"{shown} was changed by another client. Run the command again."
            ) from problem
    terminal.print_result(f"{shown} {'would lose' if dry_run else 'lost'} the grant of {name}")
