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
from vnagent.authz.client_identity import ClientIdentity
from vnagent.authz.pod_authorizer import OwnedPod, iterate_owned
from vnagent.authz.pod_list_parser import PodListError
from vnagent.nodeapi.json_filters import (
    read_bool,
    read_count,
    read_fields,
    read_list,
    read_number,
    read_text,
    read_time,
)

_CONTAINER_LISTS = ("initContainers", "containers", "ephemeralContainers")
_STATUS_LISTS = ("initContainerStatuses", "containerStatuses", "ephemeralContainerStatuses")
_ADDRESS_FIELDS = ("podIP", "podIPs")

_TERMINATED = read_fields(
    {
        "exitCode": read_number,
        "signal": read_number,
        "reason": read_text,
        "startedAt": read_time,
        "finishedAt": read_time,
        "containerID": read_text,
    }
)
_STATE = read_fields(
    {
        "waiting": read_fields({"reason": read_text}),
        "running": read_fields({"startedAt": read_time}),
        "terminated": _TERMINATED,
    }
)
_CONTAINER = read_fields({"name": read_text, "image": read_text})
_CONTAINER_STATUS = read_fields(
    {
        "name": read_text,
        "ready": read_bool,
        "started": read_bool,
        "restartCount": read_count,
        "image": read_text,
        "imageID": read_text,
        "containerID": read_text,
        "state": _STATE,
        "lastState": _STATE,
    }
)
_CONDITION = read_fields(
    {"type": read_text, "status": read_text, "lastTransitionTime": read_time, "reason": read_text}
)
_SPEC = read_fields(
    {"nodeName": read_text, **dict.fromkeys(_CONTAINER_LISTS, read_list(_CONTAINER))}
)
_STATUS = read_fields(
    {
        "phase": read_text,
        "startTime": read_time,
        "podIP": read_text,
        "podIPs": read_list(read_fields({"ip": read_text})),
        "conditions": read_list(_CONDITION),
        **dict.fromkeys(_STATUS_LISTS, read_list(_CONTAINER_STATUS)),
    }
)
_REF = read_fields({"name": read_text, "namespace": read_text, "uid": read_text})

_Show = Callable[[Mapping[str, Any], OwnedPod], dict[str, Any] | None]


def filter_pods(document: bytes, caller: ClientIdentity) -> bytes:
    """Return a kubelet's `/pods` list for one tenant. Raises PodListError."""
    return _encode_list(_iterate_own(document, caller, _reduce_pod))


def filter_running_pods(document: bytes, pods: Mapping[str, OwnedPod]) -> bytes:
    """Return a kubelet's `/runningpods/` list for these pods, which are keyed by super UID.

    The runtime's list has no annotations that identify a pod. Raises PodListError.
    """
    shown = []
    for item in pod_list_parser.iterate_items(document):
        ref = _REF(item.get("metadata")) if isinstance(item, dict) else None
        if ref is None:
            raise PodListError("the kubelet's list contains an object that is not a pod")
        pod = pods.get(ref.get("uid", ""))
        if pod is not None and pod.is_super_pod(ref.get("namespace"), ref.get("name")):
            shown.append(_reduce_pod(item, pod))
    return _encode_list(shown)


def build_running_pods(document: bytes, caller: ClientIdentity) -> bytes:
    """Return a list like a kubelet's `/runningpods/`, made from the API's list of pods.

    It has the fields of the runtime: names, and the containers that run now. Raises PodListError.
    """
    return _encode_list(_iterate_own(document, caller, _reduce_running_pod))


def _iterate_own(document: bytes, caller: ClientIdentity, show: _Show) -> Iterator[dict[str, Any]]:
    own = [
        (pod.key, show(item, pod))
        for item, pod in iterate_owned(document)
        if pod.belongs_to(caller)
    ]
    times = Counter(key for key, _ in own)
    # Two pods with one record belong to no tenant, as for logs.
    return (shown for key, shown in own if times[key] == 1 and shown is not None)


def _reduce_running_pod(item: Mapping[str, Any], pod: OwnedPod) -> dict[str, Any] | None:
    found = _list_running_containers(item)
    return _reduce_pod({"metadata": {}, "spec": {"containers": found}}, pod) if found else None


def _list_running_containers(item: Mapping[str, Any]) -> list[Any]:
    spec, status = _SPEC(item.get("spec")) or {}, _STATUS(item.get("status")) or {}
    found = [one for field in _STATUS_LISTS for one in status.get(field, ())]
    names = {one.get("name") for one in found if "running" in one.get("state", {})}
    return [
        one for field in _CONTAINER_LISTS for one in spec.get(field, ()) if one.get("name") in names
    ]


def _encode_list(pods: Iterable[dict[str, Any]]) -> bytes:
    return orjson.dumps(
        {"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": list(pods)}
    )


def _reduce_pod(item: Mapping[str, Any], pod: OwnedPod) -> dict[str, Any]:
    metadata = {"name": pod.name, "namespace": pod.tenant_namespace, "uid": pod.tenant_uid}
    labels = _filter_tenant_labels(item["metadata"])
    spec, status = _SPEC(item.get("spec")) or {}, _STATUS(item.get("status")) or {}
    for part in (spec, status):
        for field in (*_CONTAINER_LISTS, *_STATUS_LISTS):
            if field in part:
                part[field] = [one for one in part[field] if one.get("name") in pod.containers]
    if "conditions" in status:
        kinds = ((one, one.get("type", "")) for one in status["conditions"])
        status["conditions"] = [one for one, kind in kinds if not wellknown.is_reserved_key(kind)]
    if pod.is_on_host_network:
        status = {name: value for name, value in status.items() if name not in _ADDRESS_FIELDS}
    return {
        "metadata": {**metadata, **({"labels": labels} if labels else {})},
        "spec": spec,
        "status": status,
    }


def _filter_tenant_labels(metadata: Mapping[str, Any]) -> dict[str, str]:
    """Return the labels that the records name as the tenant's, under the tenant's keys."""
    try:
        there, records = metadata["labels"], metadata["annotations"]
        recorded, _ = orjson.loads(records[wellknown.SYNCED_KEYS])
        labels = {key: there[key] for key in recorded if key in there}
        for key in orjson.loads(records.get(wellknown.LABEL_KEYS, "[]")):
            labels[key] = there.get(wellknown.translate_label_key(key))
    except (AttributeError, LookupError, TypeError, ValueError):
        return {}
    return {key: value for key, value in labels.items() if read_text(value) is not None}
