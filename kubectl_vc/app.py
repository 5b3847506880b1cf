"""`kubectl vc`: the table of verbs and their flags.

Owns the declarations that Typer needs. The verbs about target clusters are in `target_app`. Must
not know how a verb works. Hazard: imports at the top must stay few, and a verb imports the client
when it is called. Each further import at the top delays `--help` and every completed word.
"""

# ruff: noqa: PLC0415 - each verb is imported when it is called, see above

from typing import Annotated

import typer

from kubectl_vc import flags, target_app
from kubectl_vc.client.config_flags import Access
from kubectl_vc.command import on_super_cluster, terminal, without_namespace
from kubectl_vc.output.cli_errors import UsageProblem
from kubectl_vc.output.printers import Format

PROGRAM = "kubectl vc"

app = typer.Typer(
    name=PROGRAM,
    no_args_is_help=True,
    add_completion=False,  # kubectl completes plugins through kubectl_complete-vc
    rich_markup_mode=None,  # plain help as kubectl's, without loading rich
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.add_typer(target_app.app, name="target")


def main() -> None:
    """Run the command line."""
    app(prog_name=PROGRAM)


def _print_version(wanted: bool) -> None:
    if wanted:
        from kubectl_vc.verbs import version

        typer.echo(version.line())
        raise typer.Exit


@app.callback()
def _root(
    *,
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version and exit."
        ),
    ] = False,
) -> None:
    """Whole Kubernetes clusters for many tenants on one super cluster."""


@app.command()
@on_super_cluster
async def create(
    *,
    access: Access,
    name: flags.Name = "",
    filename: flags.Filename = "",
    cluster_version: flags.ClusterVersion = "",
    output: flags.KubeconfigPath = None,
    force: flags.Force = False,
    wait: flags.Wait = True,
    timeout: flags.Timeout = flags.FIVE_MINUTES,
) -> None:
    """Create a virtual cluster and write its kubeconfig.

    Examples:

      kubectl vc create -f vc.yaml -o vc.kubeconfig

      kubectl vc create web --cluster-version v1.36 -o web.kubeconfig
    """
    if bool(filename) == bool(name):
        raise UsageProblem("give either NAME with --cluster-version, or -f FILE")
    if bool(name) != bool(cluster_version):
        raise UsageProblem(
            "NAME and --cluster-version belong together; a manifest names its version itself"
        )
    if output is not None and not wait:
        raise UsageProblem(
            "-o needs the wait, because there is no kubeconfig before the tenant is ready; fetch it"
            " later with `kubectl vc kubeconfig`"
        )
    if filename and output is None and wait:
        raise UsageProblem(
            "-o is missing; give the file for the kubeconfig, or --no-wait to do without one"
        )
    from kubectl_vc.verbs import create as verb
    from kubectl_vc.verbs import create_manifests

    if filename:
        manifest = create_manifests.parse(create_manifests.load(filename), filename)
    else:
        manifest = create_manifests.virtual_cluster(name, cluster_version)
    wishes = verb.Wishes(kubeconfig=output, force=force, wait=wait, seconds=timeout)
    await verb.run(access, terminal(), manifest, wishes)


@app.command("list")
@on_super_cluster
async def list_all(
    *, access: Access, everywhere: flags.Everywhere = False, output: flags.Output = Format.TABLE
) -> None:
    """List virtual clusters."""
    from kubectl_vc.verbs import listing

    await listing.run(access, terminal(), everywhere=everywhere, form=output)


@app.command()
@on_super_cluster
async def get(
    *,
    access: Access,
    name: flags.Name = "",
    everywhere: flags.Everywhere = False,
    output: flags.Output = Format.TABLE,
) -> None:
    """Show virtual clusters, one in detail.

    With NAME also its conditions, and its namespaces, pods and nodes in the super cluster.
    """
    if name and everywhere:
        raise UsageProblem("a NAME is in one namespace; give -n instead of -A")
    from kubectl_vc.verbs import get as verb
    from kubectl_vc.verbs import listing

    if name:
        await verb.run(access, terminal(), name=name, form=output)
    else:
        await listing.run(access, terminal(), everywhere=everywhere, form=output)


@app.command()
@on_super_cluster
async def kubeconfig(
    *,
    access: Access,
    name: flags.Name,
    output: flags.KubeconfigPath = None,
    force: flags.Force = False,
) -> None:
    """Print or write the administrator's kubeconfig."""
    from kubectl_vc.verbs import kubeconfig as verb

    await verb.run(access, terminal(), name=name, output=output, force=force)


@app.command()
@on_super_cluster
async def delete(
    *,
    access: Access,
    name: flags.Name,
    ignore_not_found: flags.IgnoreNotFound = False,
    wait: flags.Wait = True,
    timeout: flags.Timeout = flags.FIVE_MINUTES,
) -> None:
    """Delete a virtual cluster with all that runs in it.

    Its volumes go too. Deletion does not need the tenant's own API to work.
    """
    from kubectl_vc.verbs import delete as verb

    await verb.run(
        access,
        terminal(),
        name=name,
        wait=wait,
        seconds=timeout,
        ignore_not_found=ignore_not_found,
    )


@app.command("confirm-deletes")
@on_super_cluster
async def confirm_deletes(*, access: Access, name: flags.Name) -> None:
    """Accept a tenant's replaced etcd as the right one.

    When the etcd of a tenant is lost or goes back in time, the condition DeletesHeld says so, and
    nothing is deleted in the super cluster. This says that the new store is the right one, and that
    what it does not have may go.
    """
    from kubectl_vc.verbs import confirm_deletes as verb

    await verb.run(access, terminal(), name=name)


@app.command()
@without_namespace
async def version(*, access: Access, client: flags.ClientOnly = False) -> None:
    """Print the versions of program and super cluster."""
    from kubectl_vc.verbs import version as verb

    await verb.run(access, terminal(), client_only=client)
