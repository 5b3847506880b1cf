"""`kubectl vc snapshot export|import`: a snapshot as a local file, and back.

The file is etcd's own, and `FILE.json` beside it is the manifest. Hazard: a file appears only after
its SHA-256 was found right. A cut connection continues at the received byte.
"""

import asyncio
import contextlib
import hashlib
import json
import os
import tempfile
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from kubectl_vc.client import lookup
from kubectl_vc.client.config_flags import ConfigFlags
from kubectl_vc.client.connection import SuperConnection, connect_super_cluster
from kubectl_vc.client.pod_exec import ExecInterruptedError
from kubectl_vc.output import files, printers
from kubectl_vc.output.cli_errors import CliError
from kubectl_vc.output.terminal import Terminal
from kubectl_vc.snapshot import snapshots as verbs
from kubectl_vc.snapshot.transfer_pod import FOLDER, TransferPod, open_transfer_pod
from kubeio import Object, errors
from tenancy import wellknown
from tenancy.resources import VIRTUAL_CLUSTER_SNAPSHOTS
from tenancy.snapshots.specs import DEFAULT_CLAIM

_ATTEMPTS = 5
"""Number of connections for one file. A cut connection is no reason to give up."""
_RETRY_SECONDS = 1.0
_CHUNK = 256 * 1024
_WAITING = "WaitingForFile"


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportOptions:
    """Options of `kubectl vc snapshot import`."""

    file: Path
    snapshot: str
    claim: str = DEFAULT_CLAIM
    image: str = ""
    timeout_seconds: float = 0


async def run_export(
    access: ConfigFlags, terminal: Terminal, *, snapshot: str, output: Path, force: bool, image: str
) -> None:
    """Write a snapshot and its manifest to local files."""
    for each in (output, get_manifest_path(output)):
        files.check_writable(each, force=force)
    async with connect_super_cluster(access) as connection:
        found = await verbs.fetch_snapshot(connection, snapshot)
        await export_snapshot(connection, found, output, force=force, image=image)
    size = found["status"]["manifest"]["sizeBytes"]
    terminal.print_result(
        f"{printers.format_full_name(VIRTUAL_CLUSTER_SNAPSHOTS, snapshot)} exported to {output},"
        f" {size} bytes"
    )


async def export_snapshot(
    connection: SuperConnection, snapshot: Object, output: Path, *, force: bool, image: str
) -> None:
    """Write a complete snapshot to a file, and its manifest beside it."""
    verbs.check_complete(snapshot)
    manifest = snapshot["status"]["manifest"]
    cluster = await lookup.fetch_virtual_cluster(connection, snapshot["spec"]["virtualClusterName"])
    handle, scratch = tempfile.mkstemp(dir=output.parent, prefix=f".{output.name}.")
    try:
        with os.fdopen(handle, "wb") as file:  # mkstemp created it with mode 0600
            async with open_transfer_pod(
                connection, cluster, snapshot, image=image, is_read_only=True
            ) as pod:
                checksum = await _download(pod, f"{FOLDER}/{snapshot['metadata']['uid']}.db", file)
            file.flush()
            os.fsync(file.fileno())
        if checksum != manifest["sha256"]:
            raise CliError(
                f"The received file has the SHA-256 {checksum}, and the snapshot was recorded with"
                f" {manifest['sha256']}. Nothing was written."
            )
        content = json.dumps(manifest, indent=2, sort_keys=True).encode() + b"\n"
        files.write_private(get_manifest_path(output), content, force=force)
        try:
            files.publish(Path(scratch), output, force=force)
        except CliError:
            get_manifest_path(output).unlink(missing_ok=True)
            raise
    except OSError as problem:
        raise CliError(f"{output} cannot be written: {problem.strerror}.") from problem
    finally:
        files.discard(Path(scratch))


async def run_import(
    access: ConfigFlags, terminal: Terminal, *, name: str, options: ImportOptions
) -> None:
    """Create a snapshot of a VirtualCluster from a local file."""
    manifest = read_manifest(options.file)
    async with connect_super_cluster(access) as connection:
        cluster = await lookup.fetch_virtual_cluster(connection, name)
        await import_snapshot(connection, cluster, manifest, options)
    shown = printers.format_full_name(VIRTUAL_CLUSTER_SNAPSHOTS, options.snapshot)
    terminal.print_result(f"{shown} imported, {manifest['sizeBytes']} bytes")


async def import_snapshot(
    connection: SuperConnection,
    cluster: Object,
    manifest: Mapping[str, Any],
    options: ImportOptions,
) -> None:
    """Create the object, upload the file, and wait until vc-manager has checked it.

    The object is deleted if the file cannot be uploaded.
    """
    client, namespace = connection.super_client, connection.namespace
    body = build_imported(cluster["metadata"]["name"], manifest, options)
    made = await client.create(
        VIRTUAL_CLUSTER_SNAPSHOTS, body, namespace=namespace, field_manager="kubectl-vc"
    )
    try:
        waiting = await verbs.wait_for_snapshot(
            connection, options.snapshot, _is_waiting, seconds=options.timeout_seconds
        )
        if verbs.is_ended(waiting):
            verbs.check_complete(waiting)
        async with open_transfer_pod(
            connection, cluster, made, image=options.image, is_read_only=False
        ) as pod:
            await _upload(pod, made["metadata"]["uid"], manifest, options.file)
        await client.patch(
            VIRTUAL_CLUSTER_SNAPSHOTS,
            options.snapshot,
            {"metadata": {"annotations": {wellknown.UPLOADED_SNAPSHOT: manifest["sha256"]}}},
            namespace=namespace,
            field_manager="kubectl-vc",
        )
        ended = await verbs.wait_for_snapshot(
            connection, options.snapshot, verbs.is_ended, seconds=options.timeout_seconds
        )
        verbs.check_complete(ended)
    except (CliError, asyncio.CancelledError, errors.KubeError):
        with contextlib.suppress(errors.KubeError):
            await client.delete(
                VIRTUAL_CLUSTER_SNAPSHOTS,
                options.snapshot,
                namespace=namespace,
                uid=made["metadata"]["uid"],
            )
        raise


def build_imported(
    cluster_name: str, manifest: Mapping[str, Any], options: ImportOptions
) -> Object:
    """Return the VirtualClusterSnapshot of a file."""
    return {
        "apiVersion": VIRTUAL_CLUSTER_SNAPSHOTS.api_version,
        "kind": VIRTUAL_CLUSTER_SNAPSHOTS.kind,
        "metadata": {"name": options.snapshot},
        "spec": {
            "virtualClusterName": cluster_name,
            "storage": {"persistentVolumeClaim": {"claimName": options.claim}},
            "imported": {"manifest": dict(manifest)},
        },
    }


def read_manifest(file: Path) -> dict[str, Any]:
    """Return the manifest beside a file. Raises CliError if the file is another one."""
    path = get_manifest_path(file)
    try:
        found = json.loads(path.read_bytes())
        checksum, size = compute_sha256(file), file.stat().st_size
    except OSError as problem:
        raise CliError(f"{problem.filename} cannot be read: {problem.strerror}.") from problem
    except ValueError as problem:
        raise CliError(f"{path} is no manifest of a snapshot: it is no JSON.") from problem
    if not isinstance(found, dict) or not isinstance(found.get("sha256"), str):
        raise CliError(f"{path} is no manifest of a snapshot: the field sha256 is missing.")
    if found["sha256"] != checksum:
        raise CliError(
            f"{file} has the SHA-256 {checksum}, and its manifest has {found['sha256']}. Use the"
            " file that was exported."
        )
    return {**found, "sizeBytes": size}


def get_manifest_path(file: Path) -> Path:
    """Return the path of the manifest beside an exported file."""
    return file.with_name(f"{file.name}.json")


def compute_sha256(path: Path) -> str:
    """Return the SHA-256 of a file in hex."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


async def _download(pod: TransferPod, path: str, file: BinaryIO) -> str:
    """Write a remote file to a local one, and continue after a cut. Return its SHA-256."""
    digest = hashlib.sha256()

    def write(content: bytes) -> None:
        file.write(content)
        digest.update(content)

    for number in range(1, _ATTEMPTS + 1):
        try:
            await pod.run("send", path, f"--offset={file.tell()}", write=write)
            break
        except ExecInterruptedError:
            if number == _ATTEMPTS:
                raise
            await asyncio.sleep(_RETRY_SECONDS)
    return digest.hexdigest()


async def _upload(pod: TransferPod, uid: str, manifest: Mapping[str, Any], file: Path) -> None:
    """Upload a file. A cut connection leaves no file, so the upload starts again."""
    words = (
        *("receive", f"{FOLDER}/{uid}.db"),
        *(f"--size={manifest['sizeBytes']}", f"--sha256={manifest['sha256']}"),
    )
    for number in range(1, _ATTEMPTS + 1):
        try:
            await pod.run(*words, write=_drop, stdin=_read_chunks(file))
            break
        except ExecInterruptedError:
            if number == _ATTEMPTS:
                raise
            await asyncio.sleep(_RETRY_SECONDS)


async def _read_chunks(path: Path) -> AsyncIterator[bytes]:
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            yield chunk


def _drop(_: bytes) -> None:
    """Ignore the output of the upload. Its exit code is the result."""


def _is_waiting(body: Mapping[str, Any]) -> bool:
    """Return whether vc-manager waits for the file, or the snapshot has ended."""
    return verbs.get_completion(body).get("reason") == _WAITING or verbs.is_ended(body)
