"""Lists `/pods` and `/runningpods/` of one tenant on the node, with the tenant's names. Pure.

The lists are a reduced form of the kubelet's. The metadata has name, namespace, UID and the labels
that the tenant wrote. The spec has the node's name and the containers' names and images. The status
has phase, addresses, times, conditions and container states without messages. All other fields of a
super pod were created or changed by the sync to the super cluster, or added by the super cluster.
Examples are volumes under other names, tokens, variables and the syncer's annotations. The whole
pod is in the tenant's own API. Hazard: the lists must show only containers that the tenant wrote,
and no address of a pod on the host's network. Otherwise a tenant could see the address of a node
that is hidden from it.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import orjson

from tenancy import wellknown
from vnagent.authz import pod_list_parser
from vnagent.authz.pod_authorizer import OwnedPod, owned_items
from vnagent.authz.pod_list_parser import PodListError
from vnagent.nodeapi.json_filters import count, each, fields, moment, number, switch, text

_CONTAINERS = ("initContainers", "containers", "ephemeralContainers")
_STATUSES = ("initContainerStatuses", "containerStatuses", "ephemeralContainerStatuses")
_ADDRESSES = ("podIP", "podIPs")

_ENDED = fields(
    {
        "exitCode": number,
        "signal": number,
        "reason": text,
        "startedAt": moment,
        "finishedAt": moment,
        "containerID": text,
    }
)
_STATE = fields(
    {
        "waiting": fields({"reason": text}),
        "running": fields({"startedAt": moment}),
        "terminated": _ENDED,
    }
)
_CONTAINER = fields({"name": text, "image": text})
_CONTAINER_STATUS = fields(
    {
        "name": text,
        "ready": switch,
        "started": switch,
        "restartCount": count,
        "image": text,
        "imageID": text,
        "containerID": text,
        "state": _STATE,
        "lastState": _STATE,
    }
)
_CONDITION = fields({"type": text, "status": text, "lastTransitionTime": moment, "reason": text})
_SPEC = fields({"nodeName": text, **dict.fromkeys(_CONTAINERS, each(_CONTAINER))})
_STATUS = fields(
    {
        "phase": text,
        "startTime": moment,
        "podIP": text,
        "podIPs": each(fields({"ip": text})),
        "conditions": each(_CONDITION),
        **dict.fromkeys(_STATUSES, each(_CONTAINER_STATUS)),
    }
)
_REF = fields({"name": text, "namespace": text, "uid": text})

_Show = Callable[[Mapping[str, Any], OwnedPod], dict[str, Any] | None]


def bound(document: bytes, vc_uid: str) -> bytes:
    """Return a kubelet's `/pods` list for one tenant. Raises PodListError."""
    return _listed(_own(document, vc_uid, _shown))


def running(document: bytes, pods: Mapping[str, OwnedPod]) -> bytes:
    """Return a kubelet's `/runningpods/` list for these pods, which are keyed by super UID.

    The runtime's list has no annotations that identify a pod. Raises PodListError.
    """
    shown = []
    for item in pod_list_parser.items(document):
        ref = _REF(item.get("metadata")) if isinstance(item, dict) else None
        if ref is None:
            raise PodListError("the kubelet lists what is no pod")
        pod = pods.get(ref.get("uid", ""))
        if pod is not None and pod.is_at(ref.get("namespace"), ref.get("name")):
            shown.append(_shown(item, pod))
    return _listed(shown)


def bound_and_running(document: bytes, vc_uid: str) -> bytes:
    """Return a list like a kubelet's `/runningpods/`, made from the API's list of pods.

    It has the fields of the runtime: names, and the containers that run now. Raises PodListError.
    """
    return _listed(_own(document, vc_uid, _shown_running))


def _own(document: bytes, vc_uid: str, show: _Show) -> Iterator[dict[str, Any]]:
    own = [
        (pod.key, show(item, pod)) for item, pod in owned_items(document) if pod.vc_uid == vc_uid
    ]
    times = Counter(key for key, _ in own)
    # Two pods with one record belong to no tenant, as for logs.
    return (shown for key, shown in own if times[key] == 1 and shown is not None)


def _shown_running(item: Mapping[str, Any], pod: OwnedPod) -> dict[str, Any] | None:
    found = _running_containers(item)
    return _shown({"metadata": {}, "spec": {"containers": found}}, pod) if found else None


def _running_containers(item: Mapping[str, Any]) -> list[Any]:
    spec, status = _SPEC(item.get("spec")) or {}, _STATUS(item.get("status")) or {}
    found = [one for field in _STATUSES for one in status.get(field, ())]
    names = {one.get("name") for one in found if "running" in one.get("state", {})}
    return [one for field in _CONTAINERS for one in spec.get(field, ()) if one.get("name") in names]


def _listed(pods: Iterable[dict[str, Any]]) -> bytes:
    return orjson.dumps(
        {"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": list(pods)}
    )


def _shown(item: Mapping[str, Any], pod: OwnedPod) -> dict[str, Any]:
    metadata = {"name": pod.name, "namespace": pod.tenant_namespace, "uid": pod.tenant_uid}
    labels = _labels(item["metadata"])
    spec, status = _SPEC(item.get("spec")) or {}, _STATUS(item.get("status")) or {}
    for part in (spec, status):
        for field in (*_CONTAINERS, *_STATUSES):
            if field in part:
                part[field] = [one for one in part[field] if one.get("name") in pod.containers]
    if "conditions" in status:
        kinds = ((one, one.get("type", "")) for one in status["conditions"])
        status["conditions"] = [one for one, kind in kinds if not wellknown.is_reserved(kind)]
    if pod.is_on_host_network:
        status = {name: value for name, value in status.items() if name not in _ADDRESSES}
    return {
        "metadata": {**metadata, **({"labels": labels} if labels else {})},
        "spec": spec,
        "status": status,
    }


def _labels(metadata: Mapping[str, Any]) -> dict[str, str]:
    """Return the labels that the record names as the tenant's."""
    try:
        recorded, _ = orjson.loads(metadata["annotations"][wellknown.KEYS])
        labels = {key: metadata["labels"][key] for key in recorded if key in metadata["labels"]}
    except (LookupError, TypeError, ValueError):
        return {}
    return {key: value for key, value in labels.items() if text(value) is not None}
