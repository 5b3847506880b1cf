"""Writer of one session: the one place that sends a reconciler's write to either cluster.

Owns the guards around a write, and their order. A parked write is left out. The client sends it.
The expectations record the event that will follow, the hot loop guard counts the write, and the
store guard records the tenant's revision of a twin. Last, a repeated difference is counted, which
may park it. Must not know kinds, and must not decide whether a write is necessary.

These modules write without it, because no key and no session is concerned:

- `syncer.safety.store_guard` writes the record by which the store guard judges.
- `syncer.safety.confirmations` removes annotations of the platform administrator's commands.
- `syncer.tenants.conditions` writes the status of a VirtualCluster in the home cluster.
- `syncer.lifecycle.inactive_tenants` deletes pods of a tenant that is asleep and has no session.
- `syncer.clusters.target_conditions` writes the status of a SuperCluster in the home cluster.
- `syncer.clusters.home_ruled_caches` removes the finalizer of a SyncRule in the home cluster.
- `syncer.clusters.super_cluster` creates a review of the own account, which stores nothing.
- `syncer.tenants.event_recorder` posts Events in the tenant. This module uses it for its own.

Hazard: every write to an object that a session caches must be recorded here. Otherwise its event
counts as a change by another writer, and the key is reconciled from an old state.
"""

from collections.abc import Awaitable, Callable
from typing import Protocol

import orjson
import structlog

from kubeio import Object, errors
from kubeio.api.client import Client, PatchKind
from kubeio.cache.store import Entry
from kubeio.controller.bucket_rate_limiter import BucketRateLimiter
from syncer.model import diff
from syncer.model.keys import Key
from syncer.rules.quota import usage
from syncer.safety.expectations import ClusterSide, Expectations, read_kept_version
from syncer.safety.hot_loop_guard import HotLoopGuard, WriteScope
from syncer.safety.parked_differences import ParkedDifferences
from syncer.safety.quota_accounting import QuotaAccountant
from syncer.safety.store_guard import StoreGuard
from tenancy import wellknown
from tenancy.resources import Resource

_MANAGER = wellknown.SYNCER

_log: structlog.stdlib.BoundLogger = structlog.get_logger(__name__)


class ObjectReader(Protocol):
    """The part of a client that reconcilers use. They write by the `GuardedWriter` only."""

    async def get(
        self, resource: Resource, name: str, *, namespace: str = "", metadata_only: bool = False
    ) -> Object:
        """Return an object. Raises NotFound."""
        ...


class GuardedWriter:
    """Writes of one session to its tenant and its super cluster.

    A write that creates or changes a super object raises NotReadyYet if the tenant has no tokens.
    It raises QuotaExceededError if its quota has no room.

    | method | parked | expected event | hot loop guard | store guard |
    |---|---|---|---|---|
    | `create_twin` | | yes | yes | yes |
    | `update_twin` | yes | yes | yes | yes |
    | `update_super_object` | yes | yes | | |
    | `patch_super_object` | yes | yes | yes | |
    | `create_super_object`, `replace_super_object` | | yes | yes | |
    | the same for a part, `patch_super_part` | | | yes | |
    | `delete_super_object` | | yes | if asked | |
    | `create_tenant_object` | | yes | yes | |
    | `patch_`, `replace_` and `apply_tenant_object` | yes | yes | yes | |
    | `delete_tenant_object` | | yes | if asked | |
    | `bind_pod` | | yes | | |
    | `restore_labels`, and all `*_unguarded` | | | | |

    A revision for the store guard is recorded only with the annotation that a twin has. No guard
    applies to objects that no cache of the session shows: Events, Leases and tokens. None applies
    to an eviction and to the record of an assigned cluster either. The tenant's API decides about
    the first, and a resourceVersion protects the second. The events of both must wake their keys.
    """

    def __init__(
        self,
        *,
        tenant_client: Client,
        super_client: Client,
        expectations: Expectations,
        hot_loop_guard: HotLoopGuard,
        store_guard: StoreGuard,
        parked: ParkedDifferences,
        quota: QuotaAccountant | None = None,
        write_tokens: BucketRateLimiter | None = None,
        on_twin_written: Callable[[], None] = lambda: None,
    ) -> None:
        """`on_twin_written` schedules an increase of the store's epoch. A token is one byte."""
        self._tenant_client = tenant_client
        self._super_client = super_client
        self._expectations = expectations
        self._hot_loop_guard = hot_loop_guard
        self._store_guard = store_guard
        self._parked = parked
        self._quota = quota or QuotaAccountant()
        self._write_tokens = write_tokens
        self._on_twin_written = on_twin_written

    # Twins in the super cluster.

    async def create_twin(
        self, key: Key, resource: Resource, twin: Object, tenant_x: Entry
    ) -> Object | None:
        """Create the twin of a tenant object.

        Returns the answer if it lacks a field of `twin`, otherwise None.
        """
        _stamp_revision(twin, tenant_x)
        self._take_tokens(twin)
        with self._quota.charge(key, resource.kind, twin) as charge:
            written = await self._super_client.create(resource, twin, field_manager=_MANAGER)
            charge.settle(written)
        is_taken = not diff.find_lacking(twin, written)
        self._record_twin(key, written, tenant_x, taken=is_taken)
        _log.debug("super.created")
        return None if is_taken else written

    async def update_twin(
        self,
        scope: WriteScope,
        resource: Resource,
        body: Object,
        *,
        before: Object,
        tenant_x: Entry,
        kind: PatchKind | None,
    ) -> Object | None:
        """Patch a twin, or replace it if `kind` is None. Returns the answer, or None if parked.

        `before` is the twin for which the body was computed.
        """
        if self._parked.has(scope, body, before):
            return None
        if not scope.subresource:  # a subresource stores no annotations
            _stamp_revision(body, tenant_x)
        self._take_tokens(*((body,) if kind is None else (before, body)))
        after = (
            body
            if kind is None
            else usage.apply_patch(resource.kind, before, body, scope.subresource)
        )
        with self._quota.charge(scope.key, resource.kind, after) as charge:
            if kind is None:
                written = await self._super_client.replace(resource, body, field_manager=_MANAGER)
            else:
                metadata = before["metadata"]
                written = await self._super_client.patch(
                    resource,
                    metadata["name"],
                    body,
                    kind=kind,
                    namespace=metadata.get("namespace", ""),
                    subresource=scope.subresource,
                    field_manager=_MANAGER,
                )
            charge.settle(written)
        self._record_twin(scope.key, written, tenant_x)
        _log.debug("super.changed", part=scope.subresource or "spec")
        await self._parked.count_attempt(
            scope, body, before=before, answer=written, resource=resource, tenant_x=tenant_x
        )
        return written

    def _record_twin(
        self, key: Key, written: Object, tenant_x: Entry, *, taken: bool = False
    ) -> None:
        """Record a written twin. `taken`: its event needs no work."""
        self._record(ClusterSide.SUPER, key, written, taken=taken)
        self._store_guard.record_write(tenant_x.resource_version)
        self._on_twin_written()

    def _take_tokens(self, *parts: Object) -> None:
        """Take the tokens of an object, or of an object and its patch, as etcd stores the whole."""
        if self._write_tokens is not None:
            self._write_tokens.take(sum(len(orjson.dumps(part)) for part in parts))

    # Other objects in the super cluster.

    async def create_super_object(
        self, key: Key, resource: Resource, body: Object, *, is_part: bool = False
    ) -> None:
        """Create an object that no tenant object describes.

        `is_part`: its key is of another kind, whose caches do not show it. No event is expected.
        """
        self._take_tokens(body)
        with self._quota.charge(key, resource.kind, body) as charge:
            written = await self._super_client.create(resource, body, field_manager=_MANAGER)
            charge.settle(written)
        if is_part:
            self._hot_loop_guard.count_write(key)
        else:
            self._record(ClusterSide.SUPER, key, written)

    async def replace_super_object(self, key: Key, resource: Resource, body: Object) -> None:
        """Replace an object that no tenant object describes."""
        self._take_tokens(body)
        with self._quota.charge(key, resource.kind, body) as charge:
            written = await self._super_client.replace(resource, body, field_manager=_MANAGER)
            charge.settle(written)
        self._record(ClusterSide.SUPER, key, written)

    async def update_super_object(
        self, scope: WriteScope, resource: Resource, body: Object, *, before: Object
    ) -> bool:
        """Replace an object that no tenant object describes. Returns False if that is parked.

        `before` is the object for which the body was computed. The hot loop guard counts repeated
        differences only, because the contents may change as often as the tenant's Services.
        """
        if self._parked.has(scope, body, before):
            return False
        self._take_tokens(body)
        with self._quota.charge(scope.key, resource.kind, body) as charge:
            written = await self._super_client.replace(resource, body, field_manager=_MANAGER)
            charge.settle(written)
        version = written["metadata"]["resourceVersion"]
        self._expectations.expect_update(ClusterSide.SUPER, scope.key, version)
        await self._parked.count_attempt(
            scope, body, before=before, answer=written, resource=resource, tenant_x=None
        )
        return True

    async def patch_super_object(
        self,
        scope: WriteScope,
        resource: Resource,
        body: Object,
        *,
        before: Object,
        tenant_x: Entry,
    ) -> bool:
        """Patch a cluster-scoped object that is no twin. Returns False if that is parked.

        `before` is the object for which the body was computed. `tenant_x` is the tenant object that
        shows it, which gets the Event about a parked write.
        """
        if self._parked.has(scope, body, before):
            return False
        self._take_tokens(before, body)
        written = await self._super_client.patch(
            resource, before["metadata"]["name"], body, field_manager=_MANAGER
        )
        self._record(ClusterSide.SUPER, scope.key, written)
        await self._parked.count_attempt(
            scope, body, before=before, answer=written, resource=resource, tenant_x=tenant_x
        )
        return True

    async def patch_super_part(self, key: Key, resource: Resource, body: Object) -> None:
        """Patch an object whose key is that of another kind. The body names it."""
        self._take_tokens(body)
        name, namespace = body["metadata"]["name"], body["metadata"]["namespace"]
        await self._super_client.patch(
            resource, name, body, namespace=namespace, field_manager=_MANAGER
        )
        self._hot_loop_guard.count_write(key)

    async def restore_labels(
        self,
        resource: Resource,
        body: Object,
        *,
        name: str = "",
        namespace: str = "",
        is_whole: bool = False,
    ) -> None:
        """Restore the labels of a twin that the caches do not show.

        Nothing is recorded. The event must wake the key, because its caller stops here. With
        `is_whole` the body replaces the object.
        """
        self._take_tokens(body)
        if is_whole:
            await self._super_client.replace(resource, body, field_manager=_MANAGER)
        else:
            await self._super_client.patch(
                resource, name, body, namespace=namespace, field_manager=_MANAGER
            )

    async def delete_super_object(
        self,
        key: Key,
        resource: Resource,
        entry: Entry,
        *,
        resource_version: str = "",
        grace_seconds: int | None = None,
        is_counted: bool = False,
    ) -> bool:
        """Delete a super object by its UID. Returns False if it does not exist.

        For `syncer.safety.proven_deletes` only. Any other caller bypasses the delete protection.
        """
        try:
            answer = await self._super_client.delete(
                resource,
                entry.name,
                namespace=entry.namespace,
                uid=entry.uid,
                resource_version=resource_version,
                grace_seconds=grace_seconds,
                propagation="Background",
            )
        except errors.NotFound:
            answer = None
        if answer is not None:
            version = read_kept_version(answer)
            self._expectations.expect_delete(ClusterSide.SUPER, key, entry, version, taken=True)
        if is_counted:
            self._hot_loop_guard.count_write(key)
        return answer is not None

    # Objects in the tenant.

    async def create_tenant_object(self, key: Key, resource: Resource, body: Object) -> Object:
        """Create an object of the syncer. Returns the answer."""
        written = await self._tenant_client.create(resource, body, field_manager=_MANAGER)
        self._record(ClusterSide.TENANT, key, written)
        return written

    async def replace_tenant_object(
        self,
        scope: WriteScope,
        resource: Resource,
        body: Object,
        *,
        before: Object,
        tenant_x: Entry,
    ) -> Object | None:
        """Replace an object of the syncer. Returns the answer, or None if that is parked."""
        if self._parked.has(scope, body, before):
            return None
        written = await self._tenant_client.replace(resource, body, field_manager=_MANAGER)
        self._record(ClusterSide.TENANT, scope.key, written)
        await self._parked.count_attempt(
            scope, body, before=before, answer=written, resource=resource, tenant_x=tenant_x
        )
        return written

    async def patch_tenant_object(
        self,
        scope: WriteScope,
        resource: Resource,
        body: Object,
        *,
        before: Object | None = None,
        tenant_x: Entry | None = None,
    ) -> str:
        """Patch a tenant object, unless that is parked. The UID in the body must be the object's.

        `before` and `tenant_x` are the object for which the body was computed. Without them the
        write is never parked, and its event wakes the key. Returns the resourceVersion of the
        answer if the answer is `before` with exactly this patch. Otherwise the result is empty.
        """
        if before is not None and self._parked.has(scope, body, before):
            return ""
        key = scope.key
        written = await self._tenant_client.patch(
            resource,
            key.name,
            body,
            namespace=key.namespace,
            subresource=scope.subresource,
            field_manager=_MANAGER,
        )
        # A caller without `before` has a next step after the event.
        taken = before is not None and diff.is_result_of_patch(before, body, written)
        self._record(ClusterSide.TENANT, key, written, taken=taken)
        _log.debug("tenant.changed", part=scope.subresource or "spec")
        if before is not None:
            await self._parked.count_attempt(
                scope, body, before=before, answer=written, resource=resource, tenant_x=tenant_x
            )
        return str(written["metadata"]["resourceVersion"]) if taken else ""

    async def apply_tenant_object(
        self, scope: WriteScope, resource: Resource, body: Object, tenant_x: Entry | None
    ) -> Object | None:
        """Apply an object of the syncer. Returns the answer, or None if that is parked.

        `tenant_x` is the object in the cache, or None if it is created.
        """
        before = tenant_x.decode() if tenant_x is not None else {}
        if self._parked.has(scope, body, before):
            return None
        written = await self._tenant_client.apply(
            resource, body, field_manager=_MANAGER, subresource=scope.subresource
        )
        self._record(ClusterSide.TENANT, scope.key, written)
        if tenant_x is None:
            return written
        await self._parked.count_attempt(
            scope, body, before=before, answer=written, resource=resource, tenant_x=tenant_x
        )
        return written

    async def delete_tenant_object(
        self,
        key: Key,
        resource: Resource,
        tenant_x: Entry,
        *,
        grace_seconds: int | None = None,
        is_counted: bool = True,
    ) -> bool:
        """Delete a tenant object by its UID. Returns False if it does not exist.

        `is_counted` is False for a pod or a node, whose creation counts.
        """
        try:
            answer = await self._tenant_client.delete(
                resource,
                key.name,
                namespace=key.namespace,
                uid=tenant_x.uid,
                grace_seconds=grace_seconds,
            )
        except errors.NotFound:
            return False
        self._expectations.expect_delete(
            ClusterSide.TENANT, key, tenant_x, read_kept_version(answer), taken=grace_seconds == 0
        )
        if is_counted:
            self._hot_loop_guard.count_write(key)
        return True

    async def bind_pod(
        self, key: Key, resource: Resource, binding: Object, tenant_x: Entry
    ) -> None:
        """Bind a tenant pod. The answer has no version, so any newer version is the event."""
        await self._tenant_client.create(
            resource, binding, name=key.name, subresource="binding", field_manager=_MANAGER
        )
        self._expectations.expect_any_update(ClusterSide.TENANT, key, tenant_x, taken=True)

    def _record(self, side: ClusterSide, key: Key, written: Object, *, taken: bool = False) -> None:
        version = written["metadata"]["resourceVersion"]
        self._expectations.expect_update(side, key, version, taken=taken)
        self._hot_loop_guard.count_write(key)

    # Writes in the tenant without a guard.

    def create_unguarded(
        self,
        resource: Resource,
        body: Object,
        *,
        namespace: str = "",
        name: str = "",
        subresource: str = "",
        field_manager: str = _MANAGER,
    ) -> Awaitable[Object]:
        """Create an Event, or request an eviction or a token."""
        return self._tenant_client.create(
            resource,
            body,
            namespace=namespace,
            name=name,
            subresource=subresource,
            field_manager=field_manager,
        )

    def patch_unguarded(
        self, resource: Resource, name: str, body: Object, *, namespace: str, subresource: str = ""
    ) -> Awaitable[Object]:
        """Patch an Event, or record the assigned cluster of a pod."""
        return self._tenant_client.patch(
            resource,
            name,
            body,
            namespace=namespace,
            subresource=subresource,
            field_manager=_MANAGER,
        )

    def apply_unguarded(self, resource: Resource, body: Object) -> Awaitable[Object]:
        """Apply a Lease, or the report of the quota."""
        return self._tenant_client.apply(resource, body, field_manager=_MANAGER)


def _stamp_revision(body: Object, tenant_x: Entry) -> None:
    """Record the tenant's revision in a twin, for the store guard."""
    body["metadata"].setdefault("annotations", {})[wellknown.STORE_REVISION] = (
        tenant_x.resource_version
    )
