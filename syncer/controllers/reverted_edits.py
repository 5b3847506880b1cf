"""Events about edits in a tenant that the syncer reverts, because the super cluster owns the field.

Owns the texts, by kind. Must not decide which edits are reverted. Hazard: an Event may follow only
an edit in the tenant. A change in the super cluster must cause none. Otherwise the Event blames the
tenant for it.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import orjson
import structlog

from kubeio import Object, errors
from kubeio.cache.store import Entry, parse_entry
from syncer.model import diff
from syncer.model.keys import ADDRESS, NODE, VOLUME, Key
from syncer.rules import field_managers
from syncer.tenants.session import Session
from tenancy import wellknown
from tenancy.resources import Resource

SYNC_REVERTED = "SyncReverted"
"""Reason of the Event. Its message names the fields, the cause and the owner."""
REPEAT_SECONDS = 3600.0
"""Time in seconds after which the same edit is reported again.

API servers delete an Event after this time.
"""

_CLASS_OWNER = (
    "this object is shown from the super cluster. Ask your platform administrator to change it"
)
_STATUS_OWNER = (
    "the super cluster determines this part of the status. Conditions and fields that it does not"
    " have stay as they are"
)
_OWNERS: Mapping[str, str] = {
    ADDRESS: "a Service outside this cluster has the address. Use another one",
    NODE: (
        "this part of the node is shown from the super cluster. Ask your platform administrator to"
        " change it. Labels, annotations, taints and conditions of your own stay"
    ),
    VOLUME: (
        "this volume is shown from the super cluster. Ask your platform administrator to change it."
        " The TenantPolicy decides which values of spec.persistentVolumeReclaimPolicy you may set"
    ),
}
"""Texts by kind. The text for classes applies to the other kinds."""

_log: structlog.stdlib.BoundLogger = structlog.get_logger(__name__)


async def report_reverted(
    resource: Resource,
    tenant_x: Entry,
    paths: Sequence[str],
    session: Session,
    *,
    is_status: bool = False,
) -> None:
    """Report fields whose edit was reverted. The same fields cause one Event."""
    is_shared_status = is_status and resource.kind not in _OWNERS
    owner = _STATUS_OWNER if is_shared_status else _OWNERS.get(resource.kind, _CLASS_OWNER)
    message = f"{diff.format_paths(sorted(paths))}: the edit was reverted, because {owner}."
    await _record(resource, tenant_x, message, session)


async def report_recreated(key: Key, resource: Resource, written: Object, session: Session) -> None:
    """Report a shown object that was created again, if the tenant had deleted it.

    `written` is the answer to the create.
    """
    if not session.synced_states.pop_deletion(key):
        return
    entry = parse_entry(orjson.dumps(written), api_version=resource.api_version, kind=resource.kind)
    owner = _OWNERS.get(resource.kind, _CLASS_OWNER)
    message = f"metadata.name {entry.name}: the object was created again, because {owner}."
    await _record(resource, entry, message, session)


async def report_restored_keys(
    resource: Resource, tenant_x: Entry, paths: Sequence[str], session: Session
) -> None:
    """Report labels and annotations of the super cluster that the tenant removed."""
    message = (
        f"{diff.format_paths(sorted(paths))}: the removal was reverted, because the super cluster"
        " sets this key. A value of your own stays."
    )
    await _record(resource, tenant_x, message, session)


async def report_policy_refused(
    resource: Resource, tenant_x: Entry, path: str, field: str, session: Session
) -> None:
    """Report a field that the tenant may set only if its policy allows the value."""
    message = (
        f"{path}: the edit was reverted, because {field} of the TenantPolicy does not list the"
        " value. Ask your platform administrator to add it."
    )
    await _record(resource, tenant_x, message, session)


async def _record(resource: Resource, tenant_x: Entry, message: str, session: Session) -> None:
    _log.info("tenant.reverted", message=message)
    await session.event_recorder.record(
        resource,
        tenant_x,
        reason=SYNC_REVERTED,
        message=message,
        repeat_seconds=REPEAT_SECONDS,
    )


async def was_edited(
    key: Key,
    resource: Resource,
    tenant_x: Entry,
    paths: Sequence[str],
    session: Session,
    *,
    subresource: str = "",
) -> bool:
    """Return whether fields of a shown object were edited since a restart of the syncer, or before.

    Without a record of the last state, the field managers show who set the fields. They are read
    live, which happens only for objects that differ after a restart.
    """
    if session.synced_states.has(key, subresource) or not paths:
        return False
    try:
        live = await session.tenant_client.get(resource, tenant_x.name)
    except errors.ApiError as problem:  # deleted, or a right that an older tenant does not grant
        _log.debug("tenant.managers_unknown", problem=str(problem))
        return False
    is_same = live["metadata"].get("resourceVersion") == tenant_x.resource_version
    return is_same and field_managers.is_set_by_other(live["metadata"], paths, wellknown.SYNCER)


def list_changed_paths(body: Object, before: Mapping[str, Any]) -> list[str]:
    """Return the leaves that a write sets or removes in a tenant object."""
    there = {key: before[key] for key in body if key in before and key not in diff.HEAD_FIELDS}
    metadata = before.get("metadata") or {}
    own = {key: metadata.get(key) or {} for key in ("labels", "annotations")}
    there["metadata"] = {key: value for key, value in own.items() if key in body["metadata"]}
    return list(dict.fromkeys([*diff.find_lacking(body, before), *diff.find_lacking(there, body)]))
