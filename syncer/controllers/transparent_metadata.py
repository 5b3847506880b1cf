"""Sync of labels and annotations of a super object back to the tenant object.

Owns the order: foreign names are replaced, the change is computed, left-out keys are reported. Must
not know which keys are synced back. Hazard: a value may name other tenants, and must pass the
sanitizer before it reaches the tenant.
"""

from collections.abc import Mapping
from typing import Any

from kubeio import Object
from kubeio.cache.store import Entry
from syncer.controllers import rejection_events
from syncer.model import object_meta
from syncer.model.metadata import transparent_record
from syncer.rules import transparent_metadata
from syncer.rules.registry import SyncedKind
from syncer.rules.transparent_metadata import MAX_VALUE_LENGTH, SuperKeys
from syncer.tenants.session import Session


async def build_metadata_up(
    kind: SyncedKind,
    tenant_x: Entry,
    own: Object,
    live: Mapping[str, Any],
    session: Session,
    *,
    node: str = "",
) -> Object | None:
    """Return the merge patch of a tenant object's metadata, or None if it is as it should be.

    `own` is the tenant object, decoded. `live` is its super object, or empty if there must be none.
    `node` is a node that the tenant may know.
    """
    super_metadata, passing = live.get("metadata") or {}, session.view.policy.metadata
    found = transparent_metadata.list_super_keys(kind.resource.kind, super_metadata, passing)
    if not any(found.values()) and not transparent_record.has_record(own["metadata"]):
        return None  # as for most objects
    shown = _sanitize_values(found, own["metadata"], super_metadata, session, node)
    change = transparent_metadata.build_change(own["metadata"], shown)
    await rejection_events.report_adjusted(kind, tenant_x, change.problems, session)
    return transparent_metadata.build_body(own, change)


def _sanitize_values(
    found: SuperKeys,
    metadata: Mapping[str, Any],
    super_metadata: Mapping[str, Any],
    session: Session,
    node: str,
) -> SuperKeys:
    """Return the keys with values in the tenant's names. Values that are too large stay as they
    are, because they are left out.
    """
    if not any(found.values()):
        return found
    uids = (super_metadata["uid"], metadata["uid"])
    pairs = object_meta.build_name_pairs(
        session.tenant, super_metadata["namespace"], metadata["namespace"], uids
    )

    def sanitize(value: str) -> str:
        if len(value) > MAX_VALUE_LENGTH:
            return value
        said = object_meta.replace_names(value, pairs)
        return session.sanitizer.sanitize_text(said, node=node)

    return {
        field: {key: sanitize(value) for key, value in keys.items()}
        for field, keys in found.items()
    }
