"""Devices that a ResourceClaim requests, as the quota evaluator of Kubernetes counts them.

Pure. Source: `claimEvaluator.Usage` in `pkg/quota/v1/evaluator/core/resource_claims.go` of
Kubernetes 1.35 to 1.37. As there, the request counts and not the allocation, `All` counts as the
most devices that a claim can get, and `adminAccess` changes nothing.

One part differs. The evaluator also counts a claim under the `extendedResourceName` of its class.
Here only pods use these names, because the syncer copies no claim that stands for such a request.

Hazard: an API server adds the allocation mode and the count. Both must be added before a create.
Otherwise parallel creates exceed the quota.
"""

from collections.abc import Mapping
from typing import Any

from syncer.model.unstructured import as_mapping, as_mappings
from tenancy.policy.quotas import DEVICE_CLASS_SUFFIX, parse_amount

MAX_RESULTS = 32
"""Maximum number of devices in one claim: `AllocationResultsMaxSize` of `resource.k8s.io`."""

_EXACT_COUNT, _ALL = "ExactCount", "All"


def compute_device_usage(claim: Mapping[str, Any]) -> dict[str, int]:
    """Return the devices that a claim requests, by the resource name of their class."""
    devices = as_mapping(as_mapping(claim.get("spec")).get("devices"))
    usage: dict[str, int] = {}
    for request in as_mappings(devices.get("requests")):
        for name, amount in _count_request(request).items():
            usage[name] = usage.get(name, 0) + amount
    return usage


def _count_request(request: Mapping[str, Any]) -> dict[str, int]:
    """Return the devices of one request. The largest number of each alternative class counts.

    In `v1beta1` the fields of `exactly` are those of the request itself.
    """
    found: dict[str, int] = {}
    alternatives = as_mappings(request.get("firstAvailable"))
    for each in alternatives or [as_mapping(request.get("exactly")) or request]:
        class_name = each.get("deviceClassName")
        if isinstance(class_name, str) and class_name:
            name = f"{class_name}{DEVICE_CLASS_SUFFIX}"
            found[name] = max(found.get(name, 0), parse_amount(_count_devices(each)))
    return found


def _count_devices(request: Mapping[str, Any]) -> int:
    """Return the number of devices. An unknown mode counts none, as in Kubernetes."""
    mode = request.get("allocationMode") or _EXACT_COUNT
    if mode == _ALL:
        return MAX_RESULTS
    count = request.get("count") or 1
    return count if mode == _EXACT_COUNT and isinstance(count, int) else 0
