"""`kubectl vc snapshot`: the verbs about snapshots of virtual clusters.

Owns their flags. Must not know how a verb works. Hazard: as in `kubectl_vc.app`, imports at the top
must stay few. Each further one delays `--help`.
"""

# ruff: noqa: PLC0415 - each verb is imported when it is called, see above

from pathlib import Path

from kubectl_vc import flags, snapshot_flags
from kubectl_vc.client.config_flags import ConfigFlags
from kubectl_vc.command import create_terminal, create_verb_group, with_connection_flags
from kubectl_vc.output.printers import OutputFormat

app = create_verb_group("Save and restore the etcd of a virtual cluster.")


@app.command()
@with_connection_flags
async def create(
    *,
    access: ConfigFlags,
    name: flags.NameArgument,
    snapshot: snapshot_flags.SnapshotNameFlag = "",
    claim: snapshot_flags.ClaimFlag = "snapshots",
    keep_for: snapshot_flags.KeepForFlag = "",
    wait: flags.WaitFlag = True,
    timeout: flags.TimeoutFlag = flags.WAIT_TIMEOUT_SECONDS,
) -> None:
    """Save the etcd of a virtual cluster.

    The files are in a volume in its root namespace. They are deleted with the virtual cluster.

    Examples:

      kubectl vc snapshot create web --snapshot before-upgrade
    """
    from kubectl_vc.snapshot import snapshots as verbs

    options = verbs.SaveOptions(
        snapshot=snapshot, claim=claim, keep_for=keep_for, wait=wait, timeout_seconds=timeout
    )
    await verbs.run_create(access, create_terminal(), name=name, options=options)


@app.command("list")
@with_connection_flags
async def list_all(
    *,
    access: ConfigFlags,
    name: snapshot_flags.OptionalTenantArgument = "",
    everywhere: flags.AllNamespaces = False,
    output: flags.OutputFlag = OutputFormat.TABLE,
) -> None:
    """List snapshots, of all virtual clusters in the namespace or of one."""
    from kubectl_vc.snapshot import snapshots as verbs

    await verbs.run_list(access, create_terminal(), name=name, everywhere=everywhere, form=output)


@app.command()
@with_connection_flags
async def get(
    *,
    access: ConfigFlags,
    snapshot: snapshot_flags.SnapshotArgument,
    output: flags.OutputFlag = OutputFormat.TABLE,
) -> None:
    """Show a snapshot with its manifest of checksums."""
    from kubectl_vc.snapshot import snapshots as verbs

    await verbs.run_get(access, create_terminal(), snapshot=snapshot, form=output)


@app.command()
@with_connection_flags
async def delete(*, access: ConfigFlags, snapshot: snapshot_flags.SnapshotArgument) -> None:
    """Delete a snapshot with its files."""
    from kubectl_vc.snapshot import snapshots as verbs

    await verbs.run_delete(access, create_terminal(), snapshot=snapshot)


@app.command()
@with_connection_flags
async def export(
    *,
    access: ConfigFlags,
    snapshot: snapshot_flags.SnapshotArgument,
    output: snapshot_flags.SnapshotFileFlag,
    force: snapshot_flags.ForceFileFlag = False,
    image: snapshot_flags.TransferImageFlag = "",
) -> None:
    """Write a snapshot to a local file, and its manifest beside it.

    A pod in the root namespace mounts the volume, and its file is read with your rights: create for
    jobs and pods/exec in the root namespace. The SHA-256 is checked.

    Examples:

      kubectl vc snapshot export before-upgrade -o web.db
    """
    from kubectl_vc.snapshot import transfer as verbs

    await verbs.run_export(
        access,
        create_terminal(),
        snapshot=snapshot,
        output=Path(output),
        force=force,
        image=image,
    )


@app.command("import")
@with_connection_flags
async def import_file(
    *,
    access: ConfigFlags,
    file: snapshot_flags.ImportedFileArgument,
    name: snapshot_flags.ForClusterFlag,
    snapshot: snapshot_flags.ImportedNameFlag,
    claim: snapshot_flags.ClaimFlag = "snapshots",
    image: snapshot_flags.TransferImageFlag = "",
    timeout: flags.TimeoutFlag = flags.WAIT_TIMEOUT_SECONDS,
) -> None:
    """Create a snapshot from a file that was exported.

    The manifest FILE.json must be beside the file. The file is uploaded with your rights, as for
    export.

    Examples:

      kubectl vc snapshot import web.db --for web --snapshot from-file
    """
    from kubectl_vc.snapshot import transfer as verbs

    options = verbs.ImportOptions(
        file=Path(file), snapshot=snapshot, claim=claim, image=image, timeout_seconds=timeout
    )
    await verbs.run_import(access, create_terminal(), name=name, options=options)
