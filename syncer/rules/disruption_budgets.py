"""PodDisruptionBudgets in the super cluster, as a plain number of pods that must stay healthy.

Pure. Owns that number. The tenant's own controller computes it, because only the tenant has the
workloads that percentages refer to.

Unless the policy allows budgets that block, three limits apply. The number is lowered so that one
of the healthy pods in the super cluster may be evicted. Unhealthy pods may always be evicted. A pod
has at most one budget, because the API evicts no pod that has two. Pods are counted in the super
cluster, because a tenant can forge a status. Must not know timing.

Hazard: the flow must lower a number only after a shortage has lasted. While one pod is being
replaced, one pod is missing for a moment, and lowering at once would allow a second eviction.
"""

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from kubeio import Object
from kubeio.cache.store import Entry
from syncer.model import label_selectors, object_meta
from syncer.model.field_rules import BuiltField, FieldRule, FieldWalk, ObjectFields
from syncer.model.label_selectors import SELECTOR
from syncer.model.rejections import ForbiddenObjectError, RejectedError, RejectionProblem
from syncer.model.replace_update import build_replacement
from syncer.model.tenant_view import TenantView
from syncer.model.unstructured import as_count, as_mapping
from tenancy import wellknown

BUDGET = "PodDisruptionBudget"

_NUMBER_RULE = BuiltField(
    "disruption_budgets",
    "becomes the number of pods that your cluster's controller computes from it. If the policy does"
    " not allow budgets that block, it is at most one less than the number of healthy pods",
)

_EVICTION_RULE = BuiltField(
    "disruption_budgets",
    "is `AlwaysAllow`, if the policy does not allow budgets that block. An unhealthy pod may then"
    " always be evicted",
)
_EVICTION_POLICIES = ("AlwaysAllow", "IfHealthyBudget")

MAX_BUDGETS = 100
"""Maximum number of synced budgets of a namespace where no budget may block. Each one is compared
with the rest."""
MAX_REQUIREMENTS = 100
"""Maximum number of labels, expressions and values of one selector."""

DISRUPTION_BUDGET_SPEC: Mapping[str, FieldRule] = {
    "maxUnavailable": _NUMBER_RULE,
    "minAvailable": _NUMBER_RULE,
    "selector": ObjectFields(SELECTOR),
    "unhealthyPodEvictionPolicy": _EVICTION_RULE,
}


def is_wanted(entry: Entry, _: TenantView) -> bool:
    """Return whether a budget is synced: only after the tenant's controller has processed it."""
    status = as_mapping(entry.decode().get("status"))
    return bool(status.get("observedGeneration")) and "desiredHealthy" in status


def build_disruption_budget(tenant_budget: Mapping[str, Any], view: TenantView) -> Object:
    """Return the twin of a budget. Raises RejectedError."""
    if view.policy.sync.pod_disruption_budgets != "Allow":
        text = "is not offered to this cluster. It applies to evictions in this cluster only"
        raise ForbiddenObjectError(RejectionProblem("disruption-budgets", "spec", text))
    metadata, found = tenant_budget["metadata"], as_mapping(tenant_budget.get("spec"))
    walk = FieldWalk()
    spec = walk.walk_fields(tenant_budget.get("spec") or {}, DISRUPTION_BUDGET_SPEC, "spec")
    wanted, eviction = get_desired_healthy(tenant_budget), found.get("unhealthyPodEvictionPolicy")
    selector = spec.get("selector")
    passing = view.policy.metadata
    problems = walk.problems or list(_find_selector_problems(selector or {}))
    if wanted is None:
        text = "must be a number of pods. Wait until the disruption controller writes it again"
        problems.append(RejectionProblem("malformed", "status.desiredHealthy", text))
    if eviction is not None and eviction not in _EVICTION_POLICIES:
        text = f"must be one of {', '.join(_EVICTION_POLICIES)}. Correct the object"
        problems.append(RejectionProblem("malformed", "spec.unhealthyPodEvictionPolicy", text))
    if problems or wanted is None:
        raise RejectedError(*problems)
    if selector is not None:
        spec["selector"] = _restrict_to_tenant(
            label_selectors.translate_selector(selector, passing), view
        )
    if view.policy.sync.blocking_disruption_budgets != "Allow":
        eviction = _EVICTION_POLICIES[0]
        pods = list_selected_pods(spec, metadata["namespace"], view)
        _refuse_overlap(metadata, spec.get("selector"), pods, view)
        wanted = _lower_by_one(wanted, sum(map(is_pod_healthy, pods)))
    if eviction is not None:
        spec["unhealthyPodEvictionPolicy"] = eviction
    return {
        "apiVersion": "policy/v1",
        "kind": BUDGET,
        "metadata": object_meta.build_super_metadata(
            BUDGET,
            view.tenant,
            metadata,
            super_namespace=view.get_super_namespace(metadata["namespace"]),
            passing=passing,
        ),
        "spec": {**spec, "minAvailable": wanted},
    }


def get_desired_healthy(tenant_budget: Mapping[str, Any]) -> int | None:
    """Return the number of healthy pods that the tenant's controller wants."""
    return as_count(as_mapping(tenant_budget.get("status")).get("desiredHealthy"))


def is_being_lowered(
    tenant_budget: Mapping[str, Any], live: Mapping[str, Any], twin: Mapping[str, Any]
) -> bool:
    """Return whether the update would lower a twin further than the tenant itself does."""
    there = as_count(as_mapping(live.get("spec")).get("minAvailable"))
    new = twin["spec"]["minAvailable"]
    return there is not None and new < there and new < (get_desired_healthy(tenant_budget) or 0)


def is_short_of_healthy(twin: Mapping[str, Any], namespace: str, view: TenantView) -> bool:
    """Return whether a twin's number is this low because some of its pods are not healthy."""
    return bool(
        twin["spec"]["minAvailable"] < len(list_selected_pods(twin["spec"], namespace, view)) - 1
    )


def build_change(live: Mapping[str, Any], twin: Object) -> Object | None:
    """Return the budget to put in place of the live one, or None."""
    return build_replacement(live, twin, table=DISRUPTION_BUDGET_SPEC, field="spec")


def _restrict_to_tenant(selector: Mapping[str, Any], view: TenantView) -> Object:
    mark = {wellknown.VC_UID: view.tenant.uid}
    return {**selector, "matchLabels": {**(selector.get("matchLabels") or {}), **mark}}


def _find_selector_problems(selector: Mapping[str, Any]) -> Iterator[RejectionProblem]:
    expressions = selector.get("matchExpressions") or ()
    values = [item.get("values") for item in expressions]
    size = len(selector.get("matchLabels") or ()) + len(expressions)
    size += sum(len(each) for each in values if isinstance(each, list))
    if size > MAX_REQUIREMENTS:
        text = (
            f"has {size} labels, expressions and values, and the limit is {MAX_REQUIREMENTS}. Use"
            " fewer"
        )
        yield RejectionProblem("too-large", "spec.selector", text)
    yield from label_selectors.find_problems(selector, "spec.selector")


def list_selected_pods(
    spec: Mapping[str, Any], namespace: str, view: TenantView
) -> Collection[Entry]:
    """Return the super pods that a twin selects, including pods that are being deleted."""
    selector = spec.get("selector")
    if selector is None:
        return ()
    return [
        entry
        for entry in view.list_super_pods(namespace)
        if label_selectors.matches(selector, entry.labels)
        and as_mapping(entry.decode().get("status")).get("phase") not in wellknown.TERMINAL_PHASES
    ]


def is_pod_healthy(pod: Entry) -> bool:
    """Return whether the super cluster's disruption controller counts a pod as healthy."""
    conditions = as_mapping(pod.decode().get("status")).get("conditions") or ()
    is_ready = any(
        condition.get("type") == "Ready" and condition.get("status") == "True"
        for condition in conditions
    )
    return is_ready and not pod.deleting


def _lower_by_one(wanted: int, healthy: int) -> int:
    """Return the number that lets one pod be evicted.

    Without a healthy pod the number stays, because then no eviction is blocked.
    """
    return min(wanted, healthy - 1) if healthy else wanted


def _refuse_overlap(
    metadata: Mapping[str, Any],
    selector: Mapping[str, Any] | None,
    pods: Collection[Entry],
    view: TenantView,
) -> None:
    """Raise RefusedError when a pod has, or might have, two budgets. The older budget stays."""
    store = view.super_stores.get(BUDGET)
    if store is None or selector is None:
        return
    there = {
        entry.name: entry
        for entry in store.list(view.get_super_namespace(metadata["namespace"]))
        if not entry.deleting
    }
    own = there.pop(metadata["name"], None)
    if own is None and len(there) >= MAX_BUDGETS:
        text = (
            f"is one of more than {MAX_BUDGETS} in its namespace. Use fewer budgets that select"
            " more pods"
        )
        raise ForbiddenObjectError(RejectionProblem("too-many-budgets", "the budget", text))
    age = _rank_by_age(own.decode()) if own is not None else None
    for name, entry in there.items():
        other = entry.decode()
        theirs = get_selector(other)
        if theirs is None or (age is not None and age < _rank_by_age(other)):
            continue
        if theirs == selector or any(label_selectors.matches(theirs, pod.labels) for pod in pods):
            text = (
                f"selects pods of the budget {name}, and a pod with two budgets cannot be evicted."
            )
            text += " Merge both into one budget, or let them select different pods"
            raise ForbiddenObjectError(RejectionProblem("budget-overlap", "spec.selector", text))


def _rank_by_age(budget: Mapping[str, Any]) -> tuple[str, str]:
    metadata = budget["metadata"]
    return metadata.get("creationTimestamp") or "", metadata["name"]


def get_selector(budget: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return the selector of a budget. None if it selects nothing."""
    selector = as_mapping(budget.get("spec")).get("selector")
    return as_mapping(selector) if selector is not None else None
