"""`kubectl vc`: the table of verbs, their flags, and what becomes of their errors.

Owns what the framework must know. Must not know what a verb does. Hazard: whatever is imported at
the top delays `--help` and every completed word; verbs pull in the client and come later.
"""

# ruff: noqa: PLC0415 - each verb is imported when it is called, see above

import contextlib
import functools
import inspect
import sys
from collections.abc import Callable, Coroutine, Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kubectl_vc import flags
from kubectl_vc.access import Access
from kubectl_vc.output import Format
from kubectl_vc.problems import CliProblem, UsageProblem, sentence

if TYPE_CHECKING:
    from kubectl_vc.terminal import Terminal

PROGRAM = "kubectl vc"
FIVE_MINUTES = 300.0
INTERRUPTED = 130
"""Exit code after Ctrl-C, as shells have it."""

app = typer.Typer(
    name=PROGRAM,
    no_args_is_help=True,
    add_completion=False,  # kubectl completes plugins through kubectl_complete-vc
    rich_markup_mode=None,  # plain help as kubectl's, without loading rich
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def main() -> None:
    """Run the command line."""
    app(prog_name=PROGRAM)


def _on_super_cluster(verb: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Give a verb the flags of the connection as its argument `access`, run it, explain errors."""
    own = inspect.signature(verb)
    parameters = [each for each in own.parameters.values() if each.name != "access"]
    parameters += inspect.signature(flags.connection).parameters.values()

    @functools.wraps(verb)
    def command(**values: Any) -> None:
        import asyncio

        connection = {name: values.pop(name) for name in _CONNECTION_FLAGS}
        with _explained():
            asyncio.run(verb(access=flags.connection(**connection), **values))

    # The framework reads the flags of a command from these two.
    command.__signature__ = own.replace(parameters=parameters)  # type: ignore[attr-defined]  # by inspect
    command.__annotations__ = {each.name: each.annotation for each in parameters}
    return command


_CONNECTION_FLAGS = tuple(inspect.signature(flags.connection).parameters)


@contextlib.contextmanager
def _explained() -> Iterator[None]:
    """Turn what stops a verb into one sentence and an exit code."""
    from kubeio.errors import KubeError
    from tenancy.names import NameProblemError

    try:
        yield
    except CliProblem as problem:
        _fail(str(problem), problem.exit_code)
    except KubeError as problem:
        _fail(sentence(problem), CliProblem.exit_code)
    except NameProblemError as problem:
        _fail(str(problem), CliProblem.exit_code)
    except KeyboardInterrupt:
        _fail("interrupted; what was made stays, and goes on by itself", INTERRUPTED)


def _fail(text: str, code: int) -> None:
    typer.echo(f"error: {text}", err=True)
    raise typer.Exit(code)


def _terminal() -> "Terminal":
    from kubectl_vc.terminal import Terminal

    return Terminal(sys.stdout, sys.stderr)


def _print_version(wanted: bool) -> None:
    if wanted:
        from kubectl_vc import version

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
@_on_super_cluster
async def create(
    *,
    access: Access,
    name: flags.OptionalName = "",
    filename: flags.Filename = "",
    cluster_version: flags.ClusterVersion = "",
    output: flags.KubeconfigPath = None,
    force: flags.Force = False,
    wait: flags.Wait = True,
    timeout: flags.Timeout = FIVE_MINUTES,
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
    from kubectl_vc import create as verb
    from kubectl_vc import manifests

    if filename:
        manifest = manifests.parse(manifests.load(filename), filename)
    else:
        manifest = manifests.virtual_cluster(name, cluster_version)
    wishes = verb.Wishes(kubeconfig=output, force=force, wait=wait, seconds=timeout)
    await verb.run(access, _terminal(), manifest, wishes)


@app.command("list")
@_on_super_cluster
async def list_all(
    *, access: Access, everywhere: flags.Everywhere = False, output: flags.Output = Format.TABLE
) -> None:
    """List virtual clusters."""
    from kubectl_vc import listing

    await listing.run(access, _terminal(), everywhere=everywhere, form=output)


@app.command()
@_on_super_cluster
async def get(
    *,
    access: Access,
    name: flags.OptionalName = "",
    everywhere: flags.Everywhere = False,
    output: flags.Output = Format.TABLE,
) -> None:
    """Show virtual clusters, one in detail.

    With NAME also its conditions, and its namespaces, pods and nodes in the super cluster.
    """
    if name and everywhere:
        raise UsageProblem("a NAME is in one namespace; give -n instead of -A")
    from kubectl_vc import get as verb
    from kubectl_vc import listing

    if name:
        await verb.run(access, _terminal(), name=name, form=output)
    else:
        await listing.run(access, _terminal(), everywhere=everywhere, form=output)


@app.command()
@_on_super_cluster
async def kubeconfig(
    *,
    access: Access,
    name: flags.Name,
    output: flags.KubeconfigPath = None,
    force: flags.Force = False,
) -> None:
    """Print or write the administrator's kubeconfig."""
    from kubectl_vc import kubeconfig as verb

    await verb.run(access, _terminal(), name=name, output=output, force=force)


@app.command()
@_on_super_cluster
async def delete(
    *,
    access: Access,
    name: flags.Name,
    ignore_not_found: flags.IgnoreNotFound = False,
    wait: flags.Wait = True,
    timeout: flags.Timeout = FIVE_MINUTES,
) -> None:
    """Delete a virtual cluster with all that runs in it.

    Its volumes go too. Deletion does not need the tenant's own API to work.
    """
    from kubectl_vc import delete as verb

    await verb.run(
        access,
        _terminal(),
        name=name,
        wait=wait,
        seconds=timeout,
        ignore_not_found=ignore_not_found,
    )


@app.command("confirm-deletes")
@_on_super_cluster
async def confirm_deletes(*, access: Access, name: flags.Name) -> None:
    """Accept a tenant's replaced etcd as the right one.

    When the etcd of a tenant is lost or goes back in time, the condition DeletesHeld says so, and
    nothing is deleted in the super cluster. This says that the new store is the right one, and that
    what it does not have may go.
    """
    from kubectl_vc import confirm_deletes as verb

    await verb.run(access, _terminal(), name=name)


@app.command()
@_on_super_cluster
async def version(*, access: Access, client: flags.ClientOnly = False) -> None:
    """Print the versions of program and super cluster."""
    from kubectl_vc import version as verb

    await verb.run(access, _terminal(), client_only=client)
