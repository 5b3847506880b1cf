"""Objects as a real cluster leaves them: pods as a kubelet reports them, workloads, Leases."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from kubeio import Object

IMAGE = "registry.example/app:1"
SHORTAGE = "0/3 nodes are available: 3 Insufficient cpu. preemption: 0/3 nodes are available."
UNBOUND = "0/3 nodes are available: pod has unbound immediate PersistentVolumeClaims."


def ago(seconds: float) -> str:
    """Return a time before now."""
    return (datetime.now(UTC) - timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")


def condition(kind: str, status: str = "True", reason: str = "", message: str = "") -> Object:
    """Return a condition of a pod or node."""
    found = {"type": kind, "status": status, "lastTransitionTime": ago(600)}
    return (
        found | ({"reason": reason} if reason else {}) | ({"message": message} if message else {})
    )


def container(state: Object, *, name: str = "main", ready: bool = False, **more: Any) -> Object:
    """Return the status of a container."""
    return {
        "name": name,
        "image": IMAGE,
        "imageID": "",
        "ready": ready,
        "restartCount": 0,
        "state": state,
        **more,
    }


def ended(code: int, reason: str = "Error") -> Object:
    """Return the state of a container that ended."""
    times = {"startedAt": ago(60), "finishedAt": ago(30)}
    return {"terminated": {"exitCode": code, "reason": reason, **times}}


def waiting(reason: str, message: str = "") -> Object:
    """Return the state of a container that waits."""
    return {"waiting": {"reason": reason, "message": message}}


RUNNING = {"running": {"startedAt": "2026-01-01T00:00:00Z"}}
CREATING = waiting("ContainerCreating")


def status(
    phase: str, *states: Object, init: tuple[Object, ...] = (), ready: bool = False, **more: Any
) -> Object:
    """Return the status of a pod on a node, with all conditions of a kubelet."""
    word = "True" if ready else "False"
    reason = "" if ready else "ContainersNotReady"
    text = "" if ready else "containers with unready status: [main]"
    found = [
        condition("PodReadyToStartContainers"),
        condition("Initialized", "False" if init else "True"),
        condition("Ready", word, reason, text),
        condition("ContainersReady", word, reason, text),
        condition("PodScheduled"),
    ]
    return {
        "phase": phase,
        "startTime": ago(600),
        "conditions": found,
        "initContainerStatuses": list(init),
        "containerStatuses": list(states),
        **more,
    }


def running(**more: Any) -> Object:
    """Return the status of a pod that is ready."""
    return status("Running", container(RUNNING, ready=True, started=True), ready=True, **more)


def unready(**more: Any) -> Object:
    """Return the status of a pod whose container runs and is not ready."""
    return status("Running", container(RUNNING, started=True), **more)


def creating() -> Object:
    """Return the status of a pod whose container is being created."""
    return status("Pending", container(CREATING))


def unscheduled(message: str = SHORTAGE) -> Object:
    """Return the status of a pod that the scheduler cannot place."""
    found = [condition("PodScheduled", "False", "Unschedulable", message)]
    return {"phase": "Pending", "conditions": found}


def crashed(code: int, reason: str = "Error", name: str = "main") -> Object:
    """Return the status of a container that is restarted again and again."""
    text = f"back-off 5m0s restarting failed container={name}"
    return container(
        waiting("CrashLoopBackOff", text),
        name=name,
        lastState=ended(code, reason),
        restartCount=7,
    )


def pod(name: str, namespace: str, *, node: str = "", **spec: Any) -> Object:
    """Return a pod."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace, "labels": {"app": name}},
        "spec": {
            "containers": [{"name": "main", "image": IMAGE}],
            **({"nodeName": node} if node else {}),
            **spec,
        },
    }


def workload(kind: str, name: str, namespace: str, *, replicas: int = 1) -> Object:
    """Return a Deployment, ReplicaSet, StatefulSet or DaemonSet."""
    spec: Object = {
        "selector": {"matchLabels": {"app": name}},
        "template": {
            "metadata": {"labels": {"app": name}},
            "spec": {"containers": [{"name": "main", "image": IMAGE}]},
        },
    }
    if kind != "DaemonSet":
        spec["replicas"] = replicas
    if kind == "StatefulSet":
        spec["serviceName"] = name
    return {
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": {"name": name, "namespace": namespace},
        "spec": spec,
    }


def claim(name: str, namespace: str, storage_class: str | None = None) -> Object:
    """Return a PersistentVolumeClaim."""
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    named = {"storageClassName": storage_class} if storage_class is not None else {}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {**spec, **named},
    }


def lease_spec(seconds: float) -> Object:
    """Return the spec of a Lease that was renewed some seconds ago."""
    when = (datetime.now(UTC) - timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    return {"holderIdentity": "replica-1", "leaseDurationSeconds": 7, "renewTime": when}


def webhook(name: str, kind: str, **rules: Any) -> Object:
    """Return a webhook configuration whose Service does not exist."""
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": kind,
        "metadata": {"name": name},
        "webhooks": [
            {
                "name": f"{name}.example.com",
                "clientConfig": {"service": {"name": "gone", "namespace": "webhooks", "path": "/"}},
                "rules": [{"apiVersions": ["v1"], "operations": ["CREATE"], **rules}],
                "failurePolicy": "Fail",
                "sideEffects": "None",
                "admissionReviewVersions": ["v1"],
                "timeoutSeconds": 1,
            }
        ],
    }
