"""Summary `/stats/summary` of one tenant's pods, with the tenant's names. Pure.

The module decides which metrics of a pod are its own. It must not know the caller. Hazard: metrics
of the node must be sums of this tenant's pods only. Otherwise free space, total use and waiting
work of the node would show the use of other tenants. Hazard: network metrics of a pod on the host's
network must not pass, because they count the packets of the node. Otherwise the tenant sees the
traffic of other tenants.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import orjson

from vnagent.authz.pod_authorizer import OwnedPod
from vnagent.nodeapi.cpu_counters import PodUsage, TotalFunction
from vnagent.nodeapi.json_filters import (
    cap_count,
    read_count,
    read_fields,
    read_list,
    read_text,
    read_time,
)
from vnagent.protocol.http_heads import InvalidResponseError

_CPU_FIELDS = {"time": read_time, "usageNanoCores": read_count, "usageCoreNanoSeconds": read_count}
# A container's `availableBytes` is the rest of its own limit.
_MEMORY_FIELDS = {
    "time": read_time,
    "availableBytes": read_count,
    "usageBytes": read_count,
    "workingSetBytes": read_count,
    "rssBytes": read_count,
    "pageFaults": read_count,
    "majorPageFaults": read_count,
}
_SWAP_FIELDS = {"time": read_time, "swapUsageBytes": read_count}
_FILE_SYSTEM_FIELDS = {"time": read_time, "usedBytes": read_count, "inodesUsed": read_count}
"""Fields of a file system that pods share."""
_INTERFACE_FIELDS = {
    "name": read_text,
    "rxBytes": read_count,
    "rxErrors": read_count,
    "txBytes": read_count,
    "txErrors": read_count,
}
_CLAIM_VOLUME_FIELDS = {
    **_FILE_SYSTEM_FIELDS,
    "name": read_text,
    "availableBytes": read_count,
    "capacityBytes": read_count,
    "inodesFree": read_count,
    "inodes": read_count,
}
"""Fields of a volume with a claim of the tenant. Other volumes are on the node's disk or not the
tenant's own.
"""

_CLAIM_REFERENCE = read_fields({"name": read_text, "namespace": read_text})
_VOLUME = read_fields(_CLAIM_VOLUME_FIELDS)
_CONTAINER = read_fields(
    {
        "name": read_text,
        "startTime": read_time,
        "cpu": read_fields(_CPU_FIELDS),
        "memory": read_fields(_MEMORY_FIELDS),
        "swap": read_fields(_SWAP_FIELDS),
        "rootfs": read_fields(_FILE_SYSTEM_FIELDS),
        "logs": read_fields(_FILE_SYSTEM_FIELDS),
    }
)
_POD = read_fields(
    {
        "startTime": read_time,
        "cpu": read_fields(_CPU_FIELDS),
        "memory": read_fields(_MEMORY_FIELDS),
        "swap": read_fields(_SWAP_FIELDS),
        "ephemeral-storage": read_fields(_FILE_SYSTEM_FIELDS),
        "process_stats": read_fields({"process_count": read_count}),
    }
)
_NETWORK = read_fields(
    {
        "time": read_time,
        **_INTERFACE_FIELDS,
        "interfaces": read_list(read_fields(_INTERFACE_FIELDS)),
    }
)
_NODE = read_fields({"nodeName": read_text, "startTime": read_time})

_SUMMED_FIELDS = {
    "cpu": ("usageNanoCores",),
    "memory": ("usageBytes", "workingSetBytes", "rssBytes"),
    "swap": ("swapUsageBytes",),
}


def filter_summary(document: bytes, pods: Mapping[str, OwnedPod], total: TotalFunction) -> bytes:
    """Return a summary of these pods only, which are keyed by super UID.

    Raises ResponseProblemError if the kubelet's answer is no summary.
    """
    try:
        summary = orjson.loads(document)
        node = _NODE(summary["node"])
        refs = [(item, item["podRef"]["uid"]) for item in summary["pods"] or ()]
        times = Counter(uid for _, uid in refs)
    except (orjson.JSONDecodeError, LookupError, TypeError) as error:
        raise InvalidResponseError("the node's kubelet returned no readable summary") from error
    if node is None:
        raise InvalidResponseError("the node's kubelet returned no readable summary")
    shown: dict[str, dict[str, Any]] = {}
    for item, uid in refs:
        pod = pods.get(uid)
        ref = item["podRef"]
        if (
            pod is None
            or times[uid] > 1
            or not pod.is_super_pod(ref.get("namespace"), ref.get("name"))
        ):
            continue
        shown[uid] = _reduce_pod(item, pod)
    used = {uid: _read_usage(found.get("cpu", {})) for uid, found in shown.items()}
    cpu_total = total({uid: figure for uid, figure in used.items() if figure is not None})
    own = list(shown.values())
    node |= {name: found for name in _SUMMED_FIELDS if (found := _sum_pods(name, own))}
    if "cpu" in node:
        node["cpu"]["usageCoreNanoSeconds"] = cpu_total
    return orjson.dumps({"node": node, "pods": own})


def _read_usage(cpu: Mapping[str, Any]) -> PodUsage | None:
    nanoseconds, time = cpu.get("usageCoreNanoSeconds"), cpu.get("time")
    if nanoseconds is None:
        return None
    return (
        PodUsage(nanoseconds, datetime.fromisoformat(time).timestamp())
        if time
        else PodUsage(nanoseconds)
    )


def _reduce_pod(item: Mapping[str, Any], pod: OwnedPod) -> dict[str, Any]:
    ref = {"name": pod.name, "namespace": pod.tenant_namespace, "uid": pod.tenant_uid}
    containers = read_list(_CONTAINER)(item.get("containers")) or []
    own = [container for container in containers if container.get("name") in pod.containers]
    found: dict[str, Any] = {"podRef": ref, "containers": own, **_POD(item)}
    if not pod.is_on_host_network and (network := _NETWORK(item.get("network"))):
        found["network"] = network
    volumes = item.get("volume")
    shown = [_reduce_volume(volume, pod) for volume in volumes] if isinstance(volumes, list) else []
    if any(shown):
        found["volume"] = [volume for volume in shown if volume]
    return found


def _reduce_volume(item: Any, pod: OwnedPod) -> dict[str, Any] | None:
    claim = _CLAIM_REFERENCE(item.get("pvcRef")) if isinstance(item, dict) else None
    if not claim or "name" not in claim or claim.get("namespace") != pod.super_namespace:
        return None
    found: dict[str, Any] = _VOLUME(item)
    return {**found, "pvcRef": {"name": claim["name"], "namespace": pod.tenant_namespace}}


def _sum_pods(name: str, pods: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    parts = [pod[name] for pod in pods if "time" in pod.get(name, {})]
    if not parts:
        return {}
    known = {key: [part[key] for part in parts if key in part] for key in _SUMMED_FIELDS[name]}
    sums = {key: cap_count(sum(values)) for key, values in known.items() if values}
    return {"time": max(part["time"] for part in parts), **sums}
