"""Deletion of super objects, with a proof that depends on its grounds.

Owns the proof before any delete in super clusters. Must not know why. An object whose deletion was
seen, or that has a deletionTimestamp, is deleted with its UID as precondition. Absence from a cache
is only a suspicion. Then both sides are read live, and the tenant's store must be verified
afterwards. Hazard: super objects may be deleted here only. Any other delete bypasses the delete
protection.
"""

import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import structlog

from kubeio import Object, errors
from kubeio.cache.store import Entry
from kubeio.controller.worker import NotReadyYet
from syncer.model.decide import DeleteGrounds
from syncer.model.keys import Key
from syncer.safety.guarded_writer import GuardedWriter, ObjectReader
from syncer.safety.hot_loop_guard import WriteScope
from syncer.safety.parked_differences import ParkedDifferences
from syncer.safety.store_guard import StoreGuard
from tenancy import ownership
from tenancy.resources import Resource

_log: structlog.stdlib.BoundLogger = structlog.get_logger(__name__)


def never_hidden(_: Mapping[str, Any]) -> bool:
    """Return False: the watch leaves out no object."""
    return False


_GROUNDS_WITH_ABSENCE = frozenset({DeleteGrounds.ABSENT, DeleteGrounds.SUCCEEDED})


class DeleteTarget(NamedTuple):
    """A super object to delete, whose tenant object no longer exists."""

    key: Key
    resource: Resource
    entry: Entry
    """The super object from the cache."""
    grounds: DeleteGrounds
    has_tenant_twin: bool = True
    """Whether a tenant object has the key's name. A token Secret has none."""
    is_hidden: Callable[[Mapping[str, Any]], bool] = never_hidden
    """Whether a tenant object with this metadata counts as absent. Its watch leaves it out."""


def build_own_target(key: Key, resource: Resource, entry: Entry) -> DeleteTarget:
    """Return an unwanted object of the syncer itself. No tenant object has the key's name."""
    return DeleteTarget(
        key=key,
        resource=resource,
        entry=entry,
        grounds=DeleteGrounds.UNWANTED,
        has_tenant_twin=False,
    )


class _SentDelete(NamedTuple):
    uid: str
    forced: bool


class ProvenDeletes:
    """Deletes the super objects of one tenant."""

    def __init__(
        self,
        *,
        store_guard: StoreGuard,
        tenant_client: ObjectReader,
        super_client: ObjectReader,
        writer: GuardedWriter,
        parked: ParkedDifferences,
        registration: str = "",
    ) -> None:
        """`registration` is the tenant's, as in `tenancy.ownership`."""
        self._store_guard = store_guard
        self._tenant_client = tenant_client
        self._super_client = super_client
        self._writer = writer
        self._parked = parked
        self._registration = registration
        self._ended_tenant_objects: dict[Key, _SentDelete] = {}

    def record_tenant_end(self, key: Key, uid: str, *, forced: bool = False) -> None:
        """Record that a running watch showed the end of a tenant object.

        `forced`: the tenant deleted a pod with grace period 0 although a node ran it.
        """
        self._ended_tenant_objects[key] = _SentDelete(uid, forced)

    def was_force_deleted(self, key: Key, uid: str) -> bool:
        """Return True if the tenant was seen to force the deletion of an object."""
        return self._ended_tenant_objects.get(key) == _SentDelete(uid, forced=True)

    def forget(self, key: Key) -> None:
        """Forget the recorded end, because the twin no longer exists either."""
        self._ended_tenant_objects.pop(key, None)

    async def delete_proven(
        self,
        target: DeleteTarget,
        *,
        grace_seconds: int | None = None,
        as_seen: bool = False,
        is_still: Callable[[], bool] = lambda: True,
        is_counted: bool = False,
    ) -> None:
        """Delete a super object if that is proved. Raises Wait if it is not.

        `as_seen`: the tenant object exists, and only the version in the cache is deleted. Raises
        Conflict if the version differs. `is_still` is called last, because a proof needs time. It
        returns whether the reason to delete still applies. `is_counted`: the hot loop guard counts
        the delete as a write of the key.
        """
        self._store_guard.check_not_held()
        revision = ""
        if as_seen:
            revision = target.entry.resource_version
        elif self._needs_proof(target):
            revision = await self._prove_delete(target)
            if not revision:
                return
            if not is_still():
                raise NotReadyYet("it is needed again")
        is_deleted = await self._writer.delete_super_object(
            target.key,
            target.resource,
            target.entry,
            resource_version=revision,
            grace_seconds=grace_seconds,
            is_counted=is_counted,
        )
        if is_deleted:
            _log.debug("super.deleted", grounds=target.grounds.name.lower(), grace=grace_seconds)

    async def delete_unless_parked(
        self,
        scope: WriteScope,
        target: DeleteTarget,
        difference: Object,
        *,
        before: Mapping[str, Any],
        tenant_x: Entry | None,
        grace_seconds: int | None = None,
        as_seen: bool = False,
        is_counted: bool = False,
    ) -> bool:
        """Delete a super object that cannot be changed, so that it is recreated.

        Returns False if that is parked, because the same `difference` to `before` led to deletes
        too often.
        """
        if self._parked.has(scope, difference, before):
            return False
        await self.delete_proven(
            target, grace_seconds=grace_seconds, as_seen=as_seen, is_counted=is_counted
        )
        await self._parked.count_attempt(
            scope,
            difference,
            before=before,
            answer=difference,
            resource=target.resource,
            tenant_x=tenant_x,
        )
        return True

    def _needs_proof(self, target: DeleteTarget) -> bool:
        if target.grounds is DeleteGrounds.MARKED:
            return False
        owner = ownership.read_owner({"annotations": target.entry.annotations}, self._registration)
        seen = self._ended_tenant_objects.get(target.key)
        return seen is None or owner is None or seen.uid != owner.uid

    async def _prove_delete(self, target: DeleteTarget) -> str:
        """Read both sides live.

        Returns the super object's version, or an empty string if it is absent.
        """
        owner = ownership.read_owner({"annotations": target.entry.annotations}, self._registration)
        if target.grounds in _GROUNDS_WITH_ABSENCE and target.has_tenant_twin:
            tenant_uid = await self._fetch_tenant_uid(target)
            if owner is not None and tenant_uid == owner.uid:
                raise NotReadyYet("the tenant object lives, the cache is behind", 1.0)
        await self._store_guard.verify_store(
            time.monotonic()
        )  # not before the tenant's answer was read
        try:
            live = await self._super_client.get(
                target.resource,
                target.entry.name,
                namespace=target.entry.namespace,
                metadata_only=True,
            )
        except errors.NotFound:
            return ""
        metadata = live["metadata"]
        if (
            metadata["uid"] != target.entry.uid
            or ownership.read_owner(metadata, self._registration) != owner
        ):
            raise NotReadyYet("the super object is another one now, the cache is behind", 1.0)
        return str(metadata["resourceVersion"])

    async def _fetch_tenant_uid(self, target: DeleteTarget) -> str:
        try:
            found = await self._tenant_client.get(
                target.resource,
                target.key.name,
                namespace=target.key.namespace,
                metadata_only=True,
            )
        except errors.NotFound:
            return ""
        return "" if target.is_hidden(found["metadata"]) else str(found["metadata"]["uid"])
