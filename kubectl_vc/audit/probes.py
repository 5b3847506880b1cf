"""Tables of the probes: connections that a tenant attempts, and objects that it creates. Pure.

Each row has its expectation and its positive control. Must not know addresses or API clients.

Hazard: a row that expects a closed connection needs a control place from which the same address
must answer. Without it, a stopped server would pass for an isolated one.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from tenancy import wellknown
from tenancy.policies import TenantPolicySpec
from tenancy.resources import (
    ENDPOINT_SLICES,
    NAMESPACES,
    PERSISTENT_VOLUME_CLAIMS,
    PODS,
    SERVICES,
    Resource,
)


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
)
"""IPv4 addresses at which large clouds serve a machine's credentials, with the port."""

ETCD_PORTS = (2380, 2381)
"""Ports of an etcd pod besides the client port: peers, and metrics."""
ETCD_CLIENT_PORT = 2379
API_PORT = wellknown.API_SERVER_PORT


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditFacts:
    """The facts about policy and decoy that rows about objects need."""

    policy: TenantPolicySpec
    decoy_uid: str
    decoy_root: str
    decoy_pod_ip: str
    super_api_ip: str
    storage_class: str = ""
    """A StorageClass of the super cluster that the policy excludes. Empty without one."""
    runtime_class: str = ""
    """A RuntimeClass of the super cluster that the policy excludes. Empty without one."""


TenantObject = dict[str, Any]
SuperObject = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ObjectProbe:
    """One row: an object that a tenant creates, and the trait that its twin must not have."""

    name: str
    resource: Resource
    change: Callable[[AuditFacts], TenantObject]
    """The fields of the object besides its name."""
    is_hole: Callable[[SuperObject, AuditFacts], bool]
    """Whether a twin in the super cluster has the forbidden trait."""
    applies: Callable[[AuditFacts], bool] = lambda _: True
    """Whether the policy forbids it, and the super cluster has what it names."""


def _pod(**spec: Any) -> Callable[[AuditFacts], TenantObject]:
    return lambda _: {"spec": spec}


def _container(pod: SuperObject, *path: str) -> Any:
    found: Any = pod["spec"]["containers"][0]
    for key in path:
        found = (found or {}).get(key)
    return found


def _is_privileged(facts: AuditFacts) -> bool:
    return facts.policy.security.level == "privileged"


def _is_confined(facts: AuditFacts) -> bool:
    return not _is_privileged(facts)


def _host_namespace(word: str) -> ObjectProbe:
    """Return the row of a pod that asks for a namespace of its node, such as `Network`."""
    field = f"host{word}"
    return ObjectProbe(
        f"host-{word.lower()}",
        PODS,
        _pod(**{field: True}),
        lambda pod, _: bool(pod["spec"].get(field)),
        _is_confined,
    )


def _label(body: SuperObject, key: str) -> Any:
    return (body["metadata"].get("labels") or {}).get(key)


_PSA = "pod-security.kubernetes.io/enforce"

OBJECT_PROBES: tuple[ObjectProbe, ...] = (
    ObjectProbe(
        "host-path",
        PODS,
        _pod(volumes=[{"name": "host", "hostPath": {"path": "/etc"}}]),
        lambda pod, _: any("hostPath" in each for each in pod["spec"].get("volumes") or ()),
        _is_confined,
    ),
    _host_namespace("Network"),
    _host_namespace("PID"),
    _host_namespace("IPC"),
    ObjectProbe(
        "privileged-container",
        PODS,
        lambda _: {"container": {"securityContext": {"privileged": True}}},
        lambda pod, _: bool(_container(pod, "securityContext", "privileged")),
        _is_confined,
    ),
    ObjectProbe(
        "added-capability",
        PODS,
        lambda _: {"container": {"securityContext": {"capabilities": {"add": ["SYS_ADMIN"]}}}},
        lambda pod, _: bool(_container(pod, "securityContext", "capabilities", "add")),
        _is_confined,
    ),
    ObjectProbe(
        "host-port",
        PODS,
        lambda _: {"container": {"ports": [{"containerPort": 8080, "hostPort": 39871}]}},
        lambda pod, _: any("hostPort" in each for each in _container(pod, "ports") or ()),
        lambda facts: facts.policy.network.host_ports == "Refuse",
    ),
    ObjectProbe(
        "priority-class",
        PODS,
        _pod(priorityClassName="system-node-critical"),
        lambda pod, _: pod["spec"].get("priorityClassName") == "system-node-critical",
        lambda facts: not facts.policy.sync.priority_classes.matches("system-node-critical", {}),
    ),
    ObjectProbe(
        "runtime-class",
        PODS,
        lambda facts: {"spec": {"runtimeClassName": facts.runtime_class}},
        lambda pod, facts: pod["spec"].get("runtimeClassName") == facts.runtime_class,
        lambda facts: bool(facts.runtime_class),
    ),
    ObjectProbe(
        "storage-class",
        PERSISTENT_VOLUME_CLAIMS,
        lambda facts: {
            "spec": {
                "accessModes": ["ReadWriteOnce"],
                "resources": {"requests": {"storage": "1Mi"}},
                "storageClassName": facts.storage_class,
            }
        },
        lambda claim, facts: claim["spec"].get("storageClassName") == facts.storage_class,
        lambda facts: bool(facts.storage_class),
    ),
    ObjectProbe(
        "forged-owner-label",
        PODS,
        lambda facts: {
            "metadata": {
                "labels": {
                    wellknown.VC_UID: facts.decoy_uid,
                    wellknown.CLUSTER: facts.decoy_root,
                },
                "annotations": {
                    wellknown.VC_UID: facts.decoy_uid,
                    wellknown.CLUSTER: facts.decoy_root,
                },
            }
        },
        lambda pod, facts: (
            facts.decoy_uid
            in (_label(pod, wellknown.VC_UID), pod["metadata"]["annotations"].get(wellknown.VC_UID))
            or _label(pod, wellknown.CLUSTER) == facts.decoy_root
        ),
    ),
    ObjectProbe(
        "forged-namespace-label",
        NAMESPACES,
        lambda facts: {
            "metadata": {"labels": {_PSA: "privileged", wellknown.VC_UID: facts.decoy_uid}}
        },
        lambda namespace, facts: (
            (_label(namespace, _PSA) == "privileged" and not _is_privileged(facts))
            or _label(namespace, wellknown.VC_UID) == facts.decoy_uid
        ),
    ),
    ObjectProbe(
        "external-ip",
        SERVICES,
        lambda facts: {
            "spec": {"ports": [{"port": 443}], "externalIPs": [facts.super_api_ip]},
        },
        lambda service, _: bool(service["spec"].get("externalIPs")),
    ),
    ObjectProbe(
        "decoy-endpoint",
        ENDPOINT_SLICES,
        lambda facts: {
            "addressType": "IPv4",
            "endpoints": [{"addresses": [facts.decoy_pod_ip]}],
            "ports": [{"name": "", "port": 8080, "protocol": "TCP"}],
        },
        lambda found, facts: any(
            facts.decoy_pod_ip in each.get("addresses", ()) for each in found.get("endpoints") or ()
        ),
        lambda facts: facts.policy.network.endpoints != "Allow",
    ),
)
