"""Clusters that may run tenants' pods: the typed view of a SuperCluster, and what is said of one.

Pure. The home cluster is the one named `home`: tenants' control planes run there, and it has no
Secret. Must not know how a cluster is reached. Hazard: what a status says of a cluster came from
that cluster, which may be anybody's.
"""

import ipaddress
from collections.abc import Iterable, Mapping
from typing import Any, Literal, TypeVar

import msgspec

from tenancy.specs import SpecProblemError

HOME = "home"
"""Name of the SuperCluster that stands for the cluster of the components themselves."""

_T = TypeVar("_T")
_SHORT = 8  # digits of a UID: they tell a handful of clusters apart

Mode = Literal["agent", "apiserver"]
Effect = Literal["NoSchedule", "PreferNoSchedule", "NoExecute"]
Network = ipaddress.IPv4Network | ipaddress.IPv6Network

REACHABLE = "Reachable"
"""Condition: an API server answers behind the address, and proves that it is the one meant."""
AUTHORIZED = "Authorized"
"""Condition: the credential is accepted and may do all that is needed; the message names each verb
that is missing."""
VERSION_SUPPORTED = "VersionSupported"
"""Condition: its Kubernetes is at most one minor from the home cluster's."""
NETWORKS_OVERLAP = "NetworksOverlap"
"""Condition, True when something is wrong: addresses of pods or Services mean two things."""
READY = "Ready"
"""Condition: all of the above are well."""
LOSSES_HELD = "LossesHeld"
"""Condition, written by the syncer and True when something is wrong: many of the pods that tenants
have there are missing at once, and nothing is concluded from that."""
FOLLOWED = "Followed"
"""Condition, written by the syncer: what is there for tenants is listed and watched."""
SYNCER_CONDITIONS = (FOLLOWED, LOSSES_HELD)
IDENTITY_CHANGED = "IdentityChanged"
"""Reason of Reachable: another cluster answers, and `status.observedIdentity` names it."""
AGENT_READY = "AgentReady"
"""Condition: logs, exec, attach and port-forward of tenants' pods there are served; pods are placed
there without."""
CONDITIONS = (READY, REACHABLE, AUTHORIZED, VERSION_SUPPORTED, NETWORKS_OVERLAP, AGENT_READY)


class SecretRef(msgspec.Struct, frozen=True, kw_only=True):
    """A Secret in the components' namespace."""

    name: str
    key: str = ""
    """Empty: `kubeconfig`, `config`, or a server and a token in keys of their own."""
    context: str = ""
    """Context of the kubeconfig; empty: its current one."""


class Taint(msgspec.Struct, frozen=True, kw_only=True):
    """A taint of the node that stands for the cluster in tenants."""

    key: str
    effect: Effect
    value: str = ""


class NetworkFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What an administrator knows of a cluster's network; what is empty is asked of the cluster."""

    pod_cidrs: tuple[str, ...] = msgspec.field(default=(), name="podCIDRs")
    service_cidrs: tuple[str, ...] = msgspec.field(default=(), name="serviceCIDRs")
    resolvers: tuple[str, ...] = ()
    """Addresses of what resolves names for tenants' pods there."""
    reachable: bool = False
    """Whether its pods and the home cluster's reach each other by their addresses."""


class SuperClusterSpec(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """`SuperCluster.spec`."""

    secret_ref: SecretRef | None = None
    """None for the home cluster alone."""
    server: str = ""
    """Instead of the Secret's."""
    tls_server_name: str = ""
    """Instead of the Secret's, or of the server's own name."""
    mode: Mode = "apiserver"
    labels: dict[str, str] = {}
    taints: tuple[Taint, ...] = ()
    network: NetworkFacts = NetworkFacts()


class Ranges(msgspec.Struct, frozen=True, kw_only=True):
    """Addresses of a cluster, as CIDRs."""

    pods: tuple[str, ...] = msgspec.field(default=(), name="podCIDRs")
    services: tuple[str, ...] = msgspec.field(default=(), name="serviceCIDRs")


class Losses(msgspec.Struct, frozen=True, kw_only=True):
    """Pods that are missing in a cluster while the condition LossesHeld is True."""

    state: str
    """Digest of the set of missing pods, 16 hexadecimal digits. A confirmation names it."""
    missing: int
    total: int
    """Pods that should run there, the missing ones included."""


class SuperClusterStatus(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What other components read of `SuperCluster.status`."""

    observed_generation: int = 0
    version: str = ""
    identity: str = ""
    """UID of the cluster's kube-system."""
    observed_identity: str = ""
    """The same of the cluster that answers, while that is another one than `identity` names."""
    nodes: int = 0
    """Nodes that are ready and take pods."""
    capacity: dict[str, str] = {}
    """What those nodes have to give, all told: cpu, memory, ephemeral-storage, pods."""
    network: Ranges = Ranges()
    losses: Losses | None = None
    """Written by the syncer; None while nothing is held."""
    conditions: tuple[dict[str, Any], ...] = ()


def accounts_namespace(home: str) -> str:
    """Return the namespace, in a target, of the accounts that were made there for one home cluster.

    `home` is the UID of that cluster's kube-system; two home clusters may share a target.
    """
    return f"virtual-cluster-{home[:_SHORT]}"


def parse_spec(body: Mapping[str, Any]) -> SuperClusterSpec:
    """Return the typed view of a SuperCluster's spec. Raises SpecProblemError."""
    name = str(body["metadata"]["name"])
    spec = _convert(body.get("spec") or {}, SuperClusterSpec, f"SuperCluster {name}, spec")
    if (spec.secret_ref is None) is not (name == HOME):
        raise SpecProblemError(
            f"SuperCluster {name} must not have a secretRef, as it is the cluster of the components"
            " themselves; leave it out"
            if name == HOME
            else f"SuperCluster {name} names no Secret with its credentials; set spec.secretRef"
        )
    return spec


def parse_status(body: Mapping[str, Any]) -> SuperClusterStatus:
    """Return the typed view of a SuperCluster's status. Raises SpecProblemError."""
    where = f"SuperCluster {body['metadata']['name']}, status"
    return _convert(body.get("status") or {}, SuperClusterStatus, where)


def overlaps(mine: Ranges, others: Mapping[str, Ranges]) -> list[str]:
    """Return where addresses mean two things: within a cluster, and between it and others.

    Sentences without a full stop. Service ranges of two clusters may be the same: their addresses
    mean something inside each cluster only. What is no network is left out.
    """
    found = _shared(mine.pods, mine.services, "the pod range {} overlaps its own Service range {}")
    for name, theirs in sorted(others.items()):
        found += _shared(mine.pods, theirs.pods, f"the pod range {{}} overlaps {{}} of {name}")
    return found


def _shared(left: Iterable[str], right: Iterable[str], sentence: str) -> list[str]:
    pairs = ((one, two) for one in _networks(left) for two in _networks(right))
    return [sentence.format(one, two) for one, two in pairs if one.overlaps(two)]


def _networks(found: Iterable[str]) -> list[Network]:
    nets: list[Network] = []
    for text in found:
        try:
            nets.append(ipaddress.ip_network(text, strict=False))
        except ValueError:
            continue
    return nets


def _convert(value: Any, to: type[_T], where: str) -> _T:
    try:
        return msgspec.convert(value, to)
    except msgspec.ValidationError as problem:
        raise SpecProblemError(f"{where}: {problem}") from problem
