"""Objects of a tenant that a target needs, apart from pods.

Owns the rule for each kind. In the home cluster every object is synced. Must not choose where pods
run. Hazard: the caches must be complete. Otherwise an object that pods need counts as not needed.
"""

from kubeio.cache.store import Entry, Store
from syncer.model import label_selectors
from syncer.model.pod_index import PodIndex
from syncer.model.tenant_view import TenantView
from syncer.rules import disruption_budgets
from syncer.rules.disruption_budgets import BUDGET


def is_needed_in_target(
    kind: str, entry: Entry, view: TenantView, pods: PodIndex, super_pods: Store
) -> bool:
    """Return True if a target needs an object of the tenant.

    `pods` are the tenant's pods that are assigned to the target, and `super_pods` all of its pods.
    """
    if kind == "Namespace":
        return has_pods_here(entry.name, view, pods, super_pods) or pods.references.has_namespace(
            entry.name
        )
    if kind in view.copied_kinds:
        return has_pods_here(entry.namespace, view, pods, super_pods)
    if kind in ("ConfigMap", "Secret"):
        return view.is_referenced(kind, entry.namespace, entry.name)
    if kind == BUDGET:
        selector = disruption_budgets.get_selector(entry.decode())
        if selector is None:
            return False
        selector = label_selectors.translate_selector(selector, view.policy.metadata)
        return any(
            label_selectors.matches(selector, pod.labels)
            for pod in view.list_super_pods(entry.namespace)
        )
    return pods.has_namespace(entry.namespace)


def has_pods_here(namespace: str, view: TenantView, pods: PodIndex, super_pods: Store) -> bool:
    """Return True if a super cluster has pods of a tenant namespace, or will have one."""
    return pods.has_namespace(namespace) or bool(
        super_pods.list(view.get_super_namespace(namespace))
    )
