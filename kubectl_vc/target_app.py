"""`kubectl vc target`: the verbs about target clusters, which run pods of tenants.

Owns their flags. Must not know how a verb works. Hazard: as in `kubectl_vc.app`, imports at the top
must stay few. Each further one delays `--help`.
"""

# ruff: noqa: PLC0415 - each verb is imported when it is called, see above

import typer

from kubectl_vc import flags
from kubectl_vc.client.config_flags import Access
from kubectl_vc.command import terminal, without_namespace
from kubectl_vc.output.cli_errors import UsageProblem
from kubectl_vc.output.printers import Format

MANAGER_NAMESPACE = "vc-manager"

app = typer.Typer(
    help="Clusters that are to run pods of tenants.",
    no_args_is_help=True,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.command()
@without_namespace
async def join(
    *,
    access: Access,
    name: flags.TargetName,
    target_kubeconfig: flags.TargetKubeconfig = "",
    target_context: flags.TargetContext = "",
    server: flags.Server = "",
    tls_server_name: flags.TlsServerName = "",
    manager_namespace: flags.ManagerNamespace = MANAGER_NAMESPACE,
    label: flags.Labels = None,
    taint: flags.Taints = None,
    resolver: flags.Resolvers = None,
    mode: flags.TargetMode = None,
    kubelet_ca: flags.KubeletCa = None,
    expires: flags.Expires = 0,
    dry_run: flags.DryRun = False,
    wait: flags.Wait = True,
    timeout: flags.ShortTimeout = flags.ONE_MINUTE,
) -> None:
    """Make an account in another cluster, and declare that cluster here.

    In the other cluster: a namespace, an account, a role of what is needed and its binding. Here: a
    Secret with the account's kubeconfig, and a SuperCluster. Joining again renews all of it; mode,
    labels, taints and resolvers that are not given stay as they are.
    Without a resolver only pods come there that resolve no names, and those of tenants that may use
    the nodes' own.
    """
    if not (target_kubeconfig or target_context):
        raise UsageProblem("say which cluster joins, with --target-kubeconfig or --target-context")
    from kubectl_vc.target import join as verb
    from kubectl_vc.target import manifests

    await verb.run(
        access,
        terminal(),
        verb.Wish(
            name=name,
            kubeconfig=target_kubeconfig,
            context=target_context,
            server=server,
            tls_server_name=tls_server_name,
            namespace=manager_namespace,
            labels=manifests.labels(label or ()),
            taints=manifests.taints(taint or ()),
            resolvers=manifests.resolvers(resolver or ()),
            mode=mode.value if mode else None,
            kubelet_authorities=manifests.kubelet_authorities(kubelet_ca) if kubelet_ca else b"",
            token_seconds=expires,
        ),
        dry_run=dry_run,
        seconds=timeout,
        wait=wait,
    )


@app.command("list")
@without_namespace
async def list_all(*, access: Access, output: flags.Output = Format.TABLE) -> None:
    """List the clusters that are declared."""
    from kubectl_vc.target import listing

    await listing.run(access, terminal(), form=output)


@app.command()
@without_namespace
async def doctor(
    *, access: Access, name: flags.TargetName = "", output: flags.Output = Format.TABLE
) -> None:
    """Say what is wrong with a cluster, or with all, and what to do.

    Ends with 1 when something is wrong.
    """
    from kubectl_vc.target import doctor as verb

    await verb.run(access, terminal(), name=name, form=output)


@app.command()
@without_namespace
async def confirm(*, access: Access, name: flags.TargetName) -> None:
    """Say that pods which are missing in a cluster are gone for good.

    While many are missing at once, or another cluster answers, none of them counts as lost. After
    this they do, and their controllers make others.
    """
    from kubectl_vc.target import confirm as verb

    await verb.run(access, terminal(), name=name)


@app.command()
@without_namespace
async def leave(
    *,
    access: Access,
    name: flags.TargetName,
    target_kubeconfig: flags.TargetKubeconfig = "",
    target_context: flags.TargetContext = "",
    manager_namespace: flags.ManagerNamespace = MANAGER_NAMESPACE,
    ignore_not_found: flags.IgnoreNotFound = False,
    drain: flags.Drain = False,
    timeout: flags.Timeout = flags.FIVE_MINUTES,
    dry_run: flags.DryRun = False,
) -> None:
    """Forget another cluster, and remove the account there.

    Refused while a VirtualCluster names it, or has something there. With --drain it is taken from
    all of them first: their pods are evicted as their budgets let them, what is left is told, and
    the cluster leaves once nothing is. Without a kubeconfig of the other cluster, what is left
    there is told.
    """
    from kubectl_vc.target import leave as verb

    await verb.run(
        access,
        terminal(),
        verb.Wish(
            name=name,
            kubeconfig=target_kubeconfig,
            context=target_context,
            namespace=manager_namespace,
            drains=drain,
            seconds=timeout,
        ),
        ignore_not_found=ignore_not_found,
        dry_run=dry_run,
    )
