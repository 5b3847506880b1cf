"""Facts of `kubectl vc why` for tests: a sound tenant and pod, and the parts that faults change."""

from datetime import UTC, datetime, timedelta
from typing import Any

from kubectl_vc.diagnosis.object_facts import ObjectFacts, SuperFacts
from tenancy import wellknown

NOW = datetime(2026, 11, 28, 12, tzinfo=UTC)
OTHERS = "zz-others"
"""Part of every name in the super cluster that a tenant must not see."""
SUPER_NAMESPACE = f"{OTHERS}-default-b41df0-web-shop"


def ago(seconds: float) -> str:
    """Return a time before NOW."""
    return (NOW - timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")


def condition(kind: str, status: str = "True", reason: str = "", message: str = "") -> dict:
    """Return a condition."""
    return {
        "type": kind,
        "status": status,
        "reason": reason,
        "message": message,
        "lastTransitionTime": ago(300),
    }


SOUND_CONDITIONS = (
    wellknown.READY,
    wellknown.CERTIFICATES_READY,
    wellknown.ETCD_READY,
    wellknown.API_SERVER_READY,
    wellknown.CONTROLLER_MANAGER_READY,
    wellknown.DNS_READY,
)


def virtual_cluster(*changed: dict, spec: Any = (), annotations: Any = (), **metadata: Any) -> dict:
    """Return a VirtualCluster that is ready and synced, with some conditions changed."""
    found = {kind: condition(kind) for kind in SOUND_CONDITIONS}
    found[wellknown.SYNCED] = condition(wellknown.SYNCED, reason="Engaged")
    found |= {each["type"]: each for each in changed}
    return {
        "metadata": {
            "name": "web",
            "namespace": "default",
            "uid": "11111111-1111-1111-1111-111111111111",
            "generation": 1,
            "annotations": dict(annotations),
            **metadata,
        },
        "spec": {"clusterVersionName": "v1.36", **dict(spec)},
        "status": {"conditions": list(found.values())},
    }


def lease(seconds: float = 1) -> dict:
    """Return a Lease that was renewed some seconds ago."""
    spec = {"holderIdentity": "a", "leaseDurationSeconds": 7, "renewTime": ago(seconds)}
    return {"metadata": {"name": "vc-syncer"}, "spec": spec}


def node(ready: str = "True", message: str = "", name: str = "node-1") -> dict:
    """Return a node."""
    return {
        "metadata": {"name": name},
        "status": {"conditions": [condition("Ready", ready, "KubeletReady", message)]},
    }


def event(reason: str, message: str, *, syncer: bool = False, seconds: float = 60, **about) -> dict:
    """Return an Event about the pod."""
    component = wellknown.SYNCER if syncer else "kubelet"
    return {
        "metadata": {"name": f"web.{reason}"},
        "reason": reason,
        "message": message,
        "involvedObject": {"kind": "Pod", "name": "web", **about},
        "lastTimestamp": ago(seconds),
        "firstTimestamp": ago(seconds + 60),
        "source": {"component": component},
    }


def pod(
    *conditions: dict,
    phase: str = "Running",
    node_name: str = "node-1",
    containers: Any = None,
    init: Any = (),
    spec: Any = (),
    status: Any = (),
    **metadata: Any,
) -> dict:
    """Return a pod. Without other arguments it runs and is ready."""
    default = [{"name": "c", "ready": True, "state": {"running": {}}}]
    found = {each["type"]: each for each in (condition("PodScheduled"), condition("Ready"))}
    found |= {each["type"]: each for each in conditions}
    return {
        "metadata": {"name": "web", "namespace": "shop", "uid": "u", "creationTimestamp": ago(600)}
        | metadata,
        "spec": {
            "containers": [{"name": "c", "image": "busybox"}],
            "initContainers": [{"name": "i", "image": "busybox"}],
            **({"nodeName": node_name} if node_name else {}),
            **dict(spec),
        },
        "status": {
            "phase": phase,
            "conditions": list(found.values()),
            "containerStatuses": default if containers is None else containers,
            "initContainerStatuses": list(init),
            **dict(status),
        },
    }


NOT_READY = condition("Ready", "False", "ContainersNotReady")


def waiting(reason: str, message: str = "said", name: str = "c") -> dict:
    """Return the status of a container that waits."""
    return {
        "name": name,
        "ready": False,
        "state": {"waiting": {"reason": reason, "message": message}},
    }


def ended(code: int, reason: str = "Error", name: str = "c") -> dict:
    """Return the status of a container that is restarted after its end."""
    last = {"terminated": {"exitCode": code, "reason": reason, "finishedAt": ago(30)}}
    return {
        "name": name,
        "ready": False,
        "state": {"waiting": {"reason": "CrashLoopBackOff"}},
        "lastState": last,
    }


def pending(*conditions: dict, **parts: Any) -> dict:
    """Return a pod that is on its node and does not run."""
    return pod(NOT_READY, *conditions, phase="Pending", **parts)


def unscheduled(message: str = "0/3 nodes are available: 3 Insufficient cpu.") -> dict:
    """Return a pod without a node."""
    return pending(
        condition("PodScheduled", "False", "Unschedulable", message), node_name="", containers=[]
    )


def bare() -> dict:
    """Return a pod of a tenant that was never synced."""
    found = pod(phase="Pending", node_name="", containers=[])
    found["status"] = {"phase": "Pending"}
    return found


def claim(name: str = "data", phase: str = "Pending") -> dict:
    """Return a PersistentVolumeClaim."""
    return {"metadata": {"name": name, "namespace": "shop", "uid": "p"}, "status": {"phase": phase}}


def super_facts(copy: dict | None = None, **parts: Any) -> SuperFacts:
    """Return facts of a super cluster in which everything works."""
    values: dict[str, Any] = {
        "virtual_cluster": virtual_cluster(),
        "super_namespace": SUPER_NAMESPACE,
        "copy": copy,
        "syncer_lease": lease(),
        "node": node(),
        "agent_pod": {"metadata": {}, "status": {"conditions": [condition("Ready")]}},
    }
    return SuperFacts(**values | parts)


def facts(tenant_object: dict | None, found: SuperFacts | None = None, **parts: Any) -> ObjectFacts:
    """Return facts about the pod shop/web."""
    values: dict[str, Any] = {
        "kind": "Pod",
        "name": "web",
        "namespace": "shop",
        "now": NOW,
        "tenant_object": tenant_object,
        "tenant_namespace": {"metadata": {"name": "shop"}},
        "tenant_node": node(),
        "super_facts": found,
    }
    return ObjectFacts(**values | parts)


def both(body: dict, **parts: Any) -> ObjectFacts:
    """Return facts about a pod whose copy has the same state."""
    below = {key: parts.pop(key) for key in list(parts) if key in SuperFacts.__slots__}
    metadata = {**body["metadata"], "namespace": SUPER_NAMESPACE, "uid": "below"}
    return facts(body, super_facts({**body, "metadata": metadata}, **below), **parts)
