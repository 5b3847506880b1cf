"""`kubectl vc sleep` and `kubectl vc wake`: stop of a tenant's control plane, and its start.

Owns the refusals before the write. Hazard: the patch names the version that was read. Otherwise a
tenant whose deletion was scheduled meanwhile would be changed.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from kubectl_vc.client import lookup, waiting
from kubectl_vc.client.config_flags import ConfigFlags
from kubectl_vc.client.connection import SuperConnection, connect_super_cluster
from kubectl_vc.output import cli_errors, printers
from kubectl_vc.output.cli_errors import CliError
from kubectl_vc.output.terminal import Terminal
from kubeio import Object
from tenancy import conditions, deletion
from tenancy.resources import VIRTUAL_CLUSTERS
from tenancy.specs import SleepingWorkloads

_MANAGER = "kubectl-vc"


@dataclass(frozen=True, slots=True, kw_only=True)
class SleepOptions:
    """Options of the command line."""

    dry_run: bool = False
    wait: bool = True
    timeout_seconds: float = 0


async def run_sleep(
    access: ConfigFlags,
    terminal: Terminal,
    *,
    name: str,
    workloads: SleepingWorkloads,
    options: SleepOptions,
) -> None:
    """Put a VirtualCluster to sleep. If it is asleep, change the choice of workloads."""
    sleep = {"workloads": workloads}
    await _change_sleep(access, terminal, name, sleep, options, wait=waiting.wait_asleep)
    pods = "Its pods run on" if workloads == "Keep" else "Its pods are stopped"
    shown = printers.format_full_name(VIRTUAL_CLUSTERS, name)
    if options.dry_run:
        terminal.print_result(f"{shown} would fall asleep (dry run). {pods}.")
        return
    state = "is asleep" if options.wait else "falls asleep"
    terminal.print_result(f"{shown} {state}. {pods}. Wake it with `kubectl vc wake {name}`.")


async def run_wake(
    access: ConfigFlags, terminal: Terminal, *, name: str, options: SleepOptions
) -> None:
    """Wake a VirtualCluster, and wait until it is ready."""
    await _change_sleep(access, terminal, name, None, options, wait=waiting.wait_ready)
    shown = printers.format_full_name(VIRTUAL_CLUSTERS, name)
    if options.dry_run:
        terminal.print_result(f"{shown} would wake (dry run)")
        return
    terminal.print_result(f"{shown} {'is awake' if options.wait else 'wakes'}")


async def _change_sleep(
    access: ConfigFlags,
    terminal: Terminal,
    name: str,
    sleep: Mapping[str, str] | None,
    options: SleepOptions,
    *,
    wait: Callable[..., Awaitable[object]],
) -> None:
    """Write `spec.sleep`, and wait for the end of the change. None wakes the tenant."""
    async with connect_super_cluster(access) as connection:
        body = await lookup.fetch_virtual_cluster(connection, name)
        check_changeable(body, datetime.now(UTC))
        if sleep is not None or (body.get("spec") or {}).get("sleep") is not None:
            body = await _patch_sleep(connection, body, sleep, dry_run=options.dry_run)
        if options.wait and not options.dry_run:
            with terminal.create_progress() as progress:
                await wait(
                    connection.super_client,
                    body,
                    seconds=options.timeout_seconds,
                    progress=progress,
                )


def check_changeable(body: Mapping[str, Any], now: datetime) -> None:
    """Raise CliError if vc-manager would neither stop nor start the control plane."""
    metadata = body["metadata"]
    shown = cli_errors.describe_object(VIRTUAL_CLUSTERS, metadata["name"], metadata["namespace"])
    if "deletionTimestamp" in metadata:
        raise CliError(f"{shown} is being deleted, so it can neither sleep nor wake.")
    if deletion.parse_scheduled_time(metadata.get("annotations") or {}) is not None:
        raise CliError(
            f"{shown} is scheduled for deletion, so its control plane is stopped. Take the deletion"
            f" back first, with `kubectl vc undelete {metadata['name']}`."
        )
    until = deletion.parse_time((body.get("spec") or {}).get("pausedUntil"))
    if until is not None and until > now:
        raise CliError(
            f"{shown} is paused until {conditions.format_time(until)}, so vc-manager changes"
            " nothing. Remove spec.pausedUntil first."
        )


async def _patch_sleep(
    connection: SuperConnection, body: Object, sleep: Mapping[str, str] | None, *, dry_run: bool
) -> Object:
    metadata = body["metadata"]
    version = {"uid": metadata["uid"], "resourceVersion": metadata["resourceVersion"]}
    return await connection.super_client.patch(
        VIRTUAL_CLUSTERS,
        metadata["name"],
        {"metadata": version, "spec": {"sleep": sleep}},
        namespace=metadata["namespace"],
        field_manager=_MANAGER,
        dry_run=dry_run,
    )
