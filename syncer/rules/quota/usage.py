"""Usage of a super object in the resource names of a quota, as Kubernetes' evaluators count it.

Pure. Source: `pkg/quota/v1/evaluator/core` of Kubernetes. `bytes/` and `count/namespaces` have no
counterpart there. Devices are in `syncer.rules.quota.device_usage`. Must not know limits.

Hazard: the usage before a create must not be lower than that of the created object. Otherwise
parallel creates exceed the quota.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from kubeio import Object
from kubeio.cache.store import Entry
from syncer.model.diff import apply_merge_patch
from syncer.model.rejections import MALFORMED_OBJECT_ERRORS
from syncer.model.unstructured import as_mapping, as_mappings
from syncer.rules.configuration import cache_transforms
from syncer.rules.quota import device_usage, pod_usage
from syncer.rules.quota.pod_usage import NO_DEFAULTS, DefaultResources
from tenancy.policy.quotas import (
    BYTES_PREFIX,
    COUNT_PREFIX,
    COUNTED_PLURALS,
    STORAGE_CLASS_SUFFIX,
    THOUSANDTHS,
    parse_amount,
)
from tenancy.sync_rules.status_rules import RESOURCE_CLAIM

Usage = Mapping[str, int]
"""Thousandths by resource name."""
NOTHING: Usage = MappingProxyType({})

MIN_OBJECT_BYTES = 4096
"""Bytes that a smaller ConfigMap or Secret counts. Otherwise empty ones would count nothing."""
COUNTED_KINDS = frozenset(COUNTED_PLURALS)
_BETA_CLASS = "volume.beta.kubernetes.io/storage-class"
_RESIZE_MARK = b'"PodResize'
_TERMINAL_MARKS = (b'"phase":"Succeeded"', b'"phase":"Failed"')


def compute_usage(
    kind: str, found: Mapping[str, Any], defaults: DefaultResources = NO_DEFAULTS
) -> Usage:
    """Return the usage of a super object. An object without the form of the API is only counted."""
    plural = COUNTED_PLURALS.get(kind)
    if plural is None:
        return NOTHING
    usage = {f"{COUNT_PREFIX}{plural}": THOUSANDTHS}
    try:
        if kind == "Pod":
            return usage | pod_usage.compute_pod_usage(found, defaults)
        build = _BY_KIND.get(kind)
        return usage | build(found) if build is not None else usage
    except MALFORMED_OBJECT_ERRORS:
        return usage


def add_overhead(
    pod: Mapping[str, Any], get_overhead: Callable[[str], Object]
) -> Mapping[str, Any]:
    """Return a pod with the overhead of its RuntimeClass, which the super cluster adds."""
    spec = as_mapping(pod.get("spec"))
    name = spec.get("runtimeClassName")
    if not isinstance(name, str) or not name or spec.get("overhead"):
        return pod
    return {**pod, "spec": {**spec, "overhead": get_overhead(name)}}


def must_decode(kind: str) -> bool:
    """Return whether the usage of a kind depends on the contents of its objects."""
    return kind == "Pod" or kind in _BY_KIND


def _count_config_map(found: Mapping[str, Any]) -> dict[str, int]:
    return _count_values("configmaps", found)


def _count_secret(found: Mapping[str, Any]) -> dict[str, int]:
    return _count_values("secrets", found)


def _count_values(plural: str, found: Mapping[str, Any]) -> dict[str, int]:
    size = max(cache_transforms.measure_bytes(found), MIN_OBJECT_BYTES)
    return {plural: THOUSANDTHS, f"{BYTES_PREFIX}{plural}": size * THOUSANDTHS}


def _count_service(service: Mapping[str, Any]) -> dict[str, int]:
    spec = as_mapping(service.get("spec"))
    ports, kind = as_mappings(spec.get("ports")), spec.get("type")
    usage = {"services": THOUSANDTHS}
    if kind == "LoadBalancer":
        usage["services.loadbalancers"] = THOUSANDTHS
        if spec.get("allocateLoadBalancerNodePorts") is False:
            ports = [port for port in ports if port.get("nodePort")]
    if kind in ("LoadBalancer", "NodePort"):
        usage["services.nodeports"] = len(ports) * THOUSANDTHS
    return usage


def _count_claim(claim: Mapping[str, Any]) -> dict[str, int]:
    spec, status = as_mapping(claim.get("spec")), as_mapping(claim.get("status"))
    requests = as_mapping(as_mapping(spec.get("resources")).get("requests"))
    allocated = as_mapping(status.get("allocatedResources"))
    amount = max(parse_amount(each.get("storage")) for each in (requests, allocated))
    notes = as_mapping(as_mapping(claim.get("metadata")).get("annotations"))
    name = notes.get(_BETA_CLASS) or spec.get("storageClassName")
    return {"persistentvolumeclaims": THOUSANDTHS} | _count_storage(
        name, {"requests.storage": amount, "persistentvolumeclaims": THOUSANDTHS}
    )


def compute_volume_usage(volume: Mapping[str, Any]) -> Usage:
    """Return the usage of a volume that its deleted claim left, because its policy is Retain."""
    spec = as_mapping(volume.get("spec"))
    amount = parse_amount(as_mapping(spec.get("capacity")).get("storage"))
    return _count_storage(spec.get("storageClassName"), {"requests.storage": amount})


def _count_storage(class_name: Any, amounts: Mapping[str, int]) -> dict[str, int]:
    """Return amounts for all classes together, and for one class."""
    found = {"requests.storage": amounts["requests.storage"]}
    if isinstance(class_name, str) and class_name:
        found |= {
            f"{class_name}{STORAGE_CLASS_SUFFIX}{name}": amount for name, amount in amounts.items()
        }
    return found


_BY_KIND: Mapping[str, Callable[[Mapping[str, Any]], dict[str, int]]] = {
    "ConfigMap": _count_config_map,
    "Secret": _count_secret,
    "Service": _count_service,
    "PersistentVolumeClaim": _count_claim,
    RESOURCE_CLAIM: device_usage.compute_device_usage,
}


def is_usage_unchanged(kind: str, old: Entry, new: Entry) -> bool:
    """Return whether an event certainly leaves the usage of an object unchanged.

    Most events of pods change only the status. They are not decoded.
    """
    if not must_decode(kind) or kind == RESOURCE_CLAIM:  # no API server changes its spec
        return True
    if kind != "Pod" or not new.generation or old.generation != new.generation:
        return False
    return (
        _is_marked_terminal(old) == _is_marked_terminal(new)
        and _RESIZE_MARK not in old.body
        and _RESIZE_MARK not in new.body
    )


def _is_marked_terminal(pod: Entry) -> bool:
    """Return whether a pod has ended, by its text. JSON escapes quotes within values."""
    return any(mark in pod.body for mark in _TERMINAL_MARKS)


def apply_patch(
    kind: str, before: Mapping[str, Any], body: Mapping[str, Any], subresource: str
) -> Object | None:
    """Return an object after a patch, or None if the patch cannot change the usage.

    A patch of a pod changes its usage by the subresource `resize` only. Other kinds are changed by
    merge patches.
    """
    if kind != "Pod":
        return None if subresource else dict(apply_merge_patch(before, body))
    if subresource != "resize":
        return None
    spec, change = dict(as_mapping(before.get("spec"))), as_mapping(body.get("spec"))
    for part in ("containers", "initContainers"):
        changed = {item.get("name"): item for item in as_mappings(change.get(part))}
        spec[part] = [
            apply_merge_patch(item, {"resources": changed[item.get("name")].get("resources")})
            if item.get("name") in changed
            else item
            for item in as_mappings(spec.get(part))
        ]
    if change.get("resources"):
        spec["resources"] = apply_merge_patch(spec.get("resources"), change["resources"])
    return {**before, "spec": spec}
