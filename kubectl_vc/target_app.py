"""`kubectl vc target`: the verbs about target clusters, which run pods of tenants.

Owns their flags. Must not know how a verb works. Hazard: as in `kubectl_vc.app`, imports at the top
must stay few. Each further one delays `--help`.
"""

# ruff: noqa: PLC0415 - each verb is imported when it is called, see above

from kubectl_vc import flags, target_flags
from kubectl_vc.client.config_flags import ConfigFlags
from kubectl_vc.command import create_terminal, create_verb_group, without_namespace
from kubectl_vc.output.cli_errors import UsageError
from kubectl_vc.output.printers import OutputFormat

app = create_verb_group("Manage target clusters, which run pods of tenants.")


@app.command()
@without_namespace
async def join(
    *,
    access: ConfigFlags,
    name: target_flags.TargetNameArgument,
    target_kubeconfig: target_flags.TargetKubeconfigFlag = "",
    target_context: target_flags.TargetContextFlag = "",
    server: target_flags.ServerFlag = "",
    tls_server_name: target_flags.TlsServerNameFlag = "",
    manager_namespace: flags.SecretNamespaceFlag = flags.MANAGER_NAMESPACE,
    label: target_flags.LabelsFlag = None,
    taint: target_flags.TaintsFlag = None,
    resolver: target_flags.ResolversFlag = None,
    mode: target_flags.TargetModeFlag = None,
    kubelet_ca: target_flags.KubeletCaFlag = None,
    expires: target_flags.ExpiresFlag = 0,
    dry_run: flags.DryRunFlag = flags.DryRun.NONE,
    wait: flags.WaitFlag = True,
    timeout: flags.ShortTimeout = flags.JOIN_TIMEOUT_SECONDS,
) -> None:
    """Register a target cluster, and create an account in it.

    In the target cluster: a namespace, two accounts, roles with the required permissions, and
    admission policies that limit them to namespaces of tenants. In the home cluster: a Secret with
    a kubeconfig, and a SuperCluster.
    Joining again renews all of them. Mode, labels, taints and resolvers without a flag stay
    unchanged.
    Without --resolver, only pods with dnsPolicy None, and pods of tenants that may use the nodes'
    DNS servers, can run there.
    """
    if not (target_kubeconfig or target_context):
        raise UsageError(
            "the target cluster is missing. Add --target-kubeconfig or --target-context."
        )
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
        dry_run=bool(dry_run),
        seconds=timeout,
        wait=wait,
    )


@app.command("list")
@without_namespace
async def list_all(*, access: ConfigFlags, output: flags.OutputFlag = OutputFormat.TABLE) -> None:
    """List the target clusters."""
    from kubectl_vc.target import listing

    await listing.run_target_list(access, create_terminal(), form=output)


@app.command()
@without_namespace
async def doctor(
    *,
    access: ConfigFlags,
    name: target_flags.TargetNameArgument = "",
    target_kubeconfig: target_flags.MachinesKubeconfigFlag = "",
    target_context: target_flags.MachinesContextFlag = "",
    output: flags.OutputFlag = OutputFormat.TABLE,
) -> None:
    """Check a target cluster, or all, and print what to do.

    Also checks the MachineDeployments of Cluster API in the home cluster. With --target-kubeconfig
    or --target-context, those of that cluster are checked instead. The exit code is 1 if a check
    fails.
    """
    from kubectl_vc.target import doctor as verb

    await verb.run_doctor(
        access,
        create_terminal(),
        name=name,
        form=output,
        machines=verb.MachinesAccess(target_kubeconfig, target_context),
    )


@app.command()
@without_namespace
async def confirm(*, access: ConfigFlags, name: target_flags.TargetNameArgument) -> None:
    """Confirm that missing pods of a target cluster are lost.

    While many pods are missing at once, or another cluster answers, no missing pod counts as lost.
    After this command they all do, and their controllers create replacements.
    """
    from kubectl_vc.target import confirm as verb

    await verb.run_confirm(access, create_terminal(), name=name)


@app.command()
@without_namespace
async def leave(
    *,
    access: ConfigFlags,
    name: target_flags.TargetNameArgument,
    target_kubeconfig: target_flags.TargetKubeconfigFlag = "",
    target_context: target_flags.TargetContextFlag = "",
    manager_namespace: flags.SecretNamespaceFlag = flags.MANAGER_NAMESPACE,
    ignore_not_found: flags.IgnoreNotFoundFlag = False,
    drain: target_flags.DrainFlag = False,
    timeout: flags.TimeoutFlag = flags.WAIT_TIMEOUT_SECONDS,
    dry_run: flags.DryRunFlag = flags.DryRun.NONE,
) -> None:
    """Unregister a target cluster, and remove the account in it.

    Refused while a VirtualCluster names the target, or has objects in it. With --drain, it is first
    withdrawn from all tenants. Their pods are evicted within their disruption budgets, and the
    command waits until none is left. Without a kubeconfig of the target cluster, the command prints
    what you must delete in it.
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
        dry_run=bool(dry_run),
    )
