"""`kubectl vc restore --as-new`: a new VirtualCluster with the data of a snapshot, and its start.

The new tenant is created with `spec.suspend`, so that the syncer syncs nothing of it. vc-manager
changes the data (docs/adr/0040). Hazard: the tenant must stay suspended until `confirm-start`.
Otherwise its workloads would start while the old tenant's run.
"""

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kubectl_vc.client import access_review, lookup
from kubectl_vc.client.config_flags import ConfigFlags
from kubectl_vc.client.connection import SuperConnection, connect_super_cluster
from kubectl_vc.client.waiting import wait_ready
from kubectl_vc.output import cli_errors, printers
from kubectl_vc.output.cli_errors import CliError
from kubectl_vc.output.terminal import Terminal
from kubectl_vc.snapshot import restore, transfer
from kubectl_vc.snapshot import snapshots as verbs
from kubectl_vc.snapshot.restore import RestoreOptions
from kubectl_vc.snapshot.transfer import ImportOptions
from kubeio import Object, errors
from tenancy import deletion, wellknown
from tenancy.resources import VIRTUAL_CLUSTERS

_MANAGER = "kubectl-vc"
_ROLE = "virtual-cluster-admin"
"""ClusterRole of the chart with the verb `suspend`."""
_OWN_FIELDS = frozenset(
    {
        *("serviceCidr", "endpoint", "snapshotSchedule", "suspend", "addons"),
        *("kubeconfigReaders", "kubeconfigSecrets"),
        *("sleep", "pausedUntil", "expiresAt"),
    }
)
"""Fields of the old tenant's spec that are not copied. Its addresses and its readers are its own. A
tenant that sleeps, is paused or has expired would never become ready. Manifests of addons would
overwrite what the snapshot has of their objects."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ForkOptions:
    """Options of the command line. Either a snapshot or a file is set."""

    new_name: str
    snapshot: str = ""
    file: Path | None = None
    image: str = ""
    timeout_seconds: float = 0


async def run_fork(access: ConfigFlags, terminal: Terminal, *, options: ForkOptions) -> None:
    """Create a suspended VirtualCluster from a snapshot or from an exported file."""
    if bool(options.snapshot) == (options.file is not None):
        raise cli_errors.UsageError("--as-new needs either --from or --from-file.")
    async with connect_super_cluster(access) as connection:
        await check_right(connection, options.new_name)
        with tempfile.TemporaryDirectory(prefix="kubectl-vc-") as folder:
            if options.file is not None:
                file, spec = options.file, {}
            else:
                file = Path(folder) / "snapshot.db"
                spec = await _export(connection, terminal, file, options)
            manifest = transfer.read_manifest(file)
            check_manifest(manifest)
            body = build_cluster(options.new_name, spec, manifest)
            cluster = await _create(connection, terminal, body, options)
            await _restore(connection, terminal, cluster, file, options)
    shown = printers.format_full_name(VIRTUAL_CLUSTERS, options.new_name)
    terminal.print_result(
        f"{shown} has the data of the snapshot, and nothing of it runs. Start it with `kubectl vc"
        f" confirm-start {options.new_name}`."
    )


async def run_confirm_start(access: ConfigFlags, terminal: Terminal, *, name: str) -> None:
    """Let the syncer sync a suspended VirtualCluster."""
    async with connect_super_cluster(access) as connection:
        body = await lookup.fetch_virtual_cluster(connection, name)
        await check_right(connection, name)
        check_startable(cli_errors.describe_object(VIRTUAL_CLUSTERS, name, ""), body)
        metadata = body["metadata"]
        await connection.super_client.patch(
            VIRTUAL_CLUSTERS,
            name,
            {
                "metadata": {
                    "uid": metadata["uid"],
                    "resourceVersion": metadata["resourceVersion"],
                },
                "spec": {"suspend": False},
            },
            namespace=connection.namespace,
            field_manager=_MANAGER,
        )
    terminal.print_result(f"{printers.format_full_name(VIRTUAL_CLUSTERS, name)} starts")


async def check_right(connection: SuperConnection, name: str) -> None:
    """Raise CliError if the user may not change `spec.suspend`, before the long steps begin."""
    attributes = {
        "verb": "suspend",
        "group": VIRTUAL_CLUSTERS.group,
        "resource": VIRTUAL_CLUSTERS.plural,
        "namespace": connection.namespace,
        "name": name,
    }
    if not await access_review.is_allowed(connection.super_client, attributes):
        shown = cli_errors.describe_object(VIRTUAL_CLUSTERS, name, connection.namespace)
        raise CliError(
            f"you may not suspend or start {shown}. It needs the verb suspend on virtualclusters."
            " Ask a platform administrator to run: kubectl create rolebinding NAME"
            f" --clusterrole {_ROLE} --user YOU --namespace {connection.namespace}"
        )


def check_manifest(manifest: Mapping[str, Any]) -> None:
    """Raise CliError if a snapshot cannot be the start of another tenant."""
    if (manifest.get("secrets") or {}).get(wellknown.ENCRYPTION_SECRET):
        raise CliError(
            "The snapshot has encrypted Secrets, and their keys are of the old VirtualCluster. It"
            " can only be restored in place."
        )


def check_startable(shown: str, body: Mapping[str, Any]) -> None:
    """Raise CliError unless a tenant is suspended and no restore of it runs or has failed."""
    if not (body.get("spec") or {}).get("suspend"):
        raise CliError(f"{shown} is not suspended, so there is nothing to start.")
    if wellknown.RESTORE_SNAPSHOT in (body["metadata"].get("annotations") or {}):
        raise CliError(f"{shown} is being restored. Wait until the restore has ended.")
    state = (body.get("status") or {}).get("restore") or {}
    if state and state.get("phase") != "Complete":
        raise CliError(
            f"{shown} was not restored ({state.get('reason')}): {state.get('message')} Delete it,"
            " or set spec.suspend to false if it has to start with its present data."
        )


def build_cluster(name: str, spec: Mapping[str, Any], manifest: Mapping[str, Any]) -> Object:
    """Return the new VirtualCluster. `spec` is that of the old one, or empty."""
    copied = {key: value for key, value in spec.items() if key not in _OWN_FIELDS}
    # The old tenant may have been upgraded since, and a restore needs the minor of the snapshot.
    version = manifest.get("clusterVersionName") or copied.get("clusterVersionName")
    if not version:
        raise CliError("The manifest names no ClusterVersion, so the file is too old for --as-new.")
    return {
        "apiVersion": VIRTUAL_CLUSTERS.api_version,
        "kind": VIRTUAL_CLUSTERS.kind,
        "metadata": {
            "name": name,
            "labels": {wellknown.DELETION_PROTECTION: deletion.PROTECTION_ENABLED},
        },
        "spec": {**copied, "clusterVersionName": version, "suspend": True},
    }


async def _export(
    connection: SuperConnection, terminal: Terminal, file: Path, options: ForkOptions
) -> dict[str, Any]:
    """Write the snapshot to a file. Return the spec of its tenant."""
    found = await verbs.fetch_snapshot(connection, options.snapshot)
    verbs.check_complete(found)
    check_manifest(found["status"]["manifest"])
    with terminal.create_progress() as progress:
        progress.set_waiting(f"The snapshot {options.snapshot} is being read")
        await transfer.export_snapshot(connection, found, file, force=True, image=options.image)
    cluster = await lookup.fetch_virtual_cluster(connection, found["spec"]["virtualClusterName"])
    return dict(cluster.get("spec") or {})


async def _create(
    connection: SuperConnection, terminal: Terminal, body: Object, options: ForkOptions
) -> Object:
    """Create the new VirtualCluster, and return it when it is ready."""
    client, namespace = connection.super_client, connection.namespace
    try:
        made = await client.create(
            VIRTUAL_CLUSTERS, body, namespace=namespace, field_manager=_MANAGER
        )
    except errors.AlreadyExists as problem:
        shown = cli_errors.describe_object(VIRTUAL_CLUSTERS, options.new_name, namespace)
        raise CliError(f"{shown} exists already. Choose another name for --as-new.") from problem
    with terminal.create_progress() as progress:
        return await wait_ready(client, made, seconds=options.timeout_seconds, progress=progress)


async def _restore(
    connection: SuperConnection,
    terminal: Terminal,
    cluster: Object,
    file: Path,
    options: ForkOptions,
) -> None:
    """Import the file as a snapshot of the new VirtualCluster, and restore it there."""
    seconds = options.timeout_seconds
    source = ImportOptions(
        file=file,
        snapshot=f"{options.new_name}-start",
        image=options.image,
        timeout_seconds=seconds,
    )
    await transfer.import_snapshot(connection, cluster, transfer.read_manifest(file), source)
    current = await lookup.fetch_virtual_cluster(connection, options.new_name)
    wanted = RestoreOptions(snapshot=source.snapshot, timeout_seconds=seconds)
    await restore.request_and_wait(connection, terminal, current, wanted)
