"""Arguments and flags of the verbs about targets.

Hazard: as in `kubectl_vc.flags`, imports at the top must stay few.
"""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

from kubectl_vc.commandline.declarations import Argument, Option
from kubectl_vc.flags import parse_seconds


class SuperClusterMode(StrEnum):
    """`SuperCluster.spec.mode`."""

    APISERVER = "apiserver"
    AGENT = "agent"


TargetNameArgument = Annotated[
    str, Argument(metavar="NAME", show_default=False, help="Name of the SuperCluster")
]
TargetKubeconfigFlag = Annotated[
    str,
    Option(
        "--target-kubeconfig",
        metavar="FILE",
        show_default=False,
        help="Kubeconfig of the target cluster, of a user with rights to write roles",
    ),
]
TargetContextFlag = Annotated[
    str,
    Option(
        "--target-context",
        metavar="NAME",
        show_default=False,
        help="Context of the target cluster, in --target-kubeconfig or the default kubeconfig",
    ),
]
MachinesKubeconfigFlag = Annotated[
    str,
    Option(
        "--target-kubeconfig",
        metavar="FILE",
        show_default=False,
        help="Kubeconfig of the cluster with the MachineDeployments",
    ),
]
MachinesContextFlag = Annotated[
    str,
    Option(
        "--target-context",
        metavar="NAME",
        show_default=False,
        help="Context of the cluster with the MachineDeployments",
    ),
]
ServerFlag = Annotated[
    str,
    Option(
        "--server",
        metavar="URL",
        show_default=False,
        help="URL of the target's API server for the components (default: from the kubeconfig)",
    ),
]
TlsServerNameFlag = Annotated[
    str,
    Option(
        "--tls-server-name",
        metavar="NAME",
        show_default=False,
        help="Name in the certificate of the target's API server, if the URL has another one",
    ),
]
LabelsFlag = Annotated[
    list[str] | None,
    Option(
        "--label",
        metavar="KEY=VALUE",
        show_default=False,
        help="Label of the node that represents the target in tenants. Can be repeated.",
    ),
]
TaintsFlag = Annotated[
    list[str] | None,
    Option(
        "--taint",
        metavar="KEY[=VALUE]:EFFECT",
        show_default=False,
        help="Taint of the node that represents the target in tenants. Can be repeated.",
    ),
]
ResolversFlag = Annotated[
    list[str] | None,
    Option(
        "--resolver",
        metavar="ADDRESS",
        show_default=False,
        help="IP address of a DNS server for tenants' pods in the target. Can be repeated.",
    ),
]
TargetModeFlag = Annotated[
    SuperClusterMode | None,
    Option(
        "--mode",
        show_default=False,
        help="Path of logs and exec to pods in the target. apiserver: through its API server."
        " agent: directly to its kubelets, which needs nodes/proxy and reachable nodes"
        " (default: unchanged, apiserver for a new target)",
    ),
]
KubeletCaFlag = Annotated[
    Path | None,
    Option(
        "--kubelet-ca",
        metavar="FILE",
        show_default=False,
        help="PEM file of the CA that signed the kubelets' serving certificates, for --mode agent"
        " (default: unchanged, CA of the API server for a new target)",
    ),
]
ExpiresFlag = Annotated[
    float,
    Option(
        "--expires",
        metavar="TIME",
        parser=parse_seconds,
        show_default=False,
        help="Use a token that ends after this time, such as 720h (default: one that is renewed)",
    ),
]
DrainFlag = Annotated[
    bool,
    Option("--drain", help="Withdraw the target from all tenants first, and wait for their pods"),
]
