"""Decision on the next step for one object, given its tenant and super sides. Pure.

Owns the rule of ownership. A super object is this tenant's if it records the UID of the
VirtualCluster. It is the twin of a tenant object if it also records that object's UID. A name is
only the key for the lookup. Must not know kinds, bodies or clients.

Hazard: `syncer.safety.proven_deletes` must prove a `DELETE` verdict before it is executed.
Otherwise a gap in a cache can delete a live workload.
"""

from collections.abc import Mapping
from enum import Enum, auto
from typing import Any, NamedTuple

from kubeio.cache.store import Entry
from tenancy import ownership
from tenancy.ownership import Tenant


class SyncAction(Enum):
    """Next step for a key."""

    NOTHING = auto()
    CREATE = auto()
    COMPARE = auto()
    """Both objects exist and belong together. Differences must be written, each direction with its
    own fields."""
    DELETE = auto()
    """The twin must be deleted."""
    WAIT = auto()
    """The name in the super cluster is in use by a twin that is being deleted."""
    FOREIGN = auto()
    """An object of another owner has the name. It is never changed."""


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


class TenantState(NamedTuple):
    """Fields of a tenant object that the decision needs."""

    uid: str
    deleting: bool


class SuperState(NamedTuple):
    """Fields of a super object that the decision needs."""

    vc_uid: str
    """Empty if the object has no complete ownership record."""
    uid: str
    """UID of the tenant object that the super object records."""
    deleting: bool


class Decision(NamedTuple):
    """Verdict, with its reason in the case of a delete."""

    action: SyncAction
    grounds: DeleteGrounds | None = None


NO_ACTION = Decision(SyncAction.NOTHING)


def decide(
    tenant_x: TenantState | None,
    super_x: SuperState | None,
    *,
    vc_uid: str,
    wanted: bool = True,
    follows_mark: bool = True,
) -> Decision:
    """Return the next step.

    `wanted` is False if the tenant object is not selected for sync. `follows_mark` is False for
    kinds whose twin stays until the tenant object is deleted, not merely marked for deletion
    (namespaces).
    """
    marked = tenant_x is not None and tenant_x.deleting and follows_mark
    if super_x is None:
        if tenant_x is None or not wanted or tenant_x.deleting:
            return NO_ACTION
        return Decision(SyncAction.CREATE)
    if super_x.vc_uid != vc_uid:
        needs_name = tenant_x is not None and wanted and not tenant_x.deleting
        return Decision(SyncAction.FOREIGN) if needs_name else NO_ACTION
    if tenant_x is not None and tenant_x.uid == super_x.uid and wanted and not marked:
        return Decision(SyncAction.WAIT if super_x.deleting else SyncAction.COMPARE)
    if super_x.deleting:
        is_due = tenant_x is not None and wanted and not marked
        return Decision(SyncAction.WAIT) if is_due else NO_ACTION
    return Decision(SyncAction.DELETE, _choose_grounds(tenant_x, super_x, marked=marked))


def _choose_grounds(
    tenant_x: TenantState | None, super_x: SuperState, *, marked: bool
) -> DeleteGrounds:
    if tenant_x is None:
        return DeleteGrounds.ABSENT
    if tenant_x.uid != super_x.uid:
        return DeleteGrounds.SUCCEEDED
    return DeleteGrounds.MARKED if marked else DeleteGrounds.UNWANTED


def build_tenant_state(entry: Entry | None) -> TenantState | None:
    """Return the fields of a cached tenant object that the decision needs."""
    return None if entry is None else TenantState(entry.uid, entry.deleting)


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
        return SuperState("", "", entry.deleting)
    return SuperState(owner.vc_uid, owner.uid, entry.deleting)


def is_owned(metadata: Mapping[str, Any], tenant: Tenant, uid: str) -> bool:
    """Return whether a live super object is the twin of this tenant object."""
    owner = ownership.read_owner(metadata, tenant.super_cluster_uid)
    return owner is not None and owner.vc_uid == tenant.uid and owner.uid == uid
