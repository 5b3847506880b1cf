"""Twins of one tenant in one super cluster: which there are, and which are about to go.

Owns the twins that are being deleted. Must not write or decide. Hazard: an object is a twin only by
the recorded UIDs. A name alone may be that of a foreign object.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from kubeio.cache.store import Entry, Store
from kubeio.controller.worker import NotReadyYet
from kubeio.resource_version import parse_revision
from syncer.clusters.super_cluster import SuperCluster
from syncer.model import decide
from syncer.model.decide import SuperState
from syncer.model.keys import Key
from syncer.model.references import ObjectReference, list_references
from syncer.model.tenant_view import TenantView
from syncer.safety.expectations import ClusterSide, Expectations
from syncer.tenants.session_work import SessionWork
from tenancy import wellknown


class Twins:
    """The super objects of one tenant, as the caches and the writes of the syncer show them."""

    def __init__(
        self,
        super_cluster: SuperCluster,
        view: TenantView,
        *,
        expectations: Expectations,
        work: SessionWork,
    ) -> None:
        """`expectations` has the writes that a cache does not show yet."""
        self._super_cluster = super_cluster
        self._view = view
        self._expectations = expectations
        self._work = work
        self._in_deletion: set[Key] = set()

    def get_store(self, kind: str) -> Store:
        """Return the cache of super objects of a kind."""
        return self._super_cluster.stores[kind]

    def is_twin(self, entry: Entry | None, uid: str) -> bool:
        """Return True if a super object is the twin of the tenant object with this UID."""
        return self._super_cluster.is_twin(entry, vc_uid=self._view.tenant.uid, uid=uid)

    def has_twin(self, pod: Entry) -> bool:
        """Return True if the cache has the twin of a tenant pod."""
        return self.has_copy("Pod", pod)

    def has_copy(self, kind: str, tenant_x: Entry) -> bool:
        """Return True if the cache has the twin of an object. Its kind may have no cache."""
        store = self._super_cluster.stores.get(kind)
        below = self._view.get_super_namespace(tenant_x.namespace)
        return store is not None and self.is_twin(store.get(below, tenant_x.name), tenant_x.uid)

    def build_state(self, entry: Entry | None, namespace: str | None = None) -> SuperState | None:
        """Return the facts of a super object for a decision, as `decide.build_super_state` does."""
        return decide.build_super_state(
            entry, namespace, registration=self._view.tenant.super_cluster_uid
        )

    def is_behind(self, key: Key, tenant_x: Entry | None, super_x: Entry | None) -> bool:
        """Return True if a cache does not show a write of the syncer for a key yet."""
        awaited = self._expectations
        return awaited.is_behind(ClusterSide.TENANT, key, tenant_x) or awaited.is_behind(
            ClusterSide.SUPER, key, super_x
        )

    def is_named_by_pod(self, ref: ObjectReference, super_namespace: str) -> bool:
        """Return True if a super pod still names an object that no tenant pod needs any longer."""
        spelled = f'"{ref.name}"'.encode()
        return any(
            spelled in pod.body and ref in list_references(pod.decode().get("spec") or {})
            for pod in self.get_store("Pod").list(super_namespace)
        )

    @contextmanager
    def mark_leaving(self, key: Key, super_x: Entry) -> Iterator[None]:
        """Delete a twin. Keys that need it meanwhile wait, and are woken afterwards.

        The twin counts as deleted until the cache shows its new state, or until a timeout, because
        the answer to a delete may be lost. If the block raises Wait, the twin stays.
        """
        self._in_deletion.add(key)
        is_sent = True
        try:
            yield
        except NotReadyYet:
            is_sent = False
            raise
        finally:
            self._in_deletion.discard(key)
            if is_sent and not self._expectations.is_behind(ClusterSide.SUPER, key, super_x):
                self._expectations.expect_delete(ClusterSide.SUPER, key, super_x, taken=True)
            self._work.wake_waiters(key)

    def is_leaving(self, key: Key, super_x: Entry | None) -> bool:
        """Return True if a twin in the cache is being deleted or was deleted a moment ago."""
        return key in self._in_deletion or self._expectations.is_behind(
            ClusterSide.SUPER, key, super_x
        )

    def iterate_stamps(self) -> Iterable[int]:
        """Yield the tenant revisions that super objects record."""
        for entry in self._super_cluster.list_written_for(self._view.tenant.uid):
            yield parse_revision(entry.annotations.get(wellknown.STORE_REVISION, ""))
