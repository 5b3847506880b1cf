"""What is said of the pods that a target lost, on its SuperCluster, and the word that ends a hold.

Owns the condition LossesHeld and how a person's confirmation is taken off. Must not judge:
`syncer.muster` does. Hazard: a confirmation is used up by being read, or it would end the next hold
as well; but one that names another cluster is for vc-manager first, which has to take that for the
one that is meant.
"""

import contextlib
from datetime import UTC, datetime

import structlog

from kubeio import errors
from kubeio.client import Client
from kubeio.store import Entry
from syncer.muster import Muster
from tenancy import conditions, marks, super_clusters
from tenancy.resources import SUPER_CLUSTERS

HELD = "PodsMissing"
NOTHING = "NothingMissing"
_MAX_MESSAGE = 1024
_NOT_HELD = "What tenants have there is there, or was seen to go."

_log: structlog.stdlib.BoundLogger = structlog.get_logger(__name__)


async def say(client: Client, entry: Entry, muster: Muster) -> None:
    """Write the condition if it says something new; one that never had a hold is left alone."""
    live = (entry.decode().get("status") or {}).get("conditions") or []
    before = conditions.find(live, super_clusters.LOSSES_HELD)
    message = muster.message[:_MAX_MESSAGE] if muster.is_held else _NOT_HELD
    status = "True" if muster.is_held else "False"
    if before is None and not muster.is_held:
        return
    if before is not None and (before["status"], before["message"]) == (status, message):
        return
    said = conditions.condition(
        super_clusters.LOSSES_HELD,
        "True" if muster.is_held else "False",
        HELD if muster.is_held else NOTHING,
        message,
        now=datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        generation=entry.generation,
    )
    body = {
        "apiVersion": SUPER_CLUSTERS.api_version,
        "kind": SUPER_CLUSTERS.kind,
        "metadata": {"name": entry.name, "uid": entry.uid},
        "status": {"conditions": conditions.carry_times(live, [said])},
    }
    with contextlib.suppress(errors.NotFound):
        await client.apply(
            SUPER_CLUSTERS, body, field_manager=marks.SYNCER, subresource="status"
        )


async def take(client: Client, entry: Entry, muster: Muster) -> None:
    """Take a person's word, and take it off, unless it is about another cluster."""
    word = entry.annotations.get(marks.CONFIRM_LOSSES, "")
    if not word:
        return
    is_taken = muster.confirm(word)
    if not (is_taken or conditions.is_state(word)):
        return
    path = f"/metadata/annotations/{marks.CONFIRM_LOSSES.replace('/', '~1')}"
    operations = [
        {"op": "test", "path": "/metadata/uid", "value": entry.uid},
        {"op": "test", "path": path, "value": word},
        {"op": "remove", "path": path},
    ]
    try:
        await client.patch(
            SUPER_CLUSTERS, entry.name, operations, kind="json", field_manager=marks.SYNCER
        )
    except (errors.Invalid, errors.NotFound) as problem:
        _log.info("target.confirmation_changed", problem=str(problem))
