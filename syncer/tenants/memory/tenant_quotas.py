"""Accountants of all tenants, fed from the caches of the super clusters.

Owns the accountants, which outlive connections, and their start from caches that are filled
already. A restart of the syncer therefore neither forgets an object nor counts it twice. Must not
write.

Hazard: a kind is counted from the moment a policy limits it. Its objects must be counted before the
first write of the tenant. Otherwise that write passes.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from kubeio.cache.store import Entry, Store
from syncer.clusters.super_cluster import SuperCluster
from syncer.model.keys import HOME, VOLUME, Key
from syncer.model.unstructured import as_mapping
from syncer.rules.quota import usage
from syncer.rules.quota.retained_volumes import RETAINED_INDEX, list_possible_roots
from syncer.rules.quota.usage import NOTHING
from syncer.safety.quota_accounting import QuotaAccountant
from tenancy.ownership import Tenant
from tenancy.policy.quotas import Hard
from tenancy.resources import PERSISTENT_VOLUME_CLAIMS

CLAIM = PERSISTENT_VOLUME_CLAIMS.kind
_ENTRIES_PER_STEP = 200  # entries that are counted, then other tasks run


class QuotaAccountants:
    """The accountants by UID of the VirtualCluster."""

    def __init__(
        self,
        *,
        wake: Callable[[Key], None] = lambda _: None,
        schedule_report: Callable[[str], None] = lambda _: None,
    ) -> None:
        """`wake` queues a key. `schedule_report` is called with the UID after a change."""
        self._wake = wake
        self._schedule_report = schedule_report
        self._accountants: dict[str, QuotaAccountant] = {}
        self._uids_by_root: dict[str, str] = {}
        self.counted_kinds: frozenset[str] = frozenset()
        """Kinds that the quota of any tenant limits. Events of all other kinds cost nothing."""

    def get(self, uid: str) -> QuotaAccountant | None:
        """Return the accountant of a tenant that was connected."""
        return self._accountants.get(uid)

    async def start(
        self,
        tenant: Tenant,
        hard: Hard,
        clusters: Iterable[SuperCluster],
        *,
        volumes: Store,
        claims: Store,
    ) -> QuotaAccountant:
        """Return the accountant of a tenant with these limits.

        Objects of kinds that were not counted before are counted now.
        """
        accountant = self._accountants.get(tenant.uid)
        if accountant is None:
            accountant = QuotaAccountant(
                wake=self._wake, on_changed=lambda: self._schedule_report(tenant.uid)
            )
            self._accountants[tenant.uid] = accountant
        self._uids_by_root[tenant.root] = tenant.uid
        known = accountant.kinds
        accountant.set_hard(hard)
        added = accountant.kinds - known
        self._collect_kinds()
        counted = 0
        for cluster in clusters:
            for kind in sorted(added & cluster.stores.keys()):
                for entry in cluster.list_owned(kind, tenant.uid):
                    current = cluster.stores[kind].get(*entry.key)  # it may differ by now
                    key = cluster.get_key(kind, current) if current is not None else None
                    if key is not None and key.tenant == tenant.uid:
                        self.observe(kind, key, current)
                    counted += 1
                    if counted % _ENTRIES_PER_STEP == 0:
                        await asyncio.sleep(0)
        if CLAIM in added:
            for volume in volumes.index(RETAINED_INDEX, tenant.root):
                self.observe_volume(volume, claims)
        return accountant

    def forget(self, uid: str) -> None:
        """Forget a tenant that no longer exists."""
        self._accountants.pop(uid, None)
        self._uids_by_root = {
            root: each for root, each in self._uids_by_root.items() if each != uid
        }
        self._collect_kinds()

    def forget_cluster(self, name: str) -> None:
        """Release the objects in a target that is no longer declared."""
        for accountant in self._accountants.values():
            accountant.retain(name, ())

    def _collect_kinds(self) -> None:
        kinds = (each.kinds for each in self._accountants.values())
        self.counted_kinds = frozenset[str]().union(*kinds)

    def observe(self, kind: str, key: Key, entry: Entry | None, old: Entry | None = None) -> None:
        """Record what a cache shows of a super object."""
        accountant = self._accountants.get(key.tenant)
        if accountant is None or kind not in accountant.kinds:
            return
        if entry is None:
            accountant.observe(key, None)
            return
        if (
            old is not None
            and old.uid == entry.uid
            and usage.is_usage_unchanged(kind, old, entry)
            and accountant.observe_version(key, entry.resource_version)
        ):
            return
        found = _decode(entry) if usage.must_decode(kind) else {}
        accountant.observe(key, usage.compute_usage(kind, found), entry.resource_version)

    def observe_volume(self, volume: Entry, claims: Store, *, is_deleted: bool = False) -> None:
        """Charge a volume whose claim is deleted, if its policy is Retain."""
        spec = as_mapping(_decode(volume).get("spec"))
        reference = as_mapping(spec.get("claimRef"))
        namespace, name = str(reference.get("namespace") or ""), str(reference.get("name") or "")
        uid = next(
            (
                self._uids_by_root[root]
                for root in reversed(list_possible_roots(namespace))
                if root in self._uids_by_root
            ),
            "",
        )
        accountant = self._accountants.get(uid)
        if accountant is None or CLAIM not in accountant.kinds:
            return
        claim = claims.get(namespace, name)
        is_bound = claim is not None and claim.uid == reference.get("uid")
        is_kept = spec.get("persistentVolumeReclaimPolicy") == "Retain"
        amounts = (
            usage.compute_volume_usage({"spec": spec})
            if is_kept and not is_bound and not is_deleted
            else NOTHING
        )
        accountant.observe(Key(uid, HOME, VOLUME, "", volume.name), amounts, "")


def _decode(entry: Entry) -> Mapping[str, Any]:
    """Return an object, or nothing for a body that no API server sends."""
    try:
        return entry.decode()
    except ValueError:
        return {}
