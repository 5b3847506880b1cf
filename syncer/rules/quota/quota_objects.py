"""Objects of a tenant's quota: ResourceQuota and LimitRange per super namespace, and its report.

Pure. A ResourceQuota has the same limits as the tenant. The syncer keeps the sum of all namespaces
within them, so this object refuses only what bypasses the syncer. Must not know usage.

Hazard: a ResourceQuota of cpu or memory refuses pods without requests. The LimitRange must name a
default for each such resource. Otherwise these pods never start.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from kubeio import Object
from kubeio.cache.store import Entry
from syncer.model.keys import SERVICE_VARIABLES, TOKEN, VOLUME
from syncer.model.tenant_view import TenantView
from syncer.rules.quota.pod_usage import NO_DEFAULTS, DefaultResources
from tenancy import names, ownership
from tenancy.policy.quotas import (
    BYTES_PREFIX,
    NAMESPACE_COUNT,
    Hard,
    QuotaSpec,
    format_amount,
    parse_amount,
)

KINDS_OF_KEYS: Mapping[str, str] = {
    TOKEN: "Secret",
    SERVICE_VARIABLES: "ConfigMap",
    VOLUME: "PersistentVolumeClaim",
}
"""Kind that a key is counted as, where the key has a kind of its own."""
REPORT_SECONDS = 10.0
"""Shortest interval in seconds between two reports. A burst of creates causes one report."""
MAX_REPORTED_OBJECTS = 20
"""Number of waiting objects that a report names."""
CONTAINER_REQUESTS: Mapping[str, str] = {"cpu": "100m", "memory": "128Mi"}
CONTAINER_LIMITS: Mapping[str, str] = {"cpu": "1", "memory": "512Mi"}
"""Defaults of a container without requests or limits, where the quota limits the resource."""

_ADDED_BY_SUPER_CLUSTER: Mapping[str, int] = {"configmaps": 1, "count/configmaps": 1}
"""Objects in each super namespace that the tenant did not create: `kube-root-ca.crt`."""


def build_defaults(hard: Hard) -> DefaultResources:
    """Return what the LimitRange of a quota adds to containers."""
    requests, limits = _list_defaults(hard)
    if not requests:
        return NO_DEFAULTS
    return DefaultResources(
        {name: parse_amount(value) for name, value in requests.items()},
        {name: parse_amount(value) for name, value in limits.items()},
    )


def _list_defaults(hard: Iterable[str]) -> tuple[dict[str, str], dict[str, str]]:
    named = frozenset(hard)
    requests = {
        name: value
        for name, value in CONTAINER_REQUESTS.items()
        if named & {name, f"requests.{name}", f"limits.{name}"}
    }
    limits = {name: value for name, value in CONTAINER_LIMITS.items() if f"limits.{name}" in named}
    return requests, limits


def build_resource_quota(namespace: Entry, view: TenantView, quota: QuotaSpec) -> Object | None:
    """Return the ResourceQuota of a super namespace. None if Kubernetes knows none of the names."""
    hard: Object = {}
    for name, value in quota.items():
        if name.startswith(BYTES_PREFIX) or name == NAMESPACE_COUNT:
            continue
        extra = _ADDED_BY_SUPER_CLUSTER.get(name, 0)
        hard[name] = (
            format_amount(name, parse_amount(value) + parse_amount(extra)) if extra else str(value)
        )
    if not hard:
        return None
    return _build("ResourceQuota", namespace, view, {"hard": hard})


def build_limit_range(namespace: Entry, view: TenantView, quota: QuotaSpec) -> Object | None:
    """Return the LimitRange of a super namespace. None if no pod is refused without it."""
    requests, limits = _list_defaults(quota)
    if not requests:
        return None
    limit = {"type": "Container", "defaultRequest": requests}
    return _build(
        "LimitRange",
        namespace,
        view,
        {"limits": [{**limit, "default": limits} if limits else limit]},
    )


def _build(kind: str, namespace: Entry, view: TenantView, spec: Object) -> Object:
    return {
        "apiVersion": "v1",
        "kind": kind,
        "metadata": {
            "name": names.QUOTA,
            "namespace": view.get_super_namespace(namespace.name),
            "labels": ownership.build_owner_labels(view.tenant, namespace.name),
            "annotations": ownership.build_owner_annotations(
                view.tenant, namespace.name, namespace.uid
            ),
        },
        "spec": spec,
    }


def build_replacement(live: Mapping[str, Any], wanted: Object) -> Object | None:
    """Return the object for the PUT, or None if the live object is as it should be.

    A LimitRange of an API server has a default for each request, and quantities have one form.
    """
    metadata = live["metadata"]
    same_marks = all(
        (metadata.get(field) or {}).get(key) == value
        for field in ("labels", "annotations")
        for key, value in wanted["metadata"][field].items()
    )
    if same_marks and _get_amounts(live) == _get_amounts(wanted):
        return None
    # Without a version, because the super cluster writes the status at each create.
    return {**wanted, "metadata": {**wanted["metadata"], "uid": metadata["uid"]}}


def _get_amounts(found: Mapping[str, Any]) -> object:
    spec = found.get("spec") or {}
    if found.get("kind") == "ResourceQuota":
        hard = {name: parse_amount(value) for name, value in (spec.get("hard") or {}).items()}
        return hard, spec.get("scopes"), spec.get("scopeSelector")
    return [
        {
            key: {name: parse_amount(value) for name, value in part.items()}
            if isinstance(part, dict)
            else part
            for key, part in limit.items()
        }
        for limit in spec.get("limits") or ()
    ]


def build_report(
    hard: Hard, used: Mapping[str, int], waiting: Iterable[tuple[str, str]], waiting_count: int
) -> Object:
    """Return the ConfigMap that shows a tenant its quota.

    `used` has thousandths. `waiting` has some objects with the reasons why they wait.
    """
    lines = [f"{name}: {format_amount(name, hard[name])}" for name in sorted(hard)]
    spent = [f"{name}: {format_amount(name, used.get(name, 0))}" for name in sorted(hard)]
    left = [
        f"{name}: {format_amount(name, max(0, hard[name] - used.get(name, 0)))}"
        for name in sorted(hard)
    ]
    held = [f"{where}: {reason}" for where, reason in waiting]
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": names.QUOTA_REPORT[1], "namespace": names.QUOTA_REPORT[0]},
        "data": {
            "hard": "".join(f"{line}\n" for line in lines),
            "used": "".join(f"{line}\n" for line in spent),
            "left": "".join(f"{line}\n" for line in left),
            "waitingObjects": str(waiting_count),
            "waiting": "".join(f"{line}\n" for line in held),
        },
    }
