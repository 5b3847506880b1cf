"""`kubectl vc why`, `doctor`, `policy check` and `debug collect`: the verbs that find a cause.

Owns their flags. Must not know how a verb works. Hazard: as in `kubectl_vc.app`, imports at the top
must stay few. Each further one delays `--help`.
"""

# ruff: noqa: PLC0415 - each verb is imported when it is called, see above

from pathlib import Path
from typing import Annotated

from kubectl_vc import flags
from kubectl_vc.client.config_flags import ConfigFlags
from kubectl_vc.command import (
    create_terminal,
    create_verb_group,
    with_connection_flags,
    with_object_namespace,
)
from kubectl_vc.commandline.declarations import Argument, Option
from kubectl_vc.output.cli_errors import UsageError
from kubectl_vc.output.printers import ReportFormat

app = create_verb_group("Find the cause of a fault.")
policy_app = create_verb_group("Check objects against a TenantPolicy.")
debug_app = create_verb_group("Collect facts for a bug report.")
app.add_group(policy_app, name="policy")
app.add_group(debug_app, name="debug")

ObjectArgument = Annotated[
    str,
    Argument(metavar="KIND/NAME", show_default=False, help="Object in the tenant, such as pod/web"),
]
VirtualClusterFlag = Annotated[
    str,
    Option(
        "--vc",
        metavar="NAME",
        show_default=False,
        help="VirtualCluster, as NAME or NAMESPACE/NAME (default: the kubeconfig is the tenant's)",
    ),
]
AsTenantFlag = Annotated[
    bool, Option("--as-tenant", help="Use and show only facts that the tenant may know")
]
PolicyFlag = Annotated[
    str,
    Option(
        "--policy",
        metavar="NAME",
        show_default=False,
        help="Built-in TenantPolicy, or a file with one (default: baseline)",
    ),
]
PolicyOfFlag = Annotated[
    str,
    Option(
        "--vc",
        metavar="NAME",
        show_default=False,
        help="VirtualCluster with the policy, as NAME or NAMESPACE/NAME. Needs the super cluster.",
    ),
]
BundlePathFlag = Annotated[
    Path | None,
    Option("--output", "-o", metavar="FILE", show_default=False, help="Archive to write, .tar.gz"),
]
ForceBundleFlag = Annotated[bool, Option("--force", help="Replace an existing archive")]
OptionalNameArgument = Annotated[
    str,
    Argument(
        metavar="[NAME]",
        show_default=False,
        help="Name of the VirtualCluster (default: only the installation)",
    ),
]


@app.command()
@with_object_namespace
async def why(
    *,
    access: ConfigFlags,
    wanted: ObjectArgument,
    virtual_cluster: VirtualClusterFlag = "",
    as_tenant: AsTenantFlag = False,
    manager_namespace: flags.ManagerNamespaceFlag = flags.MANAGER_NAMESPACE,
    output: flags.ReportOutputFlag = ReportFormat.TABLE,
) -> None:
    """Find out which layer holds an object of a tenant.

    Shows the object, its copy in the super cluster, its node and last Event, the layer that holds
    it, and the next command. With the tenant's kubeconfig, leave out --vc.

    Examples:

      kubectl vc why pod/web -n shop --vc team-a

      kubectl vc why deployment/web --kubeconfig team-a.kubeconfig
    """
    if as_tenant and not virtual_cluster:
        raise UsageError("--as-tenant needs --vc. Add --vc NAME.")
    from kubectl_vc.diagnosis import why as verb

    options = verb.WhyOptions(
        virtual_cluster=virtual_cluster,
        as_tenant=as_tenant,
        manager_namespace=manager_namespace,
        form=output,
    )
    await verb.run_why(access, create_terminal(), wanted=wanted, options=options)


@policy_app.command()
@with_connection_flags
async def check(
    *,
    access: ConfigFlags,
    filenames: flags.FilenamesFlag = None,
    policy: PolicyFlag = "",
    virtual_cluster: PolicyOfFlag = "",
    output: flags.ReportOutputFlag = ReportFormat.TABLE,
) -> None:
    """Check whether a TenantPolicy would refuse the objects of a manifest.

    Works without a cluster, except with --vc. The exit code is 1 if an object would be refused.

    Examples:

      kubectl vc policy check -f pod.yaml

      kubectl vc policy check -f app.yaml --policy restricted -o json
    """
    if not filenames or "" in filenames:
        raise UsageError("-f is missing. Add -f FILE with the objects.")
    if policy and virtual_cluster:
        raise UsageError("--policy and --vc cannot be used together. Leave one of the two out.")
    from kubectl_vc.policy import check as verb

    options = verb.CheckOptions(
        filenames=tuple(filenames), policy=policy, virtual_cluster=virtual_cluster, form=output
    )
    await verb.run_check(access, create_terminal(), options)


@app.command()
@with_connection_flags
async def doctor(
    *,
    access: ConfigFlags,
    name: OptionalNameArgument = "",
    manager_namespace: flags.ManagerNamespaceFlag = flags.MANAGER_NAMESPACE,
    output: flags.ReportOutputFlag = ReportFormat.TABLE,
) -> None:
    """Check the installation, and with NAME one virtual cluster.

    Names the first broken link and the next command. Facts that you may not read are unknown. The
    exit code is 1 if a link is broken.

    Examples:

      kubectl vc doctor

      kubectl vc doctor web -o json
    """
    from kubectl_vc.installation import doctor as verb

    await verb.run_doctor(
        access, create_terminal(), name=name, manager_namespace=manager_namespace, form=output
    )


@debug_app.command()
@with_connection_flags
async def collect(
    *,
    access: ConfigFlags,
    name: OptionalNameArgument = "",
    output: BundlePathFlag = None,
    force: ForceBundleFlag = False,
    manager_namespace: flags.ManagerNamespaceFlag = flags.MANAGER_NAMESPACE,
) -> None:
    """Write an archive for a bug report, without Secrets.

    It has objects, logs, Events and metrics of the components, of the control plane of NAME, and
    the output of `kubectl vc doctor`. Values of environment variables, keys and tokens are removed.

    Examples:

      kubectl vc debug collect web -o web-debug.tar.gz
    """
    if output is None:
        raise UsageError("-o is missing. Add -o FILE.tar.gz for the archive.")
    from kubectl_vc.debug import debug_bundle as verb

    options = verb.BundleOptions(output=output, force=force, manager_namespace=manager_namespace)
    await verb.run_collect(access, create_terminal(), name=name, options=options)
