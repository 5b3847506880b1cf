"""Flags of all verbs, spelled as kubectl spells them.

Owns names, help and parsing. Must not import code that connects to a server, because that would
delay `--help`.
"""

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Literal

from kubectl_vc.client.config_flags import ConfigFlags
from kubectl_vc.commandline.declarations import Argument, Option
from kubectl_vc.output import durations
from kubectl_vc.output.printers import OutputFormat, ReportFormat

MANAGER_NAMESPACE = "vc-manager"


class RotatedAuthority(StrEnum):
    """Authority that can be rotated."""

    SERVING = "serving"
    CLIENT = "client"
    ETCD = "etcd"
    FRONT_PROXY = "front-proxy"
    SERVICE_ACCOUNT = "service-account"
    AGENT_CLIENT = "agent-client"
    AGENT_SERVING = "agent-serving"


def parse_seconds(text: str | float) -> float:
    """Parse a flag's value as a duration in seconds. A default is a number already.

    Raises ValueError.
    """
    return durations.parse_duration(text) if isinstance(text, str) else text


NameArgument = Annotated[
    str, Argument(metavar="NAME", show_default=False, help="Name of the VirtualCluster")
]
OptionalNameArgument = Annotated[
    str,
    Argument(
        metavar="[NAME]",
        show_default=False,
        help="Name of the VirtualCluster. Without it, the kubeconfig is the tenant's own.",
    ),
]
NamespaceFlag = Annotated[
    str,
    Option(
        "--namespace",
        "-n",
        metavar="NAME",
        show_default=False,
        help="Namespace of the VirtualCluster (default: namespace of the context)",
    ),
]
ObjectNamespaceFlag = Annotated[
    str,
    Option(
        "--namespace",
        "-n",
        metavar="NAME",
        show_default=False,
        help="Namespace of the object in the tenant (default: default)",
    ),
]
"""For verbs about one object of a tenant."""
UnusedNamespace = Annotated[str, Option("--namespace", "-n", metavar="NAME", hidden=True)]
"""For verbs about cluster-scoped objects. As kubectl does, they accept the flag and ignore it."""
KubeconfigFlag = Annotated[
    str,
    Option(
        "--kubeconfig",
        metavar="FILE",
        show_default=False,
        help="Kubeconfig of the super cluster (default: $KUBECONFIG, then ~/.kube/config)",
    ),
]
ContextFlag = Annotated[
    str,
    Option(
        "--context", metavar="NAME", show_default=False, help="Context of the kubeconfig to use"
    ),
]
AsUserFlag = Annotated[
    str,
    Option("--as", metavar="USER", show_default=False, help="User to impersonate"),
]
AsGroupFlag = Annotated[
    list[str] | None,
    Option(
        "--as-group",
        metavar="GROUP",
        show_default=False,
        help="Group to impersonate, with --as. Can be repeated.",
    ),
]
RequestTimeoutFlag = Annotated[
    float,
    Option(
        "--request-timeout",
        metavar="TIME",
        parser=parse_seconds,
        show_default=False,
        help="Longest time for one request, such as 5s (default 15s)",
    ),
]


def _timeout(default: str) -> Any:
    """Return the flag `--timeout` of a verb. `default` is the default as its help spells it."""
    return Option(
        "--timeout",
        metavar="TIME",
        parser=parse_seconds,
        show_default=False,
        help=f"Longest time to wait, such as 90s. 0 means no limit (default {default})",
    )


WAIT_TIMEOUT_SECONDS = 300.0
JOIN_TIMEOUT_SECONDS = 60.0
TimeoutFlag = Annotated[float, _timeout("5m")]
"""For verbs whose default is FIVE_MINUTES."""
ShortTimeout = Annotated[float, _timeout("1m")]
"""For verbs whose default is ONE_MINUTE."""
WaitFlag = Annotated[
    bool, Option("--wait/--no-wait", help="Wait until it is done. --no-wait is the same as false")
]
ForceFlag = Annotated[bool, Option("--force", help="Replace an existing kubeconfig file")]
KubeconfigPathFlag = Annotated[
    Path | None,
    Option(
        "--output",
        "-o",
        metavar="PATH",
        show_default=False,
        help="File for the tenant's kubeconfig, with mode 0600",
    ),
]


class SleepingWorkloadsChoice(StrEnum):
    """Choice for the pods of a virtual cluster that sleeps."""

    KEEP = "keep"
    SCALE_TO_ZERO = "scale-to-zero"

    def get_spec_value(self) -> Literal["Keep", "ScaleToZero"]:
        """Return the value of `spec.sleep.workloads`."""
        return "Keep" if self is SleepingWorkloadsChoice.KEEP else "ScaleToZero"


SleepingWorkloadsFlag = Annotated[
    SleepingWorkloadsChoice,
    Option("--workloads", help="Pods of the virtual cluster: let them run, or stop them"),
]


class KubeconfigRole(StrEnum):
    """Role of a kubeconfig, named as Kubernetes' user-facing ClusterRole."""

    VIEW = "view"
    EDIT = "edit"
    ADMIN = "admin"


RoleFlag = Annotated[
    KubeconfigRole | None,
    Option(
        "--role",
        show_default=False,
        help="Write a kubeconfig that has only this role, ends after --ttl and can be revoked",
    ),
]
TtlFlag = Annotated[
    float,
    Option(
        "--ttl",
        metavar="TIME",
        parser=parse_seconds,
        show_default=False,
        help="Lifetime of a kubeconfig with --role, such as 30m (default 8h)",
    ),
]
RenewFlag = Annotated[
    Path | None,
    Option(
        "--renew",
        metavar="FILE",
        show_default=False,
        help="Replace certificate, key and CA in this kubeconfig of a virtual cluster",
    ),
]
RevokeFlag = Annotated[
    str | None,
    Option(
        "--revoke",
        metavar="USER",
        show_default=False,
        help="Revoke the kubeconfig with --role of this user: remove all bindings of the user",
    ),
]
DEFAULT_TTL_SECONDS = 8 * 3600.0
OutputFlag = Annotated[
    OutputFormat,
    Option("--output", "-o", help="Output format"),
]
ReportOutputFlag = Annotated[
    ReportFormat,
    Option("--output", "-o", help="Output format"),
]
AllNamespaces = Annotated[
    bool, Option("--all-namespaces", "-A", help="VirtualClusters of all namespaces")
]


def _filename(text: str) -> Option:
    source = "a file, an http or https URL, or - for standard input"
    return Option("--filename", "-f", metavar="FILE", show_default=False, help=text.format(source))


FilenamesFlag = Annotated[list[str] | None, _filename("Manifest: {}. Can be repeated.")]
VirtualClusterFileFlag = Annotated[
    list[str] | None, _filename("Manifest with one VirtualCluster: {}")
]
"""As FilenamesFlag, and the verb refuses a second one."""
ClusterVersionFlag = Annotated[
    str,
    Option(
        "--cluster-version",
        metavar="NAME",
        show_default=False,
        help="ClusterVersion of the VirtualCluster NAME",
    ),
]
NewClusterVersionFlag = Annotated[
    str,
    Option(
        "--cluster-version",
        metavar="NAME",
        show_default=False,
        help="ClusterVersion that the VirtualCluster changes to",
    ),
]
IgnoreNotFoundFlag = Annotated[
    bool, Option("--ignore-not-found", help="Exit with code 0 if the object does not exist")
]
YesFlag = Annotated[
    bool, Option("--yes", "-y", help="Do not ask for the name of the VirtualCluster")
]
NowFlag = Annotated[
    bool, Option("--now", help="Delete at once, without the grace period of the tenant")
]
ClientOnlyFlag = Annotated[bool, Option("--client", help="Print the version of this program only")]
ManagerNamespaceFlag = Annotated[
    str,
    Option("--manager-namespace", metavar="NAME", help="Namespace of vc-manager and vc-syncer"),
]
SecretNamespaceFlag = Annotated[
    str,
    Option(
        "--manager-namespace", metavar="NAME", help="Namespace of the components, for the Secret"
    ),
]
"""For verbs that write a Secret of a component."""
AuthoritiesFlag = Annotated[
    list[RotatedAuthority] | None,
    Option(
        "--authority",
        show_default=False,
        help="Authority to replace, may be repeated. agent-client and agent-serving belong to all"
        " virtual clusters and need no NAME. agent-serving is replaced after its end only.",
    ),
]
ForceDropFlag = Annotated[
    RotatedAuthority | None,
    Option(
        "--force-drop",
        show_default=False,
        help="Drop the old authority of this kind, although clients may still use it",
    ),
]
DecoyFlag = Annotated[
    str,
    Option(
        "--decoy",
        metavar="NAME",
        show_default=False,
        help="Another VirtualCluster in the same namespace, whose parts must be unreachable"
        " (default: one is created and deleted)",
    ),
]
ImageFlag = Annotated[
    str,
    Option("--image", metavar="IMAGE", help="Image of the pods, with sh and BusyBox nc and httpd"),
]


class DryRun(StrEnum):
    """Value of `--dry-run`. It is true unless the value is none."""

    NONE = "none"
    CLIENT = "client"
    SERVER = "server"

    def __bool__(self) -> bool:
        """Return whether nothing may be written."""
        return self is not DryRun.NONE


DryRunFlag = Annotated[
    DryRun,
    Option(
        "--dry-run",
        bare="server",
        help="Write nothing, and print the changes: none, client or server. server: the API server"
        " checks the request. Without a value it is server",
    ),
]


ShellArgument = Annotated[str, Argument(metavar="SHELL", help="Name of the shell")]


PagesPortFlag = Annotated[
    int,
    Option(
        "--port",
        metavar="PORT",
        min=0,
        max=65535,
        show_default=False,
        help="Port on 127.0.0.1 (default: any free port)",
    ),
]
NoBrowserFlag = Annotated[bool, Option("--no-browser", help="Print the URL, and open no browser")]


VerbosityFlag = Annotated[
    int,
    Option(
        "--v",
        "-v",
        metavar="LEVEL",
        min=0,
        show_default=False,
        help="Print the traceback of an internal error if the level is above 0",
    ),
]


def build_connection_flags(
    *,
    namespace: NamespaceFlag = "",
    kubeconfig: KubeconfigFlag = "",
    context: ContextFlag = "",
    as_user: AsUserFlag = "",
    as_group: AsGroupFlag = None,
    request_timeout: RequestTimeoutFlag = 0,
    v: VerbosityFlag = 0,
) -> ConfigFlags:
    """Return the connection flags, which every verb has, as one value.

    `kubectl_vc.command` reads the verbosity, because errors before the parsing need it.
    """
    del v
    return ConfigFlags(
        kubeconfig=kubeconfig,
        context=context,
        namespace=namespace,
        as_user=as_user,
        as_groups=tuple(as_group or ()),
        request_timeout_seconds=request_timeout,
    )
