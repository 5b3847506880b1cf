"""Typed view of the SuperCluster, a cluster that may run tenants' pods, and of its status.

Pure. The home cluster is the SuperCluster `home`. It runs the tenants' control planes and has no
Secret. Must not know how a cluster is reached.

Hazard: values of a status must not be trusted. They came from that cluster, which may be hostile.
"""

import ipaddress
from collections.abc import Iterable, Mapping
from typing import Any, Literal, TypeVar

import msgspec

from tenancy import wellknown
from tenancy.specs import InvalidSpecError

HOME = "home"
"""Name of the SuperCluster that stands for the cluster of the components themselves."""

_T = TypeVar("_T")
_SHORT_UID_CHARACTERS = 8  # digits of a UID, enough to distinguish a handful of clusters

AccessMode = Literal["agent", "apiserver"]
TaintEffect = Literal["NoSchedule", "PreferNoSchedule", "NoExecute"]
IPNetwork = ipaddress.IPv4Network | ipaddress.IPv6Network

REACHABLE = "Reachable"
"""Condition: an API server answers at the address, and proves its identity."""
AUTHORIZED = "Authorized"
"""Condition: the credential is accepted and has all needed permissions.

The message names each verb that is missing.
"""
VERSION_SUPPORTED = "VersionSupported"
"""Condition: its Kubernetes is at most one minor from the home cluster's."""
NETWORKS_OVERLAP = "NetworksOverlap"
"""Condition, True when something is wrong: addresses of pods or Services have two meanings."""
READY = "Ready"
"""Condition: all of the above are well."""
LOSSES_HELD = "LossesHeld"
"""Condition, written by the syncer and True when something is wrong.

Many of the tenants' pods in this cluster are missing at once, and the syncer concludes nothing from
that.
"""
FOLLOWED = "Followed"
"""Condition, written by the syncer: the tenants' objects in this cluster are listed and watched."""
SYNC_RULES_SERVED = "SyncRulesServed"
"""Condition, written by the syncer: the cluster serves the kinds of all SyncRules whose copies
follow pods. All other kinds are synced without it.
"""
SYNCER_CONDITIONS = (FOLLOWED, LOSSES_HELD, SYNC_RULES_SERVED)
IDENTITY_CHANGED = "IdentityChanged"
"""Reason of Reachable: another cluster answers, and `status.observedIdentity` names it."""
AGENT_READY = "AgentReady"
"""Condition: logs, exec, attach and port-forward work for tenants' pods in this cluster.

Pods are placed in the cluster even without it.
"""
CONDITIONS = (
    READY,
    REACHABLE,
    AUTHORIZED,
    VERSION_SUPPORTED,
    NETWORKS_OVERLAP,
    AGENT_READY,
    wellknown.STALLED,
)


class SecretRef(msgspec.Struct, frozen=True, kw_only=True):
    """A Secret in the components' namespace."""

    name: str
    key: str = ""
    """Key of the kubeconfig.

    Empty: `kubeconfig`, `config`, or separate keys for server and token.
    """
    context: str = ""
    """Context of the kubeconfig. Empty: its current one."""


class VirtualNodeTaint(msgspec.Struct, frozen=True, kw_only=True):
    """A taint of the node that stands for the cluster in tenants."""

    key: str
    effect: TaintEffect
    value: str = ""


class NetworkFacts(msgspec.Struct, frozen=True, kw_only=True):
    """Facts of a cluster's network from an administrator. Empty ones are read from the cluster."""

    pod_cidrs: tuple[str, ...] = msgspec.field(default=(), name="podCIDRs")
    service_cidrs: tuple[str, ...] = msgspec.field(default=(), name="serviceCIDRs")
    resolvers: tuple[str, ...] = ()
    """Addresses of the name servers for tenants' pods in the cluster."""
    reachable: bool = False
    """Whether its pods and the home cluster's reach each other by their addresses."""


class SuperClusterSpec(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """`SuperCluster.spec`."""

    secret_ref: SecretRef | None = None
    """None only for the home cluster."""
    server: str = ""
    """URL that replaces the Secret's. Empty: the Secret's."""
    tls_server_name: str = ""
    """Name that replaces the Secret's or the server's own. Empty: no replacement."""
    mode: AccessMode = "apiserver"
    labels: dict[str, str] = {}
    taints: tuple[VirtualNodeTaint, ...] = ()
    network: NetworkFacts = NetworkFacts()


class ClusterRanges(msgspec.Struct, frozen=True, kw_only=True):
    """Addresses of a cluster, as CIDRs."""

    pods: tuple[str, ...] = msgspec.field(default=(), name="podCIDRs")
    services: tuple[str, ...] = msgspec.field(default=(), name="serviceCIDRs")


class Losses(msgspec.Struct, frozen=True, kw_only=True):
    """Pods that are missing in a cluster while the condition LossesHeld is True."""

    state: str
    """Digest of the set of missing pods, 16 hexadecimal digits. A confirmation names it."""
    missing: int
    total: int
    """Number of pods that should run in the cluster, the missing ones included."""


class SuperClusterStatus(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Fields of `SuperCluster.status` that other components read."""

    observed_generation: int = 0
    version: str = ""
    identity: str = ""
    """UID of the cluster's kube-system."""
    observed_identity: str = ""
    """UID of kube-system of the answering cluster, while it differs from `identity`."""
    nodes: int = 0
    """Number of nodes that are ready and accept pods."""
    capacity: dict[str, str] = {}
    """Total capacity of those nodes: cpu, memory, ephemeral-storage, pods."""
    network: ClusterRanges = ClusterRanges()
    losses: Losses | None = None
    """Written by the syncer. None while nothing is held."""
    conditions: tuple[dict[str, Any], ...] = ()


def build_accounts_namespace(home: str) -> str:
    """Return the namespace of one home cluster's ServiceAccounts in a target.

    `home` is the UID of that cluster's kube-system, because two home clusters may share a target.
    """
    return f"virtual-cluster-{home[:_SHORT_UID_CHARACTERS]}"


def build_namespace_role(accounts_namespace: str) -> str:
    """Return the name of the ClusterRole in a target with the syncer's rights to Secrets.

    `accounts_namespace` is the namespace of the home cluster's ServiceAccounts in the target.
    """
    return f"{wellknown.SYNCER_NAMESPACE_ROLE}:{accounts_namespace}"


def parse_spec(body: Mapping[str, Any]) -> SuperClusterSpec:
    """Return the typed view of a SuperCluster's spec. Raises SpecProblemError."""
    name = str(body["metadata"]["name"])
    spec = _convert_super_cluster(
        body.get("spec") or {}, SuperClusterSpec, f"SuperCluster {name}, spec"
    )
    if (spec.secret_ref is None) is not (name == HOME):
        raise InvalidSpecError(
            f"SuperCluster {name} must not have a secretRef, because it is the home cluster."
            " Remove it"
            if name == HOME
            else f"SuperCluster {name} has no Secret with credentials. Set spec.secretRef"
        )
    return spec


def parse_status(body: Mapping[str, Any]) -> SuperClusterStatus:
    """Return the typed view of a SuperCluster's status. Raises SpecProblemError."""
    where = f"SuperCluster {body['metadata']['name']}, status"
    return _convert_super_cluster(body.get("status") or {}, SuperClusterStatus, where)


def find_overlaps(mine: ClusterRanges, others: Mapping[str, ClusterRanges]) -> list[str]:
    """Return the ranges with two meanings: within a cluster, and between it and other clusters.

    The results are sentences without a full stop. Service ranges of two clusters may be the same,
    because their addresses have a meaning only inside each cluster. Invalid networks are ignored.
    """
    found = _find_shared(
        mine.pods, mine.services, "the pod range {} overlaps its own Service range {}"
    )
    for name, theirs in sorted(others.items()):
        found += _find_shared(mine.pods, theirs.pods, f"the pod range {{}} overlaps {{}} of {name}")
    return found


def _find_shared(left: Iterable[str], right: Iterable[str], sentence: str) -> list[str]:
    pairs = ((one, two) for one in _parse_networks(left) for two in _parse_networks(right))
    return [sentence.format(one, two) for one, two in pairs if one.overlaps(two)]


def _parse_networks(found: Iterable[str]) -> list[IPNetwork]:
    nets: list[IPNetwork] = []
    for text in found:
        try:
            nets.append(ipaddress.ip_network(text, strict=False))
        except ValueError:
            continue
    return nets


def _convert_super_cluster(value: Any, to: type[_T], where: str) -> _T:
    try:
        return msgspec.convert(value, to)
    except msgspec.ValidationError as problem:
        raise InvalidSpecError(f"{where}: {problem}") from problem
