"""Requests and limits of a pod, as the quota evaluator of Kubernetes counts them.

Pure. Source: `pkg/quota/v1/evaluator/core/pods.go` and `component-helpers/resource/helpers.go` of
Kubernetes. One rule differs: a pod in deletion counts until it has ended, also after its grace
period. Its node still runs it.

Hazard: an API server adds requests that equal the limits, and a LimitRange adds defaults. Both must
be added before a create. Otherwise parallel creates exceed the quota.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

from syncer.model.unstructured import as_mapping, as_mappings
from tenancy import wellknown
from tenancy.policy.quotas import parse_amount

Amounts = dict[str, int]
"""Thousandths by resource name."""

_HUGE_PAGES = "hugepages-"
_STATUS_FIELDS = ("containerStatuses", "initContainerStatuses")


class DefaultResources(NamedTuple):
    """Requests and limits that a LimitRange adds to a container without them."""

    requests: Mapping[str, int]
    limits: Mapping[str, int]


NO_DEFAULTS = DefaultResources({}, {})


def is_terminal(pod: Mapping[str, Any]) -> bool:
    """Return whether a pod has ended. It uses nothing but its place in the store."""
    return as_mapping(pod.get("status")).get("phase") in wellknown.TERMINAL_PHASES


def compute_pod_usage(pod: Mapping[str, Any], defaults: DefaultResources = NO_DEFAULTS) -> Amounts:
    """Return the usage of a pod, without `count/pods`. A pod that has ended uses nothing."""
    if is_terminal(pod):
        return {}
    requests = compute_total(pod, "requests", defaults)
    limits = compute_total(pod, "limits", defaults)
    usage: Amounts = {"pods": 1000}
    for name, amount in requests.items():
        if name in ("cpu", "memory", "ephemeral-storage") or name.startswith(_HUGE_PAGES):
            usage[name] = usage[f"requests.{name}"] = amount
        elif "/" in name:
            usage[f"requests.{name}"] = amount
    for name in ("cpu", "memory", "ephemeral-storage"):
        if name in limits:
            usage[f"limits.{name}"] = limits[name]
    return usage


def compute_total(
    pod: Mapping[str, Any], field: str, defaults: DefaultResources = NO_DEFAULTS
) -> Amounts:
    """Return the `requests` or `limits` of a whole pod.

    During a resize, the larger of the wanted and the present resources counts.
    """
    spec, status = as_mapping(pod.get("spec")), as_mapping(pod.get("status"))
    total = _aggregate(spec, field, defaults, {})
    actual = {
        str(each.get("name")): each
        for part in _STATUS_FIELDS
        for each in as_mappings(status.get(part))
    }
    if actual:
        _raise_to(total, _aggregate(spec, field, defaults, actual))
    whole = as_mapping(spec.get("resources"))
    if field == "requests":  # as the API server adds them
        total = {**_read(whole.get("limits")), **total}
    for name, amount in _read(whole.get(field)).items():
        if name in ("cpu", "memory") or name.startswith(_HUGE_PAGES):
            total[name] = amount
    for name, amount in _read(spec.get("overhead")).items():
        if field == "requests" or total.get(name):
            total[name] = total.get(name, 0) + amount
    return total


def _aggregate(
    spec: Mapping[str, Any],
    field: str,
    defaults: DefaultResources,
    actual: Mapping[str, Mapping[str, Any]],
) -> Amounts:
    """Return the sum of the containers, or the largest need of an init container."""
    total: Amounts = {}
    sidecars: Amounts = {}
    first: Amounts = {}
    for container in as_mappings(spec.get("containers")):
        _add(total, _get_amounts(container, field, defaults, actual))
    for container in as_mappings(spec.get("initContainers")):
        amounts = _get_amounts(container, field, defaults, actual)
        if container.get("restartPolicy") == "Always":
            _add(total, amounts)
            _add(sidecars, amounts)
            amounts = dict(sidecars)
        else:
            _add(amounts, sidecars)
        _raise_to(first, amounts)
    _raise_to(total, first)
    return total


def _get_amounts(
    container: Mapping[str, Any],
    field: str,
    defaults: DefaultResources,
    actual: Mapping[str, Mapping[str, Any]],
) -> Amounts:
    """Return the amounts of one container: the present ones where its status has them."""
    state = actual.get(str(container.get("name")))
    if state is not None:
        found = as_mapping(state.get("resources")).get(field)
        if found is None and field == "requests":
            found = state.get("allocatedResources")
        if found is not None:
            return _read(found)
    resources = as_mapping(container.get("resources"))
    limits = _read(resources.get("limits"))
    if field == "limits":
        return {**defaults.limits, **limits}
    return {**defaults.requests, **limits, **_read(resources.get("requests"))}


def _read(found: Any) -> Amounts:
    return {str(name): parse_amount(value) for name, value in as_mapping(found).items()}


def _add(total: Amounts, more: Mapping[str, int]) -> None:
    for name, amount in more.items():
        total[name] = total.get(name, 0) + amount


def _raise_to(total: Amounts, least: Mapping[str, int]) -> None:
    for name, amount in least.items():
        total[name] = max(total.get(name, 0), amount)
