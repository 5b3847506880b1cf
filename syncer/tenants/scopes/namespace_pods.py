"""Whether a super cluster has pods of a tenant namespace.

Must not choose where pods run. Hazard: the caches must be complete. Otherwise an object that pods
need counts as not needed.
"""

from kubeio.cache.store import Store
from syncer.model.pod_index import PodIndex
from syncer.model.tenant_view import TenantView


def has_pods_here(namespace: str, view: TenantView, pods: PodIndex, super_pods: Store) -> bool:
    """Return True if a super cluster has pods of a tenant namespace, or will have one.

    `pods` are the tenant's pods that are assigned to it, and `super_pods` all of its pods.
    """
    return pods.has_namespace(namespace) or bool(
        super_pods.list(view.get_super_namespace(namespace))
    )
