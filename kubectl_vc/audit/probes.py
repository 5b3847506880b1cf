"""Table of the packet probes: connections that a tenant attempts. Pure.

Each row has its expectation and its positive control. Must not know addresses or API clients.

Hazard: a row that expects a closed connection needs a control place from which the same address
must answer. Without it, a stopped server would pass for an isolated one.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from tenancy import wellknown


class Place(StrEnum):
    """A place from which connections are attempted."""

    TENANT_POD = "pod"
    TENANT_API = "API server"
    DECOY_POD = "decoy's pod"
    NODE = "node"
    """The network of the node that the address is on, or of any node for other addresses."""


class Answer(StrEnum):
    """The result of one connection attempt."""

    OPEN = "open"
    REFUSED = "refused"
    TIMEOUT = "timeout"
    MISSING = "no result"
    CHANGED = "changed"
    """The pod that ran is not the prober that the audit created, so its results prove nothing."""


class Target(StrEnum):
    """A set of addresses. `kubectl_vc.audit.addresses` finds them."""

    OWN_POD = "own Service"
    OWN_API = "own API server"
    OWN_ETCD = "own etcd"
    OWN_ETCD_METRICS = "own etcd, other ports"
    DECOY_POD = "decoy's pod"
    DECOY_SERVICE = "decoy's Service"
    DECOY_NODE_PORT = "decoy's node port"
    DECOY_API = "decoy's API server"
    DECOY_API_SERVICE = "decoy's API Service"
    DECOY_CONTROL_PLANE = "decoy's control plane"
    COMPONENT = "component"
    AGENT = "agent"
    SUPER_API = "super API server"
    SUPER_DNS = "super cluster's DNS"
    KUBELET = "kubelet"
    METADATA = "metadata address"


@dataclass(frozen=True, slots=True)
class PacketProbe:
    """One row: a connection from a place to each address of a target."""

    name: str
    source: Place
    target: Target
    expected: Answer
    control: Place | None = None
    """Place from which the same address must answer. None for an expected answer."""
    may_be_absent: bool = False
    """Whether a cluster may have no server at this address. Then the control proves its absence."""


def _closed(
    name: str, target: Target, control: Place, *, may_be_absent: bool = False
) -> tuple[PacketProbe, ...]:
    """Return the rows from a pod and from the API server. Neither may reach the target."""
    return tuple(
        PacketProbe(f"{name}-from-{word}", source, target, Answer.REFUSED, control, may_be_absent)
        for word, source in (("pod", Place.TENANT_POD), ("api", Place.TENANT_API))
    )


SOURCE_PROOFS: Mapping[Place, Target] = {
    Place.TENANT_POD: Target.OWN_API,
    Place.TENANT_API: Target.OWN_ETCD,
}
"""The target that a source must reach. Otherwise its closed connections prove nothing."""

PACKET_PROBES: tuple[PacketProbe, ...] = (
    PacketProbe("own-api-from-pod", Place.TENANT_POD, Target.OWN_API, Answer.OPEN),
    PacketProbe("own-service-from-pod", Place.TENANT_POD, Target.OWN_POD, Answer.OPEN),
    PacketProbe("own-etcd-from-api", Place.TENANT_API, Target.OWN_ETCD, Answer.OPEN),
    PacketProbe("own-etcd-from-pod", Place.TENANT_POD, Target.OWN_ETCD, Answer.REFUSED, Place.NODE),
    PacketProbe(
        "own-etcd-metrics-from-pod",
        Place.TENANT_POD,
        Target.OWN_ETCD_METRICS,
        Answer.REFUSED,
        Place.NODE,
        may_be_absent=True,
    ),
    *_closed("decoy-pod", Target.DECOY_POD, Place.DECOY_POD),
    *_closed("decoy-service", Target.DECOY_SERVICE, Place.DECOY_POD),
    *_closed("decoy-node-port", Target.DECOY_NODE_PORT, Place.NODE, may_be_absent=True),
    *_closed("decoy-api", Target.DECOY_API, Place.NODE),
    *_closed("decoy-api-service", Target.DECOY_API_SERVICE, Place.DECOY_POD),
    *_closed("decoy-control-plane", Target.DECOY_CONTROL_PLANE, Place.NODE, may_be_absent=True),
    *_closed("component", Target.COMPONENT, Place.NODE),
    PacketProbe("agent-from-pod", Place.TENANT_POD, Target.AGENT, Answer.REFUSED, Place.NODE),
    *_closed("super-api", Target.SUPER_API, Place.NODE),
    # Control planes may use it (`vcmanager.plan.network.root_policies`).
    PacketProbe(
        "super-dns-from-pod", Place.TENANT_POD, Target.SUPER_DNS, Answer.REFUSED, Place.NODE
    ),
    *_closed("kubelet", Target.KUBELET, Place.NODE),
    *_closed("metadata", Target.METADATA, Place.NODE, may_be_absent=True),
)

METADATA_ADDRESSES: tuple[tuple[str, int], ...] = (
    ("169.254.169.254", 80),  # AWS, Azure, Google, OpenStack, DigitalOcean, Hetzner, Oracle
    ("169.254.170.2", 80),  # credentials of AWS tasks
    ("169.254.170.23", 80),  # credentials of AWS pods
    ("100.100.100.200", 80),  # Alibaba
    ("168.63.129.16", 80),  # Azure's host agent
    ("192.0.0.192", 80),  # Oracle, older
    ("fd00:ec2::254", 80),  # AWS
    ("fd00:ec2::23", 80),  # credentials of AWS pods
    ("fd00:c1::a9fe:a9fe", 80),  # Oracle
    ("fd20:ce::254", 80),  # Google
    ("fd00:42::42", 80),  # Scaleway
)
"""Addresses at which large clouds serve a machine's credentials, with the port.

Link-local addresses of IPv6 are left out, because they need the name of a network interface.
"""

ETCD_PORTS = (2380, 2381)
"""Ports of an etcd pod besides the client port: peers, and metrics."""
ETCD_CLIENT_PORT = 2379
API_PORT = wellknown.API_SERVER_PORT
