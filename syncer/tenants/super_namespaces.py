"""Super namespaces of one tenant: when a key may be written into one, and its default policies.

Must not create or delete a namespace. Hazard: a namespace without its account, its Pod Security
level or its default network policies must not be used. Pods in it would have rights or connections
that the tenant's policy forbids.
"""

from collections.abc import Callable, Mapping

from kubeio.cache.store import Entry
from kubeio.controller.fair_queue import FairQueue
from kubeio.controller.worker import NotReadyYet
from syncer.clusters.super_cluster import SuperCluster
from syncer.model.keys import DEFAULT_POLICY, TOKEN, Key
from syncer.model.tenant_view import TenantView
from syncer.rules.namespaces import has_security_level
from syncer.rules.network import default_policies
from syncer.rules.network.policy_selectors import PolicySelectors
from syncer.tenants.session_work import SessionWork
from syncer.tenants.twins import Twins
from tenancy import names
from tenancy.resources import SECRETS


class SuperNamespaces:
    """The super namespaces of one tenant."""

    def __init__(
        self,
        view: TenantView,
        twins: Twins,
        work: SessionWork,
        queue: FairQueue[Key],
        *,
        super_cluster: SuperCluster,
        request: Callable[[Key], None],
        policy_selectors: PolicySelectors,
    ) -> None:
        """`request` queues a namespace that a key waits for, if nothing else does."""
        self._view = view
        self._twins = twins
        self._work = work
        self._queue = queue
        self._super_cluster = super_cluster
        self._request = request
        self._policy_selectors = policy_selectors

    def get_ready(self, key: Key) -> Entry:
        """Return the super namespace of a key's namespace. Raises Wait until it can be used."""
        tenant_x = self._view.stores["Namespace"].get("", key.namespace)
        name = self._view.get_super_namespace(key.namespace)
        super_x = self._twins.get_store("Namespace").get("", name)
        account = self._twins.get_store("ServiceAccount").list(name)
        space = key._replace(kind="Namespace", namespace="", name=key.namespace)
        if (
            tenant_x is not None
            and super_x is not None
            and not (super_x.deleting or self._twins.is_leaving(space, super_x))
            and account
            and self._twins.is_twin(super_x, tenant_x.uid)
            and has_security_level(super_x.labels, self._view.policy)
            and (
                key.kind not in (SECRETS.kind, TOKEN)
                or self._super_cluster.secrets.is_readable(name)
            )
        ):
            self._check_default_policies(key, name)
            return super_x
        self._work.add_waiter(space, key)
        self._request(space)
        raise NotReadyYet("the super namespace does not exist yet")

    def build_policy_labels(self, namespace: str, labels: Mapping[str, str]) -> dict[str, str]:
        """Return the labels of a super pod that the default network policies select by."""
        if self._view.policy.sync.network_policies != "Allow" or not default_policies.is_enforced(
            self._view
        ):
            return {}
        return self._policy_selectors.build_labels(namespace, labels)

    def _check_default_policies(self, key: Key, super_namespace: str) -> None:
        """Raise Wait until the default network policies of a super namespace exist."""
        if not default_policies.is_enforced(self._view):
            return
        store = self._twins.get_store("NetworkPolicy")
        for name in names.DEFAULT_POLICIES:
            if store.get(super_namespace, name) is None:
                awaited = key._replace(kind=DEFAULT_POLICY, name=name)
                self._work.add_waiter(awaited, key)
                self._queue.add(awaited, first=True)
                raise NotReadyYet("the default network policies do not exist yet")
