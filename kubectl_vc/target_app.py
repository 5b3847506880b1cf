"""`kubectl vc target`: the verbs about target clusters, which run pods of tenants.

Owns their flags. Must not know how a verb works. Hazard: as in `kubectl_vc.app`, imports at the top
must stay few. Each further one delays `--help`.
"""

# ruff: noqa: PLC0415 - each verb is imported when it is called, see above

import typer

from kubectl_vc import flags
from kubectl_vc.client.config_flags import ConfigFlags
from kubectl_vc.command import create_terminal, without_namespace
from kubectl_vc.output.cli_errors import UsageError
from kubectl_vc.output.printers import OutputFormat

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
    access: ConfigFlags,
    name: flags.TargetNameArgument,
    target_kubeconfig: flags.TargetKubeconfigFlag = "",
    target_context: flags.TargetContextFlag = "",
    server: flags.ServerFlag = "",
    tls_server_name: flags.TlsServerNameFlag = "",
    manager_namespace: flags.ManagerNamespaceFlag = MANAGER_NAMESPACE,
    label: flags.LabelsFlag = None,
    taint: flags.TaintsFlag = None,
    resolver: flags.ResolversFlag = None,
    mode: flags.TargetModeFlag = None,
    kubelet_ca: flags.KubeletCaFlag = None,
    expires: flags.ExpiresFlag = 0,
    dry_run: flags.DryRunFlag = False,
    wait: flags.WaitFlag = True,
    timeout: flags.ShortTimeout = flags.JOIN_TIMEOUT_SECONDS,
) -> None:
    """Make an account in another cluster, and declare that cluster here.

    In the other cluster: a namespace, an account, a role of what is needed and its binding. Here: a
    Secret with the account's kubeconfig, and a SuperCluster. Joining again renews all of it; mode,
    labels, taints and resolvers that are not given stay as they are.
    Without a resolver only pods come there that resolve no names, and those of tenants that may use
    the nodes' own.
    """
    if not (target_kubeconfig or target_context):
        raise UsageError("say which cluster joins, with --target-kubeconfig or --target-context")
    from kubectl_vc.target import join as verb
    from kubectl_vc.target import manifests

    await verb.run_join(
        access,
        create_terminal(),
        verb.JoinOptions(
            name=name,
            kubeconfig=target_kubeconfig,
            context=target_context,
            server=server,
            tls_server_name=tls_server_name,
            namespace=manager_namespace,
            labels=manifests.parse_labels(label or ()),
            taints=manifests.parse_taints(taint or ()),
            resolvers=manifests.parse_resolvers(resolver or ()),
            mode=mode.value if mode else None,
            kubelet_authorities=manifests.load_kubelet_authorities(kubelet_ca)
            if kubelet_ca
            else b"",
            token_seconds=expires,
        ),
        dry_run=dry_run,
        seconds=timeout,
        wait=wait,
    )


@app.command("list")
@without_namespace
async def list_all(*, access: ConfigFlags, output: flags.OutputFlag = OutputFormat.TABLE) -> None:
    """List the clusters that are declared."""
    from kubectl_vc.target import listing

    await listing.run_target_list(access, create_terminal(), form=output)


@app.command()
@without_namespace
async def doctor(
    *,
    access: ConfigFlags,
    name: flags.TargetNameArgument = "",
    output: flags.OutputFlag = OutputFormat.TABLE,
) -> None:
    """Say what is wrong with a cluster, or with all, and what to do.

    Ends with 1 when something is wrong.
    """
    from kubectl_vc.target import doctor as verb

    await verb.run_doctor(access, create_terminal(), name=name, form=output)


@app.command()
@without_namespace
async def confirm(*, access: ConfigFlags, name: flags.TargetNameArgument) -> None:
    """Say that pods which are missing in a cluster are gone for good.

    While many are missing at once, or another cluster answers, none of them counts as lost. After
    this they do, and their controllers make others.
    """
    from kubectl_vc.target import confirm as verb

    await verb.run_confirm(access, create_terminal(), name=name)


@app.command()
@without_namespace
async def leave(
    *,
    access: ConfigFlags,
    name: flags.TargetNameArgument,
    target_kubeconfig: flags.TargetKubeconfigFlag = "",
    target_context: flags.TargetContextFlag = "",
    manager_namespace: flags.ManagerNamespaceFlag = MANAGER_NAMESPACE,
    ignore_not_found: flags.IgnoreNotFoundFlag = False,
    drain: flags.DrainFlag = False,
    timeout: flags.TimeoutFlag = flags.WAIT_TIMEOUT_SECONDS,
    dry_run: flags.DryRunFlag = False,
) -> None:
    """Forget another cluster, and remove the account there.

    Refused while a VirtualCluster names it, or has something there. With --drain it is taken from
    all of them first: their pods are evicted as their budgets let them, what is left is told, and
    the cluster leaves once nothing is. Without a kubeconfig of the other cluster, what is left
    there is told.
    """
    from kubectl_vc.target import leave as verb

    await verb.run_leave(
        access,
        create_terminal(),
        verb.LeaveOptions(
            name=name,
            kubeconfig=target_kubeconfig,
            context=target_context,
            namespace=manager_namespace,
            drains=drain,
            drain_timeout_seconds=timeout,
        ),
        ignore_not_found=ignore_not_found,
        dry_run=dry_run,
    )
