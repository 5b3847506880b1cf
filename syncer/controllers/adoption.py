"""Restoration of twins that lost the syncer's labels, by which the caches select.

Owns the live read of twins that vanished from the caches, and the write of their labels. Must not
decide about the twin: its key does after the twin is cached again. Hazard: a session must run when
a twin loses its labels. Otherwise no code finds the twin if its tenant object is deleted as well,
and it stays until its namespace is deleted.
"""

from collections.abc import Mapping
from typing import Any

import structlog

from kubeio import errors
from kubeio.controller.worker import NotReadyYet
from syncer.model.keys import Key
from syncer.rules.registry import SyncedKind, UpdateMethod
from syncer.safety.expectations import CACHE_BEHIND_SECONDS
from syncer.tenants.session import Session
from tenancy import ownership, wellknown

_log: structlog.stdlib.BoundLogger = structlog.get_logger(__name__)


async def find_vanished_twin(kind: SyncedKind, key: Key, session: Session) -> None:
    """Read a vanished twin live and restore its labels. Raises Wait if it exists."""
    place = session.lost_twins.get_vanished_twin(key)
    if place is None:
        return
    namespace, name = place
    try:
        live = await session.super_client.get(
            kind.resource, name, namespace=namespace, metadata_only=True
        )
    except errors.NotFound:
        session.lost_twins.clear_vanished_twin(key)
        return
    metadata = live["metadata"]
    if not session.tenant.owns(metadata) or "deletionTimestamp" in metadata:
        session.lost_twins.clear_vanished_twin(key)
        return
    await restore_labels(kind, metadata, session)
    raise NotReadyYet("the twin exists, the cache is behind", CACHE_BEHIND_SECONDS)


async def restore_labels(kind: SyncedKind, live: Mapping[str, Any], session: Session) -> None:
    """Restore the labels by which the caches select.

    `live` is the metadata of an object whose annotations prove that it belongs to this tenant.
    """
    namespace = (live.get("annotations") or {}).get(wellknown.NAMESPACE, "")
    wanted = ownership.build_owner_labels(session.tenant, namespace)
    if all((live.get("labels") or {}).get(key) == value for key, value in wanted.items()):
        return
    name, namespace = live["name"], live.get("namespace", "")
    if kind.update_method is UpdateMethod.REPLACE:
        whole = await session.super_client.get(kind.resource, name, namespace=namespace)
        if whole["metadata"]["uid"] == live["uid"]:
            whole["metadata"]["labels"] = {**(whole["metadata"].get("labels") or {}), **wanted}
            await session.writer.restore_labels(kind.resource, whole, is_whole=True)
    else:
        body = {"metadata": {"uid": live["uid"], "labels": wanted}}
        await session.writer.restore_labels(kind.resource, body, name=name, namespace=namespace)
    _log.warning("super.labels_restored", name=live["name"])
