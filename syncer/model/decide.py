"""What to do about one object, given both sides; pure.

Owns the rule of ownership: both UIDs, the VirtualCluster's and the tenant object's, make a super
object ours and this object's twin; a name only says where to look. Must not know kinds, bodies or
clients. Hazard: `Delete` says what should go, not that it may: `syncer.safety.proven_deletes` asks
for proof.
"""

from collections.abc import Mapping
from enum import Enum, auto
from typing import Any, NamedTuple

from kubeio.cache.store import Entry
from tenancy import ownership
from tenancy.ownership import Tenant


class Verdict(Enum):
    """The next step for a key."""

    NOTHING = auto()
    CREATE = auto()
    COMPARE = auto()
    """Both are there and belong together: write what differs, each direction its own fields."""
    DELETE = auto()
    """The twin has to go."""
    WAIT = auto()
    """The name below is being freed by somebody: a twin on its way out."""
    FOREIGN = auto()
    """Somebody else's object has the name; it is never touched."""


class Grounds(Enum):
    """What a delete rests on; decides how much proof it needs."""

    MARKED = auto()
    """The tenant object lives and has a deletionTimestamp."""
    ABSENT = auto()
    """The tenant object is not in the cache."""
    SUCCEEDED = auto()
    """Another tenant object has the name now."""
    UNWANTED = auto()
    """The tenant object lives and no longer takes part."""


class TenantSide(NamedTuple):
    """A tenant object as far as deciding needs it."""

    uid: str
    deleting: bool


class SuperSide(NamedTuple):
    """A super object as far as deciding needs it."""

    vc_uid: str
    """Empty when the object has no complete record."""
    uid: str
    """UID of the tenant object it records."""
    deleting: bool


class Decision(NamedTuple):
    """A verdict; a delete says what it rests on."""

    verdict: Verdict
    grounds: Grounds | None = None


NOTHING = Decision(Verdict.NOTHING)


def decide(
    tenant_x: TenantSide | None,
    super_x: SuperSide | None,
    *,
    vc_uid: str,
    wanted: bool = True,
    follows_mark: bool = True,
) -> Decision:
    """Return the next step.

    `wanted` tells whether the tenant object takes part at all. `follows_mark` is False for kinds
    whose twin stays until the tenant object is gone, not merely marked (namespaces).
    """
    marked = tenant_x is not None and tenant_x.deleting and follows_mark
    if super_x is None:
        if tenant_x is None or not wanted or tenant_x.deleting:
            return NOTHING
        return Decision(Verdict.CREATE)
    if super_x.vc_uid != vc_uid:
        needs_name = tenant_x is not None and wanted and not tenant_x.deleting
        return Decision(Verdict.FOREIGN) if needs_name else NOTHING
    if tenant_x is not None and tenant_x.uid == super_x.uid and wanted and not marked:
        return Decision(Verdict.WAIT if super_x.deleting else Verdict.COMPARE)
    if super_x.deleting:
        is_due = tenant_x is not None and wanted and not marked
        return Decision(Verdict.WAIT) if is_due else NOTHING
    return Decision(Verdict.DELETE, _grounds(tenant_x, super_x, marked=marked))


def _grounds(tenant_x: TenantSide | None, super_x: SuperSide, *, marked: bool) -> Grounds:
    if tenant_x is None:
        return Grounds.ABSENT
    if tenant_x.uid != super_x.uid:
        return Grounds.SUCCEEDED
    return Grounds.MARKED if marked else Grounds.UNWANTED


def tenant_side(entry: Entry | None) -> TenantSide | None:
    """Return what deciding needs of a cached tenant object."""
    return None if entry is None else TenantSide(entry.uid, entry.deleting)


def super_side(
    entry: Entry | None, namespace: str | None = None, *, registration: str = ""
) -> SuperSide | None:
    """Return what deciding needs of a cached super object.

    `namespace` is the tenant namespace that it must record, where it was looked up by one: a
    tenant that knows how long names are shortened can aim one namespace at another's, and what is
    there is then no predecessor but somebody else's. And so it is with what was made for another
    registration.
    """
    if entry is None:
        return None
    owner = ownership.owner_of({"annotations": entry.annotations}, registration)
    if owner is None or namespace not in (None, owner.namespace):
        return SuperSide("", "", entry.deleting)
    return SuperSide(owner.vc_uid, owner.uid, entry.deleting)


def is_owned(metadata: Mapping[str, Any], tenant: Tenant, uid: str) -> bool:
    """Tell whether a live super object is the twin of this tenant object."""
    owner = ownership.owner_of(metadata, tenant.registration)
    return owner is not None and owner.vc_uid == tenant.uid and owner.uid == uid
