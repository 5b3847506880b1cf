"""`kubectl vc`: the table of verbs and their flags.

Owns the declarations of the flags. Verbs of a group, and verbs of one topic, are in a module of
their own. Must not know how a verb works. Hazard: imports at the top must stay few, and a verb
imports the client when it is called. Each further import at the top delays `--help` and every
completed word.
"""

# ruff: noqa: PLC0415 - each verb is imported when it is called, see above

import sys
from collections.abc import Sequence
from typing import NoReturn

from kubectl_vc import (
    certs_app,
    connect_app,
    diagnosis_app,
    flags,
    inspection_app,
    snapshot_app,
    snapshot_flags,
    target_app,
)
from kubectl_vc.client.config_flags import ConfigFlags
from kubectl_vc.command import (
    create_terminal,
    create_verb_group,
    list_connection_flags,
    print_text,
    run_program,
    with_connection_flags,
    without_namespace,
)
from kubectl_vc.output.cli_errors import CliError, NotFoundError, UsageError
from kubectl_vc.output.printers import ReportFormat

AUDIT_IMAGE = "docker.io/library/busybox:latest"
"""Default image of the pods of an audit."""

app = create_verb_group("Manage Kubernetes clusters of many tenants on one super cluster.")
app.add_group(target_app.app, name="target")
app.add_group(certs_app.app, name="certs")
app.add_group(snapshot_app.app, name="snapshot")
app.add_verbs(connect_app.app)
app.add_verbs(inspection_app.app)
app.add_verbs(diagnosis_app.app)


def main() -> None:
    """Run the command line."""
    run(sys.argv[1:])


def run(words: Sequence[str]) -> NoReturn:
    """Run the command that the words select. Raises SystemExit with the exit code."""
    run_program(app, words, format_version=_format_version)


def _format_version() -> str:
    from kubectl_vc.verbs import version

    return version.format_version()


@app.command()
def options() -> None:
    """List the flags of the connection, which all commands have."""
    from kubectl_vc.commandline import help_text

    print_text(help_text.format_flags(list_connection_flags()))


@app.command()
def completion(*, shell: flags.ShellArgument) -> None:
    """Print the script that completes the words of this command in bash, zsh or fish.

    Names of virtual clusters, namespaces, contexts and ClusterVersions are completed, too.

    Examples:

      source <(kubectl vc completion bash)

      kubectl vc completion fish | source
    """
    from kubectl_vc.commandline import shells

    if shell not in shells.SCRIPTS:
        known = ", ".join(shells.SCRIPTS)
        raise UsageError(f'unsupported shell type "{shell}". Use one of {known}.')
    print_text(shells.SCRIPTS[shell])


@app.command()
@with_connection_flags
async def create(
    *,
    access: ConfigFlags,
    name: flags.NameArgument = "",
    filenames: flags.VirtualClusterFileFlag = None,
    cluster_version: flags.ClusterVersionFlag = "",
    output: flags.KubeconfigPathFlag = None,
    force: flags.ForceFlag = False,
    wait: flags.WaitFlag = True,
    timeout: flags.TimeoutFlag = flags.WAIT_TIMEOUT_SECONDS,
    dry_run: flags.DryRunFlag = flags.DryRun.NONE,
) -> None:
    """Create a virtual cluster and write its kubeconfig.

    With -f, -o is required unless --no-wait or --dry-run is given.

    Without a ClusterVersion, the default one is used: the one with the annotation
    tenancy.x-k8s.io/is-default-cluster-version=true, otherwise the newest with a name such as
    v1.36.

    Examples:

      kubectl vc create -f vc.yaml -o vc.kubeconfig

      kubectl vc create web --cluster-version v1.36 -o web.kubeconfig
    """
    filename, *others = filenames or [""]
    if others:
        raise UsageError("create takes one -f. Run it once for each VirtualCluster.")
    if bool(filename) == bool(name):
        raise UsageError("give either NAME or -f FILE. With NAME, --cluster-version is optional.")
    if filename and cluster_version:
        raise UsageError(
            "-f and --cluster-version cannot be used together. With -f, the manifest names the"
            " ClusterVersion."
        )
    if output is not None and not wait:
        raise UsageError(
            "-o cannot be used with --no-wait: there is no kubeconfig before the tenant is ready."
            " Fetch it later with `kubectl vc kubeconfig`."
        )
    from kubectl_vc.verbs import create as verb
    from kubectl_vc.verbs import create_manifests

    if filename:
        manifest = create_manifests.parse_manifest(create_manifests.load_source(filename), filename)
        if output is None and wait and not dry_run:
            raise UsageError(
                "-o is missing. Add -o FILE for the kubeconfig, or --no-wait to go on without one."
            )
    else:
        manifest = create_manifests.build_virtual_cluster(name, cluster_version)
    wishes = verb.CreateOptions(
        kubeconfig=output, force=force, wait=wait, timeout_seconds=timeout, dry_run=dry_run.value
    )
    await verb.run_create(access, create_terminal(), manifest, wishes)


@app.command()
@with_connection_flags
async def kubeconfig(
    *,
    access: ConfigFlags,
    name: flags.OptionalNameArgument = "",
    output: flags.KubeconfigPathFlag = None,
    force: flags.ForceFlag = False,
    role: flags.RoleFlag = None,
    ttl: flags.TtlFlag = flags.DEFAULT_TTL_SECONDS,
    renew: flags.RenewFlag = None,
    revoke: flags.RevokeFlag = None,
) -> None:
    """Print or write a kubeconfig of a virtual cluster.

    By default it is the administrator's. With --role it has one role and a short life.

    With NAME, the kubeconfig of the super cluster is used. --renew, --role and --revoke also work
    without NAME, with the virtual cluster's own kubeconfig.

    Examples:

      kubectl vc kubeconfig web -o web.kubeconfig

      kubectl vc kubeconfig --renew web.kubeconfig

      kubectl vc kubeconfig --kubeconfig web.kubeconfig --role view --ttl 8h -o guest.kubeconfig
    """
    if revoke == "":
        raise UsageError("--revoke is empty. Add the USER of the kubeconfig.")
    if ttl != flags.DEFAULT_TTL_SECONDS and role is None:
        raise UsageError("--ttl needs --role. Add --role with one of view, edit, admin.")
    if sum((renew is not None, bool(revoke), role is not None)) > 1:
        raise UsageError(
            "--renew, --role and --revoke cannot be used together. Leave two of them out."
        )
    if renew is not None or revoke or role is not None:
        from kubectl_vc.verbs import scoped_kubeconfig

        terminal = create_terminal()
        if renew is not None:
            await scoped_kubeconfig.run_renew(access, terminal, renew)
        elif revoke:
            await scoped_kubeconfig.run_revoke(access, terminal, name=name, user=revoke)
        elif role is not None:
            options = scoped_kubeconfig.ScopedOptions(role.value, int(ttl), output, force)
            await scoped_kubeconfig.run_scoped(access, terminal, name=name, options=options)
        return
    if not name:
        raise UsageError("NAME is missing. Add the name of a VirtualCluster.")
    from kubectl_vc.verbs import kubeconfig as verb

    await verb.run_kubeconfig(access, create_terminal(), name=name, output=output, force=force)


@app.command()
@with_connection_flags
async def delete(
    *,
    access: ConfigFlags,
    name: flags.NameArgument,
    ignore_not_found: flags.IgnoreNotFoundFlag = False,
    yes: flags.YesFlag = False,
    now: flags.NowFlag = False,
    wait: flags.WaitFlag = True,
    timeout: flags.TimeoutFlag = flags.WAIT_TIMEOUT_SECONDS,
    dry_run: flags.DryRunFlag = flags.DryRun.NONE,
) -> None:
    """Delete a virtual cluster and all its pods and volumes.

    On a terminal it asks for the name first. Deletion works even if the tenant's own API does not.
    With a grace period (spec.deletionGracePeriod) the tenant is stopped and kept until then.
    """
    from kubectl_vc.verbs import delete as verb

    await verb.run_delete(
        access,
        create_terminal(),
        name=name,
        wait=wait,
        seconds=timeout,
        ignore_not_found=ignore_not_found,
        asks=not yes,
        now=now,
        dry_run=dry_run.value,
    )


@app.command()
@with_connection_flags
async def undelete(*, access: ConfigFlags, name: flags.NameArgument) -> None:
    """Take back a scheduled deletion of a virtual cluster."""
    from kubectl_vc.verbs import undelete as verb

    await verb.run_undelete(access, create_terminal(), name=name)


@app.command()
@with_connection_flags
async def sleep(
    *,
    access: ConfigFlags,
    name: flags.NameArgument,
    workloads: flags.SleepingWorkloadsFlag = flags.SleepingWorkloadsChoice.KEEP,
    dry_run: flags.DryRunFlag = flags.DryRun.NONE,
    wait: flags.WaitFlag = True,
    timeout: flags.TimeoutFlag = flags.WAIT_TIMEOUT_SECONDS,
) -> None:
    """Stop a virtual cluster and keep its data.

    Its pods run on. With --workloads scale-to-zero they are stopped, and their controllers create
    others when the virtual cluster wakes. A pod without a controller has failed then.

    Examples:

      kubectl vc sleep web

      kubectl vc sleep web --workloads scale-to-zero
    """
    from kubectl_vc.verbs import sleep as verb

    options = verb.SleepOptions(dry_run=bool(dry_run), wait=wait, timeout_seconds=timeout)
    choice = workloads.get_spec_value()
    await verb.run_sleep(access, create_terminal(), name=name, workloads=choice, options=options)


@app.command()
@with_connection_flags
async def wake(
    *,
    access: ConfigFlags,
    name: flags.NameArgument,
    dry_run: flags.DryRunFlag = flags.DryRun.NONE,
    wait: flags.WaitFlag = True,
    timeout: flags.TimeoutFlag = flags.WAIT_TIMEOUT_SECONDS,
) -> None:
    """Start a virtual cluster that is asleep."""
    from kubectl_vc.verbs import sleep as verb

    options = verb.SleepOptions(dry_run=bool(dry_run), wait=wait, timeout_seconds=timeout)
    await verb.run_wake(access, create_terminal(), name=name, options=options)


@app.command("confirm-deletes")
@with_connection_flags
async def confirm_deletes(
    *,
    access: ConfigFlags,
    name: flags.NameArgument,
    dry_run: flags.DryRunFlag = flags.DryRun.NONE,
    yes: flags.YesFlag = False,
) -> None:
    """Accept a tenant's replaced etcd as the right one.

    If a tenant's etcd is lost or restored to an older state, deletes are not synced (condition
    DeletesHeld). This command accepts the new etcd data. Everything that it does not contain is
    then deleted from the super cluster, volumes included. On a terminal it asks for the name first.
    """
    from kubectl_vc.verbs import confirm_deletes as verb

    await verb.run_confirm_deletes(
        access, create_terminal(), name=name, asks=not yes, dry_run=dry_run
    )


@app.command()
@with_connection_flags
async def restore(
    *,
    access: ConfigFlags,
    name: snapshot_flags.RestoredNameArgument = "",
    source: snapshot_flags.FromFlag = "",
    file: snapshot_flags.FromFileFlag = "",
    new_name: snapshot_flags.AsFlag = "",
    image: snapshot_flags.TransferImageFlag = "",
    dry_run: flags.DryRunFlag = flags.DryRun.NONE,
    yes: flags.YesFlag = False,
    wait: flags.WaitFlag = True,
    timeout: flags.TimeoutFlag = flags.WAIT_TIMEOUT_SECONDS,
) -> None:
    """Restore a snapshot in place, or into a new virtual cluster.

    The snapshot is checked first. Then the control plane stops, its etcd is replaced, and it starts
    again. Running pods stay. Nothing is deleted in the super cluster until `kubectl vc
    confirm-deletes`. On a terminal it asks for the name first.

    Examples:

      kubectl vc restore web --from before-upgrade --dry-run

      kubectl vc restore web --from before-upgrade

      kubectl vc restore --as-new copy --from before-upgrade
    """
    from pathlib import Path

    from kubectl_vc.snapshot import fork
    from kubectl_vc.snapshot import restore as verb

    if new_name:
        if name or dry_run:
            raise UsageError("--as-new starts a new virtual cluster. Remove NAME and --dry-run.")
        forked = fork.ForkOptions(
            new_name=new_name,
            snapshot=source,
            file=Path(file) if file else None,
            image=image,
            timeout_seconds=timeout,
        )
        await fork.run_fork(access, create_terminal(), options=forked)
        return
    if not name:
        raise UsageError("NAME is missing. Add the name of a VirtualCluster.")
    if file:
        raise UsageError("--from-file needs --as-new. Add --as-new NEW, or use --from NAME.")
    if not source:
        raise UsageError("--from is missing. Add --from NAME.")
    options = verb.RestoreOptions(
        snapshot=source, dry_run=bool(dry_run), asks=not yes, wait=wait, timeout_seconds=timeout
    )
    await verb.run_restore(access, create_terminal(), name=name, options=options)


@app.command("confirm-start")
@with_connection_flags
async def confirm_start(*, access: ConfigFlags, name: flags.NameArgument) -> None:
    """Start a virtual cluster that was created from a snapshot.

    It is suspended until then. This command sets spec.suspend to false.

    Examples:

      kubectl vc confirm-start copy
    """
    from kubectl_vc.snapshot import fork

    await fork.run_confirm_start(access, create_terminal(), name=name)


@app.command()
@with_connection_flags
async def upgrade(
    *,
    access: ConfigFlags,
    name: flags.NameArgument,
    cluster_version: flags.NewClusterVersionFlag,
    dry_run: flags.DryRunFlag = flags.DryRun.NONE,
    wait: flags.WaitFlag = True,
    timeout: flags.TimeoutFlag = flags.WAIT_TIMEOUT_SECONDS,
) -> None:
    """Change the ClusterVersion of a virtual cluster.

    Prints which components restart, which flags change, and which API versions that the new
    version no longer has were requested in the tenant. Refuses a downgrade and a skipped minor.

    The exit code is 0 if the upgrade is done, 1 if it was refused and nothing was written, 3 if
    NAME was not found, and 5 if it was written and did not finish.

    Examples:

      kubectl vc upgrade web --cluster-version v1.36 --dry-run

      kubectl vc upgrade web --cluster-version v1.36 --timeout 15m
    """
    from kubectl_vc.upgrade import verb

    options = verb.UpgradeOptions(
        cluster_version=cluster_version, dry_run=bool(dry_run), wait=wait, timeout_seconds=timeout
    )
    await verb.run_upgrade(access, create_terminal(), name=name, options=options)


@app.command()
@with_connection_flags
async def audit(
    *,
    access: ConfigFlags,
    name: flags.NameArgument,
    decoy: flags.DecoyFlag = "",
    image: flags.ImageFlag = AUDIT_IMAGE,
    manager_namespace: flags.ManagerNamespaceFlag = flags.MANAGER_NAMESPACE,
    output: flags.ReportOutputFlag = ReportFormat.TABLE,
    timeout: flags.TimeoutFlag = flags.WAIT_TIMEOUT_SECONDS,
) -> None:
    """Prove by packets and objects that a tenant is isolated.

    Creates pods in the tenant, in a second tenant (the decoy) and on nodes, attempts forbidden
    connections and objects, and removes everything. Each closed connection has a positive control.
    Sets the condition IsolationProved of the VirtualCluster.

    The exit code is 0 if the isolation is proved, 3 if there is a hole, 4 if a probe has no
    verdict, 130 after an interruption, and 1 after any other failure.

    Examples:

      kubectl vc audit web --decoy shop

      kubectl vc audit web -o json > web-isolation.json
    """
    from kubectl_vc.audit import verb

    wishes = verb.AuditOptions(
        decoy=decoy,
        image=image,
        manager_namespace=manager_namespace,
        timeout_seconds=timeout,
        form=output,
    )
    try:
        await verb.run_audit(access, create_terminal(), name=name, options=wishes)
    except NotFoundError as problem:  # its code would report a hole
        raise CliError(str(problem)) from problem


@app.command()
@with_connection_flags
async def ui(
    *,
    access: ConfigFlags,
    port: flags.PagesPortFlag = 0,
    no_browser: flags.NoBrowserFlag = False,
    manager_namespace: flags.ManagerNamespaceFlag = flags.MANAGER_NAMESPACE,
) -> None:
    """Show tenants as web pages on this machine.

    The pages are served on 127.0.0.1 with your own kubeconfig and rights, and change nothing. The
    printed URL has a secret: do not share it. Ctrl-C ends the command.

    Examples:

      kubectl vc ui

      kubectl vc ui --port 8090 --no-browser
    """
    from kubectl_vc.ui import verb

    options = verb.UiOptions(port=port, browser=not no_browser, manager_namespace=manager_namespace)
    await verb.run_ui(access, create_terminal(), options=options)


@app.command()
@without_namespace
async def version(*, access: ConfigFlags, client: flags.ClientOnlyFlag = False) -> None:
    """Print the versions of this program and the super cluster."""
    from kubectl_vc.verbs import version as verb

    await verb.run_version(access, create_terminal(), client_only=client)
