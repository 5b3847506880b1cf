"""Node pool of a tenant: the nodes that its policy leaves for its pods, and their taints.

Pure. Hazard: the selector must be written as `nodeSelector`. Every other requirement of a pod is in
addition to that field, so that no term of a tenant widens the pool.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from syncer.model.rejections import RejectionProblem
from tenancy.policies import NodesSpec, PoolToleration

_FIELD = "nodes.selector"
"""Field of the TenantPolicy that the messages name."""


def is_in_pool(labels: Mapping[str, str], nodes: NodesSpec) -> bool:
    """Return whether a super node with these labels belongs to the pool. Without one, all do."""
    return all(labels.get(key) == value for key, value in nodes.selector.items())


def find_problems(spec: Mapping[str, Any], nodes: NodesSpec) -> list[RejectionProblem]:
    """Return a problem for each entry of a pod's nodeSelector that excludes the pool.

    `spec` must have the tenant's own selector, before entries of hidden labels are resolved.
    """
    own = spec.get("nodeSelector") or {}
    return [
        RejectionProblem(
            "node-pool",
            f"spec.nodeSelector[{key}]",
            f"must be {value!r}, which the TenantPolicy sets in {_FIELD}. Use that value, or leave"
            " it out",
        )
        for key, value in nodes.selector.items()
        if own.get(key, value) != value
    ]


def write_pool(spec: dict[str, Any], nodes: NodesSpec) -> None:
    """Write selector and tolerations of the pool into the spec of a super pod, in place."""
    if nodes.selector:
        spec["nodeSelector"] = {**(spec.get("nodeSelector") or {}), **nodes.selector}
    if nodes.tolerations:
        kept = list(spec.get("tolerations") or ())
        forced = [_build_toleration(each) for each in nodes.tolerations]
        spec["tolerations"] = [*kept, *(each for each in forced if each not in kept)]


def list_tolerated_keys(nodes: NodesSpec) -> frozenset[str]:
    """Return the taint keys that every pod of the tenant tolerates. A pod need not repeat them."""
    return frozenset(each.key for each in nodes.tolerations if each.key)


def remove_pool_taints(
    taints: Iterable[Mapping[str, Any]], nodes: NodesSpec
) -> list[Mapping[str, Any]]:
    """Return the taints that remain on a virtual node.

    Every pod of the tenant tolerates the others. If a virtual node showed them, the tenant's
    controllers would create no DaemonSet pod for it.
    """
    return [
        taint for taint in taints if not any(_tolerates(each, taint) for each in nodes.tolerations)
    ]


def _tolerates(toleration: PoolToleration, taint: Mapping[str, Any]) -> bool:
    if toleration.effect and toleration.effect != taint.get("effect"):
        return False
    if toleration.key and toleration.key != taint.get("key"):
        return False
    if toleration.operator == "Exists":
        return True
    return toleration.value == (taint.get("value") or "")


def _build_toleration(toleration: PoolToleration) -> dict[str, Any]:
    fields = msgspec.to_builtins(toleration)
    return {key: value for key, value in fields.items() if value}
