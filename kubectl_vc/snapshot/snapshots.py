"""`kubectl vc snapshot create|list|get|delete`: the snapshots of virtual clusters.

Owns the columns. Must not know how vc-manager saves a snapshot. Hazard: a snapshot is done only by
its condition Complete. Its phase is for people.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from kubectl_vc.client import lookup
from kubectl_vc.client.config_flags import ConfigFlags
from kubectl_vc.client.connection import SuperConnection, connect_super_cluster
from kubectl_vc.output import cli_errors, durations, printers
from kubectl_vc.output.cli_errors import CliError, NotFoundError, WaitTimeoutError
from kubectl_vc.output.printers import OutputFormat
from kubectl_vc.output.terminal import Terminal
from kubeio import Object, errors
from tenancy import conditions
from tenancy.resources import VIRTUAL_CLUSTER_SNAPSHOTS
from tenancy.snapshots.specs import DEFAULT_CLAIM

COMPLETE = "Complete"
POLL_SECONDS = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class SaveOptions:
    """Options of `kubectl vc snapshot create`."""

    snapshot: str = ""
    """Name of the snapshot. Empty: the name of the VirtualCluster and the time."""
    claim: str = DEFAULT_CLAIM
    keep_for: str = ""
    wait: bool = True
    timeout_seconds: float = 0


async def run_create(
    access: ConfigFlags, terminal: Terminal, *, name: str, options: SaveOptions
) -> None:
    """Create a snapshot, and wait until it is complete."""
    async with connect_super_cluster(access) as connection:
        await lookup.fetch_virtual_cluster(connection, name)
        body = build_snapshot(name, options, datetime.now(UTC))
        made = await connection.super_client.create(
            VIRTUAL_CLUSTER_SNAPSHOTS,
            body,
            namespace=connection.namespace,
            field_manager="kubectl-vc",
        )
        shown = printers.format_full_name(VIRTUAL_CLUSTER_SNAPSHOTS, made["metadata"]["name"])
        if not options.wait:
            terminal.print_result(f"{shown} created")
            return
        found = await wait_for_snapshot(
            connection, made["metadata"]["name"], is_ended, seconds=options.timeout_seconds
        )
        check_complete(found)
    size = ((found.get("status") or {}).get("manifest") or {}).get("sizeBytes", 0)
    terminal.print_result(f"{shown} complete, {size} bytes")


async def run_list(
    access: ConfigFlags, terminal: Terminal, *, name: str, everywhere: bool, form: OutputFormat
) -> None:
    """Print the snapshots of a namespace, of all, or of one VirtualCluster."""
    async with connect_super_cluster(access) as connection:
        namespace = "" if everywhere else connection.namespace
        found = await connection.super_client.list(
            VIRTUAL_CLUSTER_SNAPSHOTS,
            namespace=namespace,
            field_selector=f"spec.virtualClusterName={name}" if name else "",
        )
    items = [_add_kind(item) for item in found.get("items") or []]
    if form in (OutputFormat.JSON, OutputFormat.YAML):
        terminal.print_result(printers.format_document(printers.build_list(items), form))
    elif form is OutputFormat.NAME:
        names = [
            printers.format_full_name(VIRTUAL_CLUSTER_SNAPSHOTS, each["metadata"]["name"])
            for each in items
        ]
        terminal.print_result("".join(f"{each}\n" for each in names))
    elif items:
        terminal.print_result(build_table(items, now=datetime.now(UTC), everywhere=everywhere))
    else:
        terminal.print_warning("No VirtualClusterSnapshots found.")


async def run_get(
    access: ConfigFlags, terminal: Terminal, *, snapshot: str, form: OutputFormat
) -> None:
    """Print one snapshot with its manifest."""
    async with connect_super_cluster(access) as connection:
        found = _add_kind(await fetch_snapshot(connection, snapshot))
    if form is OutputFormat.NAME:
        terminal.print_result(printers.format_full_name(VIRTUAL_CLUSTER_SNAPSHOTS, snapshot))
    elif form in (OutputFormat.JSON, OutputFormat.YAML):
        terminal.print_result(printers.format_document(found, form))
    else:
        terminal.print_result(build_table([found], now=datetime.now(UTC), everywhere=False))
        terminal.print_result(describe_manifest(found))


async def run_delete(access: ConfigFlags, terminal: Terminal, *, snapshot: str) -> None:
    """Delete a snapshot with its files."""
    async with connect_super_cluster(access) as connection:
        found = await fetch_snapshot(connection, snapshot)
        await connection.super_client.delete(
            VIRTUAL_CLUSTER_SNAPSHOTS,
            snapshot,
            namespace=connection.namespace,
            uid=found["metadata"]["uid"],
        )
    terminal.print_result(
        f"{printers.format_full_name(VIRTUAL_CLUSTER_SNAPSHOTS, snapshot)} is being deleted"
    )


def build_snapshot(name: str, options: SaveOptions, now: datetime) -> Object:
    """Return the VirtualClusterSnapshot."""
    spec: Object = {
        "virtualClusterName": name,
        "storage": {"persistentVolumeClaim": {"claimName": options.claim}},
    }
    if options.keep_for:
        spec["retention"] = {"keepFor": options.keep_for}
    return {
        "apiVersion": VIRTUAL_CLUSTER_SNAPSHOTS.api_version,
        "kind": VIRTUAL_CLUSTER_SNAPSHOTS.kind,
        "metadata": {"name": options.snapshot or f"{name}-{now:%Y%m%d-%H%M%S}"},
        "spec": spec,
    }


async def fetch_snapshot(connection: SuperConnection, name: str) -> Object:
    """Return a snapshot. Raises CliError if it does not exist."""
    namespace = connection.namespace
    try:
        return await connection.super_client.get(
            VIRTUAL_CLUSTER_SNAPSHOTS, name, namespace=namespace
        )
    except errors.NotFound as problem:
        if not problem.details.get("name"):
            raise  # the CustomResourceDefinition is missing
        shown = cli_errors.describe_object(VIRTUAL_CLUSTER_SNAPSHOTS, name, namespace)
        raise NotFoundError(
            f"{shown} was not found. List all with `kubectl vc snapshot list`."
        ) from problem


async def wait_for_snapshot(
    connection: SuperConnection,
    name: str,
    until: Callable[[Mapping[str, Any]], bool],
    *,
    seconds: float,
) -> Object:
    """Return a snapshot once it is as wanted. Raises CliError after `seconds` (0: no limit)."""
    found: Object = {}
    try:
        async with asyncio.timeout(seconds or None):
            while True:
                found = await fetch_snapshot(connection, name)
                if until(found):
                    return found
                await asyncio.sleep(POLL_SECONDS)
    except TimeoutError as problem:
        shown = cli_errors.describe_object(VIRTUAL_CLUSTER_SNAPSHOTS, name, connection.namespace)
        text = get_completion(found).get("message") or "vc-manager has not processed it yet."
        raise WaitTimeoutError(
            f"{shown} has not ended after {durations.format_elapsed(seconds)}: {text}"
        ) from problem


def is_ended(body: Mapping[str, Any]) -> bool:
    """Return whether a snapshot is complete or has failed."""
    return get_completion(body).get("status") in ("True", "False")


def check_complete(body: Mapping[str, Any]) -> None:
    """Raise CliError unless a snapshot is complete."""
    condition, metadata = get_completion(body), body["metadata"]
    if condition.get("status") == "True":
        return
    shown = cli_errors.describe_object(
        VIRTUAL_CLUSTER_SNAPSHOTS, metadata["name"], metadata.get("namespace", "")
    )
    text = condition.get("message") or "vc-manager has not processed it yet."
    raise CliError(f"{shown} is not complete ({condition.get('reason', 'Pending')}): {text}")


def build_table(items: Sequence[Mapping[str, Any]], *, now: datetime, everywhere: bool) -> str:
    """Return the table of snapshots."""
    heads = ["name", "tenant", "phase", "size", "objects", "version", "age"]
    if everywhere:
        heads = ["namespace", *heads]
    rows = [_build_row(item, now) for item in items]
    return printers.format_table(heads, [[row[head] for head in heads] for row in rows])


def describe_manifest(body: Mapping[str, Any]) -> str:
    """Return the condition and the manifest of a snapshot as lines."""
    manifest = (body.get("status") or {}).get("manifest") or {}
    lines = [f"\n{get_completion(body).get('message') or 'Not processed yet.'}\n"]
    for key, value in manifest.items():
        if isinstance(value, Mapping):
            lines.append(f"{key}:\n")
            lines += [f"  {inner}: {each}\n" for inner, each in value.items()]
        else:
            lines.append(f"{key}: {value}\n")
    return "".join(lines)


def _build_row(item: Mapping[str, Any], now: datetime) -> dict[str, str]:
    metadata, status = item["metadata"], item.get("status") or {}
    manifest = status.get("manifest") or {}
    deleting = "deletionTimestamp" in metadata
    return {
        "namespace": str(metadata.get("namespace", "")),
        "name": metadata["name"],
        "tenant": str((item.get("spec") or {}).get("virtualClusterName", "")),
        "phase": "Terminating" if deleting else str(status.get("phase") or "Pending"),
        "size": str(manifest.get("sizeBytes", "")),
        "objects": str(manifest.get("objects", "")),
        "version": str(manifest.get("kubernetesVersion", "")),
        "age": durations.format_age(str(metadata.get("creationTimestamp") or ""), now),
    }


def _add_kind(item: Object) -> Object:
    resource = VIRTUAL_CLUSTER_SNAPSHOTS
    return {"apiVersion": resource.api_version, "kind": resource.kind, **item}


def get_completion(body: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the condition Complete of a snapshot, or an empty mapping."""
    listed = (body.get("status") or {}).get("conditions")
    return conditions.find_condition(listed, COMPLETE) or {}
