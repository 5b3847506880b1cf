"""Decision on the next step for one object, given its tenant and super sides. Pure.

Owns the rule of ownership. A super object is this tenant's if it records the UID of the
VirtualCluster. It is the twin of a tenant object if it also records that object's UID. A name is
only the key for the lookup. Must not know kinds, bodies or clients.

Hazard: `syncer.safety.proven_deletes` must prove a `DeleteTwin` before it is executed.
Otherwise a gap in a cache can delete a live workload.
"""

from collections.abc import Mapping
from enum import Enum, auto
from typing import Any, NamedTuple

import msgspec

from kubeio.cache.store import Entry
from tenancy import ownership
from tenancy.ownership import Tenant


class DeleteGrounds(Enum):
    """Reason for a delete. It determines how much proof the delete needs."""

    MARKED = auto()
    """The tenant object exists and has a deletionTimestamp."""
    ABSENT = auto()
    """The tenant object is not in the cache."""
    SUCCEEDED = auto()
    """Another tenant object has the name now."""
    UNWANTED = auto()
    """The tenant object exists and is no longer selected for sync."""


class SuperState(NamedTuple):
    """A super object, with the fields of its ownership record that the decision needs."""

    entry: Entry
    vc_uid: str
    """Empty if the object has no complete ownership record."""
    uid: str
    """UID of the tenant object that the super object records."""


class NoAction(msgspec.Struct, frozen=True):
    """There is nothing to do."""


class CreateTwin(msgspec.Struct, frozen=True):
    """The tenant object has no twin."""

    tenant_x: Entry


class CompareTwin(msgspec.Struct, frozen=True):
    """Both objects exist and belong together. Differences must be written, each direction with its
    own fields.
    """

    tenant_x: Entry
    super_x: Entry


class DeleteTwin(msgspec.Struct, frozen=True):
    """The twin must be deleted."""

    super_x: Entry
    grounds: DeleteGrounds


class AwaitTwinEnd(msgspec.Struct, frozen=True):
    """The name in the super cluster is in use by a twin that is being deleted."""

    tenant_x: Entry


class ReportForeign(msgspec.Struct, frozen=True):
    """An object of another owner has the name. It is never changed."""

    tenant_x: Entry


SyncAction = NoAction | CreateTwin | CompareTwin | DeleteTwin | AwaitTwinEnd | ReportForeign
"""Next step for a key, with the objects that it was decided on."""
NO_ACTION = NoAction()


def decide(
    tenant_x: Entry | None,
    super_x: SuperState | None,
    *,
    vc_uid: str,
    wanted: bool = True,
    follows_mark: bool = True,
) -> SyncAction:
    """Return the next step.

    `wanted` is False if the tenant object is not selected for sync. `follows_mark` is False for
    kinds whose twin stays until the tenant object is deleted, not merely marked for deletion
    (namespaces).
    """
    if super_x is None or super_x.vc_uid != vc_uid:
        if tenant_x is None or not wanted or tenant_x.deleting:
            return NO_ACTION
        return CreateTwin(tenant_x) if super_x is None else ReportForeign(tenant_x)
    is_marked = tenant_x is not None and tenant_x.deleting and follows_mark
    if tenant_x is not None and wanted and not is_marked:
        if super_x.entry.deleting:
            return AwaitTwinEnd(tenant_x)
        if tenant_x.uid == super_x.uid:
            return CompareTwin(tenant_x, super_x.entry)
    elif super_x.entry.deleting:
        return NO_ACTION
    return DeleteTwin(super_x.entry, _choose_grounds(tenant_x, super_x, is_marked=is_marked))


def _choose_grounds(
    tenant_x: Entry | None, super_x: SuperState, *, is_marked: bool
) -> DeleteGrounds:
    if tenant_x is None:
        return DeleteGrounds.ABSENT
    if tenant_x.uid != super_x.uid:
        return DeleteGrounds.SUCCEEDED
    return DeleteGrounds.MARKED if is_marked else DeleteGrounds.UNWANTED


def build_super_state(
    entry: Entry | None, namespace: str | None = None, *, registration: str = ""
) -> SuperState | None:
    """Return the fields of a cached super object that the decision needs.

    `namespace` is the tenant namespace that the object must record, if the lookup used one. Hazard:
    a recorded namespace that differs must make the object foreign. Otherwise a tenant that knows
    how names are shortened can aim one of its namespaces at the super namespace of another tenant.
    The same applies to an object that was created for another registration.
    """
    if entry is None:
        return None
    owner = ownership.read_owner({"annotations": entry.annotations}, registration)
    if owner is None or namespace not in (None, owner.namespace):
        return SuperState(entry, "", "")
    return SuperState(entry, owner.vc_uid, owner.uid)


def is_owned(metadata: Mapping[str, Any], tenant: Tenant, uid: str) -> bool:
    """Return whether a live super object is the twin of this tenant object."""
    owner = ownership.read_owner(metadata, tenant.super_cluster_uid)
    return owner is not None and owner.vc_uid == tenant.uid and owner.uid == uid
