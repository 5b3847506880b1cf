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
from vnagent.nodeapi.cpu_counters import Total, Used
from vnagent.nodeapi.json_filters import capped, count, each, fields, moment, text
from vnagent.protocol.http_heads import ResponseProblemError

_CPU = {"time": moment, "usageNanoCores": count, "usageCoreNanoSeconds": count}
# A container's `availableBytes` is the rest of its own limit.
_MEMORY = {
    "time": moment,
    "availableBytes": count,
    "usageBytes": count,
    "workingSetBytes": count,
    "rssBytes": count,
    "pageFaults": count,
    "majorPageFaults": count,
}
_SWAP = {"time": moment, "swapUsageBytes": count}
_USED = {"time": moment, "usedBytes": count, "inodesUsed": count}
"""Fields of a file system that pods share."""
_INTERFACE = {
    "name": text,
    "rxBytes": count,
    "rxErrors": count,
    "txBytes": count,
    "txErrors": count,
}
_CLAIMED = {
    **_USED,
    "name": text,
    "availableBytes": count,
    "capacityBytes": count,
    "inodesFree": count,
    "inodes": count,
}
"""Fields of a volume with a claim of the tenant. Other volumes are on the node's disk or not the
tenant's own.
"""

_CLAIM = fields({"name": text, "namespace": text})
_VOLUME = fields(_CLAIMED)
_CONTAINER = fields(
    {
        "name": text,
        "startTime": moment,
        "cpu": fields(_CPU),
        "memory": fields(_MEMORY),
        "swap": fields(_SWAP),
        "rootfs": fields(_USED),
        "logs": fields(_USED),
    }
)
_POD = fields(
    {
        "startTime": moment,
        "cpu": fields(_CPU),
        "memory": fields(_MEMORY),
        "swap": fields(_SWAP),
        "ephemeral-storage": fields(_USED),
        "process_stats": fields({"process_count": count}),
    }
)
_NETWORK = fields({"time": moment, **_INTERFACE, "interfaces": each(fields(_INTERFACE))})
_NODE = fields({"nodeName": text, "startTime": moment})

_SUMMED = {
    "cpu": ("usageNanoCores",),
    "memory": ("usageBytes", "workingSetBytes", "rssBytes"),
    "swap": ("swapUsageBytes",),
}


def reduce(document: bytes, pods: Mapping[str, OwnedPod], total: Total) -> bytes:
    """Return a summary of these pods only, which are keyed by super UID.

    Raises ResponseProblemError if the kubelet's answer is no summary.
    """
    try:
        summary = orjson.loads(document)
        node = _NODE(summary["node"])
        refs = [(item, item["podRef"]["uid"]) for item in summary["pods"] or ()]
        times = Counter(uid for _, uid in refs)
    except (orjson.JSONDecodeError, LookupError, TypeError) as error:
        raise ResponseProblemError("the node's kubelet gave no summary that can be read") from error
    if node is None:
        raise ResponseProblemError("the node's kubelet gave no summary that can be read")
    shown: dict[str, dict[str, Any]] = {}
    for item, uid in refs:
        pod = pods.get(uid)
        ref = item["podRef"]
        if pod is None or times[uid] > 1 or not pod.is_at(ref.get("namespace"), ref.get("name")):
            continue
        shown[uid] = _pod(item, pod)
    used = {uid: _used(found.get("cpu", {})) for uid, found in shown.items()}
    cpu_total = total({uid: figure for uid, figure in used.items() if figure is not None})
    own = list(shown.values())
    node |= {name: found for name in _SUMMED if (found := _sum(name, own))}
    if "cpu" in node:
        node["cpu"]["usageCoreNanoSeconds"] = cpu_total
    return orjson.dumps({"node": node, "pods": own})


def _used(cpu: Mapping[str, Any]) -> Used | None:
    nanoseconds, time = cpu.get("usageCoreNanoSeconds"), cpu.get("time")
    if nanoseconds is None:
        return None
    return (
        Used(nanoseconds, datetime.fromisoformat(time).timestamp()) if time else Used(nanoseconds)
    )


def _pod(item: Mapping[str, Any], pod: OwnedPod) -> dict[str, Any]:
    ref = {"name": pod.name, "namespace": pod.tenant_namespace, "uid": pod.tenant_uid}
    containers = each(_CONTAINER)(item.get("containers")) or []
    own = [container for container in containers if container.get("name") in pod.containers]
    found: dict[str, Any] = {"podRef": ref, "containers": own, **_POD(item)}
    if not pod.is_on_host_network and (network := _NETWORK(item.get("network"))):
        found["network"] = network
    volumes = item.get("volume")
    shown = [_volume(volume, pod) for volume in volumes] if isinstance(volumes, list) else []
    if any(shown):
        found["volume"] = [volume for volume in shown if volume]
    return found


def _volume(item: Any, pod: OwnedPod) -> dict[str, Any] | None:
    claim = _CLAIM(item.get("pvcRef")) if isinstance(item, dict) else None
    if not claim or "name" not in claim or claim.get("namespace") != pod.super_namespace:
        return None
    found: dict[str, Any] = _VOLUME(item)
    return {**found, "pvcRef": {"name": claim["name"], "namespace": pod.tenant_namespace}}


def _sum(name: str, pods: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    parts = [pod[name] for pod in pods if "time" in pod.get(name, {})]
    if not parts:
        return {}
    known = {key: [part[key] for part in parts if key in part] for key in _SUMMED[name]}
    sums = {key: capped(sum(values)) for key, values in known.items() if values}
    return {"time": max(part["time"] for part in parts), **sums}
