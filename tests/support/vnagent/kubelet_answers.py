"""Answers of a kubelet for a node with pods of two tenants and of the super cluster."""

import json
from datetime import UTC, datetime
from typing import Any

from tenancy import wellknown
from vnagent.authz.client_identity import ClientIdentity
from vnagent.authz.pod_authorizer import OwnedPod

ONE, TWO = "1111abcd-0000-4000-8000-000000000000", "22222222-0000-4000-8000-000000000000"
THEN, LATER = "2026-11-22T17:00:00Z", "2026-11-22T17:00:07Z"
SECRETS = ("guest", "mesh", "kube-system", "default-b41df0", "etcd", "999999", "kubelet", "psi")
"""Words that no answer to the first tenant may contain."""


def uid(number: int) -> str:
    """Return a UID of a super pod."""
    return f"bbbbbbbb-0000-4000-8000-{number:012d}"


def tenant_uid(number: int) -> str:
    """Return a UID of a tenant's pod."""
    return f"aaaaaaaa-0000-4000-8000-{number:012d}"


def caller(vc_uid: str = ONE) -> ClientIdentity:
    """Return a tenant, with the root namespace that its certificate names."""
    root = "default-b41df0-two" if vc_uid == TWO else "default-b41df0-one"
    return ClientIdentity(vc_uid, root, datetime.max.replace(tzinfo=UTC))


def owned(number: int = 1, **other: Any) -> OwnedPod:
    """Return a pod of the first tenant."""
    usual = {
        "vc_uid": ONE,
        "tenant_namespace": "web",
        "tenant_uid": tenant_uid(number),
        "name": "shop",
        "super_namespace": "default-b41df0-one-web",
        "super_uid": uid(number),
        "containers": frozenset({"main", "side"}),
        "is_on_host_network": False,
    }
    return OwnedPod(**(usual | other))


def by_uid(*pods: OwnedPod) -> dict[str, OwnedPod]:
    """Return pods as the gate hands them out."""
    return {pod.super_uid: pod for pod in pods}


def listed(pod: OwnedPod, **metadata: Any) -> dict[str, Any]:
    """Return a pod as `/pods` lists it, with all that the super cluster made of it."""
    labels = {
        "app": "shop",
        "tier": "web",
        "mesh-injected": "yes",
        wellknown.CLUSTER: "default-b41df0",
    }
    running = {"running": {"startedAt": THEN}}
    failed = {"exitCode": 137, "reason": "OOMKilled", "message": "in default-b41df0-one-web"}
    containers = [*sorted(pod.containers), "mesh"]
    statuses = [
        {"name": name, "ready": True, "restartCount": 1, "image": f"i/{name}", "state": running}
        for name in containers
    ]
    statuses[0] |= {"lastState": {"terminated": failed}, "allocatedResources": {"cpu": "1"}}
    annotations = {
        wellknown.VC_UID: pod.vc_uid,
        wellknown.UID: pod.tenant_uid,
        wellknown.NAMESPACE: pod.tenant_namespace,
        wellknown.CONTAINERS: ",".join(sorted(pod.containers)),
        wellknown.SYNCED_KEYS: '[["app","tier","gone"],["note"]]',
        "note": "a note",
    }
    return {
        "metadata": {
            "name": pod.name,
            "namespace": pod.super_namespace,
            "uid": pod.super_uid,
            "labels": labels,
            "annotations": annotations,
            "managedFields": [{"manager": "guest"}],
            **metadata,
        },
        "spec": {
            "nodeName": "n1",
            "hostNetwork": pod.is_on_host_network,
            "serviceAccountName": "vc-workload",
            "volumes": [{"name": "t", "secret": {"secretName": "vc-token-abc"}}],
            "containers": [
                {"name": name, "image": f"i/{name}", "env": [{"name": "K", "value": "guest"}]}
                for name in containers
            ],
        },
        "status": {
            "phase": "Running",
            "hostIP": "192.0.2.1",
            "podIP": "10.0.0.9",
            "podIPs": [{"ip": "10.0.0.9"}],
            "qosClass": "Burstable",
            "message": "in default-b41df0-one-web",
            "conditions": [
                {"type": f"{wellknown.DOMAIN}/gate", "status": "True"},
                {
                    "type": "Ready",
                    "status": "True",
                    "message": "on guest",
                    "lastTransitionTime": THEN,
                },
            ],
            "containerStatuses": statuses,
        },
    }


def pod_list(*items: Any) -> bytes:
    """Return an answer of `/pods` or `/runningpods/`."""
    return json.dumps({"kind": "PodList", "apiVersion": "v1", "items": list(items)}).encode()


def with_news(document: bytes) -> bytes:
    """Return an answer of a later kubelet, with new fields wherever they can be."""

    def grown(value: Any) -> Any:
        match value:
            case dict():
                news = {"news": "guest", "newer": {"time": THEN, "name": "guest"}}
                return {key: grown(inner) for key, inner in value.items()} | news
            case list():
                return [*map(grown, value), "guest", ["guest"], 999999]
            case _:
                return value

    read = json.loads(document)
    top = {key: grown(value) for key, value in read.items() if key not in ("items", "pods")}
    lists = {key: [*map(grown, read[key])] for key in ("items", "pods") if key in read}
    return json.dumps({**top, **lists, "news": "guest"}).encode()


def used(number: int, time: str = THEN) -> dict[str, Any]:
    """Return figures of something, by a number that is found again."""
    psi = {"full": {"total": 999999, "avg10": 1.5}}
    disk = {"time": time, "usedBytes": number, "inodesUsed": number}
    return {
        "startTime": THEN,
        "cpu": {
            "time": time,
            "usageNanoCores": number,
            "usageCoreNanoSeconds": number * 1_000_000_000,
            "psi": psi,
        },
        "memory": {"time": time, "workingSetBytes": number * 1000, "rssBytes": number, "psi": psi},
        "swap": {"time": time, "swapUsageBytes": number, "swapAvailableBytes": 999999},
        "io": {"time": time, "psi": psi},
        "disk": disk | {"availableBytes": 999999, "capacityBytes": 999999, "inodesFree": 999999},
    }


def pod_figures(pod: OwnedPod, number: int, time: str = THEN) -> dict[str, Any]:
    """Return the summary of a pod with a container that was injected."""
    figures = used(number, time)
    disk = figures.pop("disk")
    containers = []
    for name in (*sorted(pod.containers), "mesh"):
        inner = used(number, time)
        inner |= {"name": name, "rootfs": inner["disk"], "logs": inner.pop("disk")}
        containers.append(inner | {"userDefinedMetrics": [{"name": "guest"}]})
    claim = {"name": "data", "namespace": pod.super_namespace}
    eth0 = {"name": "eth0", "rxBytes": number, "txBytes": number}
    return {
        "podRef": {"name": pod.name, "namespace": pod.super_namespace, "uid": pod.super_uid},
        **figures,
        "containers": containers,
        "network": {"time": time, **eth0, "interfaces": [eth0]},
        "volume": [
            {**disk, "name": "scratch-guest"},
            {**disk, "name": "data", "capacityBytes": 4096, "availableBytes": 1, "inodesFree": 2}
            | {"pvcRef": claim},
        ],
        "ephemeral-storage": disk,
        "process_stats": {"process_count": number},
    }


def summary(*pods: Any) -> bytes:
    """Return an answer of `/stats/summary`."""
    node = used(999999)
    node |= {
        "nodeName": "n1",
        "fs": node.pop("disk"),
        "systemContainers": [{"name": "kubelet", **used(999999)}],
        "runtime": {"imageFs": {"usedBytes": 999999}},
        "rlimit": {"maxpid": 999999, "curproc": 999999},
        "network": {"name": "eth0", "rxBytes": 999999},
    }
    return json.dumps({"node": node, "pods": list(pods)}).encode()
