"""Table of the object probes: objects that a tenant creates, and traits of twins. Pure."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tenancy import wellknown
from tenancy.policies import TenantPolicySpec
from tenancy.resources import (
    ENDPOINT_SLICES,
    NAMESPACES,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    PODS,
    SERVICES,
    Resource,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditFacts:
    """The facts about policy and decoy that rows about objects need."""

    policy: TenantPolicySpec
    decoy_uid: str
    decoy_root: str
    decoy_pod_ips: Sequence[str]
    super_api_ips: Sequence[str]
    """Addresses of one object, at most one of each IP family."""
    storage_class: str = ""
    """A StorageClass of the super cluster that the policy excludes. Empty without one."""
    runtime_class: str = ""
    """A RuntimeClass of the super cluster that the policy excludes. Empty without one."""


_IPV4, _IPV6 = 4, 6
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


def _pod_context(**fields: Any) -> Callable[[AuditFacts], TenantObject]:
    return lambda _: {"spec": {"securityContext": fields}}


def _container_context(**fields: Any) -> Callable[[AuditFacts], TenantObject]:
    return lambda _: {"container": {"securityContext": fields}}


def _iterate_contexts(pod: SuperObject) -> Iterator[Mapping[str, Any]]:
    """Yield the security contexts of a pod and of all its containers."""
    yield pod["spec"].get("securityContext") or {}
    for field in ("initContainers", "containers"):
        for container in pod["spec"].get(field) or ():
            yield container.get("securityContext") or {}


def _has_profile(field: str, kind: str) -> Callable[[SuperObject, AuditFacts], bool]:
    """Return whether a pod has a seccomp or AppArmor profile of a type."""
    return lambda pod, _: any(
        (each.get(field) or {}).get("type") == kind for each in _iterate_contexts(pod)
    )


def _has_super_token(pod: SuperObject, _: AuditFacts) -> bool:
    """Return whether a kubelet would mount a token of the super cluster into a pod."""
    sources = (
        source
        for volume in pod["spec"].get("volumes") or ()
        for source in (volume.get("projected") or {}).get("sources") or ()
    )
    mounts_token = pod["spec"].get("automountServiceAccountToken") is not False
    return mounts_token or any("serviceAccountToken" in each for each in sources)


def _endpoint(
    name: str, port: int, get_addresses: Callable[[AuditFacts], Sequence[str]], family: int
) -> ObjectProbe:
    """Return the row of an EndpointSlice with a forbidden address of an IP family."""

    def find(facts: AuditFacts) -> str:
        listed = get_addresses(facts)
        return next((each for each in listed if (":" in each) == (family == _IPV6)), "")

    return ObjectProbe(
        name,
        ENDPOINT_SLICES,
        lambda facts: {
            "addressType": f"IPv{family}",
            "endpoints": [{"addresses": [find(facts)]}],
            "ports": [{"name": "", "port": port, "protocol": "TCP"}],
        },
        lambda found, facts: any(
            find(facts) in each.get("addresses", ()) for each in found.get("endpoints") or ()
        ),
        lambda facts: facts.policy.network.endpoints != "Allow" and bool(find(facts)),
    )


def _volume(name: str, **spec: Any) -> ObjectProbe:
    """Return the row of a volume with a path of a node, to which a claim of this name is bound."""
    source = next(iter(spec))
    return ObjectProbe(
        name,
        PERSISTENT_VOLUMES,
        lambda _: {
            "spec": {
                "accessModes": ["ReadWriteOnce"],
                "capacity": {"storage": "1Mi"},
                "persistentVolumeReclaimPolicy": "Retain",
                "storageClassName": "",
                **spec,
            }
        },
        lambda volume, _: source in volume["spec"],
        _is_confined,
    )


_ANY_NODE = {"key": "kubernetes.io/os", "operator": "In", "values": ["linux"]}
_PSA = "pod-security.kubernetes.io/enforce"

OBJECT_PROBES: tuple[ObjectProbe, ...] = (
    ObjectProbe(
        "host-path",
        PODS,
        _pod(volumes=[{"name": "host", "hostPath": {"path": "/etc"}}]),
        lambda pod, _: any("hostPath" in each for each in pod["spec"].get("volumes") or ()),
        _is_confined,
    ),
    _volume("host-path-volume", hostPath={"path": "/etc"}),
    _volume(
        "local-volume",
        local={"path": "/etc"},
        nodeAffinity={"required": {"nodeSelectorTerms": [{"matchExpressions": [_ANY_NODE]}]}},
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
            "spec": {"ports": [{"port": 443}], "externalIPs": list(facts.super_api_ips)},
        },
        lambda service, _: bool(service["spec"].get("externalIPs")),
        lambda facts: bool(facts.super_api_ips),
    ),
    _endpoint("decoy-endpoint", 8080, lambda facts: facts.decoy_pod_ips, _IPV4),
    _endpoint("decoy-endpoint-ipv6", 8080, lambda facts: facts.decoy_pod_ips, _IPV6),
    _endpoint("super-api-endpoint", 443, lambda facts: facts.super_api_ips, _IPV4),
    _endpoint("super-api-endpoint-ipv6", 443, lambda facts: facts.super_api_ips, _IPV6),
    ObjectProbe(
        "node-port",
        SERVICES,
        lambda _: {"spec": {"type": "NodePort", "ports": [{"port": 80}]}},
        lambda service, _: service["spec"].get("type") == "NodePort",
        lambda facts: "NodePort" not in facts.policy.network.service_types,
    ),
    ObjectProbe(
        "nfs-volume",
        PODS,
        _pod(volumes=[{"name": "far", "nfs": {"server": "192.0.2.1", "path": "/"}}]),
        lambda pod, _: any("nfs" in each for each in pod["spec"].get("volumes") or ()),
        _is_confined,
    ),
    ObjectProbe(
        "unsafe-sysctl",
        PODS,
        _pod_context(sysctls=[{"name": "kernel.msgmax", "value": "65536"}]),
        lambda pod, _: any(each.get("sysctls") for each in _iterate_contexts(pod)),
        _is_confined,
    ),
    ObjectProbe(
        "proc-mount",
        PODS,
        lambda _: {
            "spec": {"hostUsers": False},
            "container": {"securityContext": {"procMount": "Unmasked"}},
        },
        lambda pod, _: any(each.get("procMount") == "Unmasked" for each in _iterate_contexts(pod)),
        _is_confined,
    ),
    ObjectProbe(
        "unconfined-seccomp",
        PODS,
        _pod_context(seccompProfile={"type": "Unconfined"}),
        _has_profile("seccompProfile", "Unconfined"),
        _is_confined,
    ),
    ObjectProbe(
        "profile-of-node",
        PODS,
        _container_context(seccompProfile={"type": "Localhost", "localhostProfile": "a.json"}),
        _has_profile("seccompProfile", "Localhost"),
        _is_confined,
    ),
    ObjectProbe(
        "unconfined-apparmor",
        PODS,
        _container_context(appArmorProfile={"type": "Unconfined"}),
        _has_profile("appArmorProfile", "Unconfined"),
        _is_confined,
    ),
    ObjectProbe(
        "selinux-type",
        PODS,
        _container_context(seLinuxOptions={"type": "spc_t"}),
        lambda pod, _: any(
            (each.get("seLinuxOptions") or {}).get("type") == "spc_t"
            for each in _iterate_contexts(pod)
        ),
        _is_confined,
    ),
    ObjectProbe(
        "privileged-init-container",
        PODS,
        _pod(
            initContainers=[
                {"name": "first", "image": "busybox", "securityContext": {"privileged": True}}
            ]
        ),
        lambda pod, _: any(each.get("privileged") for each in _iterate_contexts(pod)),
        _is_confined,
    ),
    ObjectProbe(
        "super-token",
        PODS,
        _pod(automountServiceAccountToken=True),
        _has_super_token,
    ),
)
