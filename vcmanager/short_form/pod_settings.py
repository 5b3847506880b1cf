"""Pod settings of a control plane: resources, Go memory limits, scheduling and pull secrets.

Owns the defaults of requests and limits. Pure. Hazard: every component needs a memory limit, or one
tenant uses up the memory of a node that it shares with the control planes of other tenants.
"""

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from tenancy import quantities
from tenancy.control_plane_specs import ComponentResources
from tenancy.specs import ClusterVersionSpec, InvalidSpecError

PULL_SECRET_PREFIX = "pull-"  # noqa: S105 - a name, not a credential
"""Prefix of the copies of pull secrets in a root namespace, so that no name collides."""
_KIBIBYTE = 2**10
_MEBIBYTE = 2**20
_GO_SHARE = Decimal("0.9")
"""Share of the memory limit for the Go heap. The rest is for stacks, mapped files and C memory.

The garbage collector works harder near this limit. Without it the kernel ends the container first.
"""
_DEFAULTS: Mapping[str, tuple[str, Mapping[str, str], Mapping[str, str]]] = {
    "etcd": ("etcd", {"cpu": "10m", "memory": "48Mi"}, {"memory": "1Gi"}),
    "apiserver": ("apiServer", {"cpu": "25m", "memory": "192Mi"}, {"memory": "2Gi"}),
    "controller_manager": (
        "controllerManager",
        {"cpu": "10m", "memory": "64Mi"},
        {"memory": "1Gi"},
    ),
    "coredns": ("dns", {"cpu": "10m", "memory": "24Mi"}, {"memory": "170Mi"}),
    "metrics_server": ("metricsServer", {"cpu": "10m", "memory": "32Mi"}, {"memory": "100Mi"}),
}
"""Field in `spec.resources`, default requests and default limits, per component.

The requests are the use of an idle tenant. The limits leave room for thousands of objects, and a
ClusterVersion for larger tenants raises them. CPU has no limit, because idle cores are free.
"""


def build_pod_values(
    version_name: str, version: ClusterVersionSpec, default_priority_class: str
) -> dict[str, Any]:
    """Return the template values `resources`, `memory_limits` and `pod_fields`.

    `memory_limits` has the Go memory limit per component, empty without a limit. Raises
    InvalidSpecError.
    """
    where = f"ClusterVersion {version_name}"
    resources = {
        component: _merge_resources(f"{where}: resources.{field}", given, requests, limits)
        for (component, (field, requests, limits)), given in zip(
            _DEFAULTS.items(), _list_given(version), strict=True
        )
    }
    return {
        "resources": resources,
        "memory_limits": {name: _build_go_limit(each) for name, each in resources.items()},
        "pod_fields": _build_pod_fields(version, default_priority_class),
        "service_annotations": version.service_annotations,
    }


def _list_given(version: ClusterVersionSpec) -> tuple[ComponentResources, ...]:
    given = version.resources
    return (given.etcd, given.api_server, given.controller_manager, given.dns, given.metrics_server)


def _merge_resources(
    where: str,
    given: ComponentResources,
    default_requests: Mapping[str, str],
    default_limits: Mapping[str, str],
) -> dict[str, dict[str, str]]:
    requests = {**default_requests, **_read_quantities(f"{where}.requests", given.requests or {})}
    if given.limits is None:
        limits = dict(default_limits)
        # A request above the default limit means that the limit is too low.
        if _amount(requests["memory"]) > _amount(limits["memory"]):
            limits["memory"] = requests["memory"]
    else:
        limits = _read_quantities(f"{where}.limits", given.limits)
    for name, limit in limits.items():
        request = requests.get(name)
        if request is None or _amount(request) <= _amount(limit):
            continue
        if name in (given.requests or {}):
            raise InvalidSpecError(
                f"{where}: the request for {name} ({request}) is above its limit ({limit})."
                " Raise the limit or lower the request"
            )
        requests[name] = limit
    return {"requests": requests, **({"limits": limits} if limits else {})}


def _read_quantities(where: str, given: Mapping[str, str | int]) -> dict[str, str]:
    for name, value in given.items():
        amount = quantities.parse_quantity(str(value))
        if amount is None or amount < 0:
            raise InvalidSpecError(
                f"{where}.{name}: {value!r} is not a quantity. Write for example 500m or 2Gi"
            )
    return {name: _canonicalize(str(value)) for name, value in given.items()}


def _canonicalize(quantity: str) -> str:
    """Return a quantity as the API server stores it: 2Gi for 2048Mi, 500m for 0.5.

    Any other form would differ from the stored object, and each reconcile would write it again.
    """
    amount = _amount(quantity)
    if not quantity.endswith("i") or amount < _KIBIBYTE or amount % _KIBIBYTE:
        return quantities.format_quantity(amount)
    suffixes = ["", *(f"{letter}i" for letter in "KMGTPE")]
    while amount % _KIBIBYTE == 0 and len(suffixes) > 1:
        amount /= _KIBIBYTE
        suffixes.pop(0)
    return f"{int(amount)}{suffixes[0]}"


def _amount(quantity: str) -> Decimal:
    return quantities.parse_quantity(quantity) or Decimal(0)


def _build_go_limit(resources: Mapping[str, Mapping[str, str]]) -> str:
    memory = (resources.get("limits") or {}).get("memory")
    if memory is None:
        return ""
    return f"{max(1, int(_amount(memory) * _GO_SHARE / _MEBIBYTE))}MiB"


def _build_pod_fields(version: ClusterVersionSpec, default_priority_class: str) -> dict[str, Any]:
    """Return the fields of every pod's spec that the ClusterVersion sets, without empty ones."""
    fields = {
        "nodeSelector": version.node_selector,
        "tolerations": list(version.tolerations),
        "priorityClassName": version.priority_class_name or default_priority_class,
        "imagePullSecrets": [
            {"name": f"{PULL_SECRET_PREFIX}{each.name}"} for each in version.image_pull_secrets
        ],
    }
    return {name: value for name, value in fields.items() if value}
