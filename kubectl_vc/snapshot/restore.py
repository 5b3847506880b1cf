"""`kubectl vc restore`: the request to restore a snapshot in place, and its dry run.

vc-manager restores. A snapshot of another minor needs its ClusterVersion, so the request changes
both. A failed restore sets the ClusterVersion back, because the tenant has its present data.

Hazard: a restore discards all changes since the snapshot, so on a terminal the
user types the name first. The request is removed by vc-manager, and only then the result is read.
"""

import asyncio
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from clusterversions import catalog
from kubectl_vc.client import lookup
from kubectl_vc.client.config_flags import ConfigFlags
from kubectl_vc.client.connection import SuperConnection, connect_super_cluster
from kubectl_vc.client.waiting import wait_ready
from kubectl_vc.output import cli_errors, durations, printers
from kubectl_vc.output.cli_errors import CliError, WaitTimeoutError
from kubectl_vc.output.terminal import Progress, Terminal
from kubectl_vc.snapshot import snapshots as verbs
from kubeio import Object
from tenancy import wellknown
from tenancy.resources import VIRTUAL_CLUSTER_SNAPSHOTS, VIRTUAL_CLUSTERS
from tenancy.snapshots import view

_MANAGER = "kubectl-vc"


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreOptions:
    """Options of the command line."""

    snapshot: str
    dry_run: bool = False
    asks: bool = True
    wait: bool = True
    timeout_seconds: float = 0


async def run_restore(
    access: ConfigFlags, terminal: Terminal, *, name: str, options: RestoreOptions
) -> None:
    """Restore a snapshot in place, or print what that would change."""
    async with connect_super_cluster(access) as connection:
        body = await lookup.fetch_virtual_cluster(connection, name)
        snapshot = await verbs.fetch_snapshot(connection, options.snapshot)
        check_snapshot(body, snapshot)
        shown = printers.format_full_name(VIRTUAL_CLUSTERS, name)
        if options.dry_run:
            compared = await _compare(connection, options)
            for line in (*describe_comparison(compared), *describe_version(body, snapshot)):
                terminal.print_result(line)
            terminal.print_result(f"{shown} not changed (dry run)")
            return
        if options.asks:
            for line in describe_version(body, snapshot):
                terminal.print_warning(line)
            _ask_for_name(terminal, name, connection.namespace, options.snapshot)
        version = choose_version(body, snapshot)
        if not options.wait:
            await _request(connection, body, options.snapshot, version)
            terminal.print_result(f"{shown} is being restored")
            return
        await request_and_wait(connection, terminal, body, options, version=version)
    terminal.print_result(
        f"{shown} restored from {options.snapshot}. Deletes in the super cluster are held until"
        f" `kubectl vc confirm-deletes {name}`."
    )


async def request_and_wait(
    connection: SuperConnection,
    terminal: Terminal,
    body: Object,
    options: RestoreOptions,
    *,
    version: str = "",
) -> None:
    """Request a restore, and wait until the tenant serves the data. Raises CliError if it failed.

    A tenant that is asleep stays asleep, so only the data is waited for.

    `version`: the ClusterVersion that the tenant gets with the data. Empty: the present one.
    """
    name = body["metadata"]["name"]
    request = await _request(connection, body, options.snapshot, version)
    with terminal.create_progress() as progress:
        restore = await _wait(connection, name, request, options, progress)
    if version and restore.get("phase") != "Complete":
        await connection.super_client.patch(
            VIRTUAL_CLUSTERS,
            name,
            {"spec": {"clusterVersionName": body["spec"]["clusterVersionName"]}},
            namespace=connection.namespace,
            field_manager=_MANAGER,
        )
    check_result(cli_errors.describe_object(VIRTUAL_CLUSTERS, name, ""), restore)
    current = await lookup.fetch_virtual_cluster(connection, name)
    if (current.get("spec") or {}).get("sleep") is None:
        seconds = options.timeout_seconds
        with terminal.create_progress() as progress:
            await wait_ready(connection.super_client, current, seconds=seconds, progress=progress)


def check_snapshot(body: Mapping[str, Any], snapshot: Mapping[str, Any]) -> None:
    """Raise CliError unless a snapshot is complete and of this VirtualCluster.

    A suspended VirtualCluster may also start from an imported snapshot of another one.
    """
    verbs.check_complete(snapshot)
    manifest = (snapshot.get("status") or {}).get("manifest") or {}
    metadata = snapshot["metadata"]
    is_start = "imported" in (snapshot.get("spec") or {}) and (body.get("spec") or {}).get(
        "suspend"
    )
    if manifest.get("virtualClusterUID") != body["metadata"]["uid"] and not is_start:
        shown = cli_errors.describe_object(
            VIRTUAL_CLUSTER_SNAPSHOTS, metadata["name"], metadata.get("namespace", "")
        )
        raise CliError(
            f"{shown} is of another VirtualCluster with UID"
            f" {manifest.get('virtualClusterUID')}. It can be restored there only. Use --as-new"
            " to start a new VirtualCluster from it."
        )


def check_result(shown: str, restore: Mapping[str, Any]) -> None:
    """Raise CliError if a restore failed. `restore` is `status.restore`."""
    if restore.get("phase") != "Complete":
        reason, message = restore.get("reason", "Unknown"), restore.get("message", "")
        raise CliError(f"{shown} was not restored ({reason}): {message}")


def describe_comparison(snapshot: Mapping[str, Any]) -> Iterator[str]:
    """Yield the lines about what a restore would change."""
    comparison = (snapshot.get("status") or {}).get("comparison") or {}
    manifest = (snapshot.get("status") or {}).get("manifest") or {}
    yield (
        f"Snapshot of {manifest.get('clusterVersionName')}, Kubernetes"
        f" {manifest.get('kubernetesVersion')}, {manifest.get('objects', 0)} objects"
    )
    if "removed" not in comparison:
        yield "The changes are not known. The Events of the snapshot have the reason."
        return
    texts = {
        "removed": "Removed in the tenant (their copies stay until confirm-deletes)",
        "broughtBack": "Brought back in the tenant, and synced to the super cluster",
        "reverted": "Set back to their earlier content",
    }
    for key, text in texts.items():
        counts = comparison.get(key) or {}
        yield f"{text}: {sum(counts.values())}"
        for resource, count in sorted(counts.items()):
            yield f"  {resource}: {count}"
    for each in comparison.get("removedNames") or ():
        yield f"  removed: {each}"


def choose_version(body: Mapping[str, Any], snapshot: Mapping[str, Any]) -> str:
    """Return the ClusterVersion of a snapshot of another minor. Empty: the tenant keeps its own."""
    manifest = (snapshot.get("status") or {}).get("manifest") or {}
    name = str(manifest.get("clusterVersionName") or "")
    before = catalog.parse_minor((body.get("status") or {}).get("version") or "")
    after = catalog.parse_minor(manifest.get("kubernetesVersion") or "")
    is_other = before is not None and after is not None and before != after
    return name if is_other and name != (body.get("spec") or {}).get("clusterVersionName") else ""


def describe_version(body: Mapping[str, Any], snapshot: Mapping[str, Any]) -> Iterator[str]:
    """Yield the line about a ClusterVersion that the restore changes."""
    name = choose_version(body, snapshot)
    if name:
        yield (
            f"The tenant runs Kubernetes {body['status']['version']}, and the snapshot is of"
            f" {snapshot['status']['manifest']['kubernetesVersion']}. The restore also changes the"
            f" ClusterVersion from {body['spec']['clusterVersionName']} to {name}."
        )


async def _compare(connection: SuperConnection, options: RestoreOptions) -> Object:
    """Request a comparison from vc-manager, and return the snapshot with it."""
    moment = datetime.now(UTC).isoformat()
    await connection.super_client.patch(
        VIRTUAL_CLUSTER_SNAPSHOTS,
        options.snapshot,
        {"metadata": {"annotations": {wellknown.COMPARE_SNAPSHOT: moment}}},
        namespace=connection.namespace,
        field_manager=_MANAGER,
    )

    def is_answered(body: Mapping[str, Any]) -> bool:
        found = (body.get("status") or {}).get("comparison") or {}
        return bool(found.get("requested") == moment)

    return await verbs.wait_for_snapshot(
        connection, options.snapshot, is_answered, seconds=options.timeout_seconds
    )


async def _request(connection: SuperConnection, body: Object, snapshot: str, version: str) -> str:
    """Write the request, and the ClusterVersion, in the version that was read. Return it."""
    metadata = body["metadata"]
    running = (metadata.get("annotations") or {}).get(wellknown.RESTORE_SNAPSHOT)
    if running:
        shown = cli_errors.describe_object(
            VIRTUAL_CLUSTERS, metadata["name"], metadata["namespace"]
        )
        raise CliError(f"{shown} is being restored already ({running}). Wait until it has ended.")
    request = view.format_restore_request(snapshot, datetime.now(UTC))
    await connection.super_client.patch(
        VIRTUAL_CLUSTERS,
        metadata["name"],
        {
            "metadata": {
                "uid": metadata["uid"],
                "resourceVersion": metadata["resourceVersion"],
                "annotations": {wellknown.RESTORE_SNAPSHOT: request},
            },
            **({"spec": {"clusterVersionName": version}} if version else {}),
        },
        namespace=metadata["namespace"],
        field_manager=_MANAGER,
    )
    return request


async def _wait(
    connection: SuperConnection,
    name: str,
    request: str,
    options: RestoreOptions,
    progress: Progress,
) -> Mapping[str, Any]:
    """Return `status.restore` once the request has ended."""
    restore: Mapping[str, Any] = {}
    try:
        async with asyncio.timeout(options.timeout_seconds or None):
            while True:
                body = await lookup.fetch_virtual_cluster(connection, name)
                found = (body.get("status") or {}).get("restore") or {}
                restore = found if found.get("request") == request else {}
                is_requested = wellknown.RESTORE_SNAPSHOT in (
                    body["metadata"].get("annotations") or {}
                )
                if restore and not is_requested:
                    return restore
                text = str(restore.get("message") or "vc-manager has not processed it yet")
                progress.set_waiting(text, reason=str(restore.get("phase") or ""))
                progress.tick()
                await asyncio.sleep(verbs.POLL_SECONDS)
    except TimeoutError as problem:
        shown = cli_errors.describe_object(VIRTUAL_CLUSTERS, name, connection.namespace)
        raise WaitTimeoutError(
            f"{shown} is not restored after {durations.format_elapsed(options.timeout_seconds)}:"
            f" {restore.get('message') or 'vc-manager has not processed it yet.'} The restore"
            f" continues. Watch it with `kubectl vc get {name} -n {connection.namespace}`."
        ) from problem


def _ask_for_name(terminal: Terminal, name: str, namespace: str, snapshot: str) -> None:
    shown = cli_errors.describe_object(VIRTUAL_CLUSTERS, name, namespace)
    effect = f"This stops {shown} and discards all changes since {snapshot}."
    terminal.ask_for_name(name, shown, effect=effect, done="restored")
