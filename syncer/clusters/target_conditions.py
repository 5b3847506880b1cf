"""What is said of a target on its SuperCluster, and the word that ends a hold there.

Owns the conditions Followed and LossesHeld, `status.losses`, which a confirmation reads, and how a
person's confirmation is taken off. Must not judge: `syncer.safety.pod_loss_guard` does. Hazards:
all of it is applied together. An apply that leaves a part out deletes that part. And a confirmation
is used up by being read, or it would end the next hold as well; but one that names another cluster
is for vc-manager first, which has to take that for the one that is meant.
"""

import contextlib
from datetime import UTC, datetime
from typing import Any

from kubeio import errors
from kubeio.api.client import Client
from kubeio.cache.store import Entry
from syncer.safety import confirmations
from syncer.safety.pod_loss_guard import Loss, Muster, is_state
from tenancy import conditions, wellknown
from tenancy.conditions import Condition
from tenancy.resources import SUPER_CLUSTERS
from tenancy.super_clusters import FOLLOWED, LOSSES_HELD, REACHABLE

WATCHES = "Watched"
NOT_FOLLOWED = "NotFollowed"
HELD = "PodsMissing"
NOTHING = "NothingMissing"
LOSSES = "losses"
"""Field of the status with the pods whose loss is held."""
_MAX_MESSAGE = 1024
_ALL = "All that tenants have there is listed and watched."
_NOT_HELD = "What tenants have there is there, or was seen to go."


async def say(client: Client, entry: Entry, *, problem: str, muster: Muster | None) -> None:
    """Write the conditions if they say something new.

    `problem` is why the target is not followed, empty while it is; without `muster` nothing is
    known of losses now, and what was said of them stays.
    """
    status = entry.decode().get("status") or {}
    live = status.get("conditions") or []
    wanted = [_followed(problem, entry)]
    before = conditions.find(live, LOSSES_HELD)
    losses = status.get(LOSSES)
    if muster is not None:
        loss = muster.tell() if muster.is_held else None
        losses = _losses(loss) if loss is not None else None
        if loss is not None or before is not None:
            wanted.append(_losses_held(loss, entry))
    elif before is not None:
        wanted.append(dict(before))
    is_said = all(_is_said(conditions.find(live, each["type"]), each) for each in wanted)
    if is_said and status.get(LOSSES) == losses:
        return
    held = {} if losses is None else {LOSSES: losses}
    body = {
        "apiVersion": SUPER_CLUSTERS.api_version,
        "kind": SUPER_CLUSTERS.kind,
        "metadata": {"name": entry.name, "uid": entry.uid},
        "status": {**held, "conditions": conditions.carry_times(live, wanted)},
    }
    with contextlib.suppress(errors.NotFound):
        await client.apply(
            SUPER_CLUSTERS, body, field_manager=wellknown.SYNCER, subresource="status"
        )


def _is_said(live: object, wanted: Condition) -> bool:
    told = ("status", "reason", "message")
    return isinstance(live, dict) and all(live.get(key) == wanted[key] for key in told)


def _followed(problem: str, entry: Entry) -> Condition:
    return conditions.condition(
        FOLLOWED,
        "False" if problem else "True",
        NOT_FOLLOWED if problem else WATCHES,
        problem[:_MAX_MESSAGE] or _ALL,
        now=_now(),
        generation=entry.generation,
    )


def _losses(loss: Loss) -> dict[str, Any]:
    """Return `status.losses`."""
    return {"state": loss.state, "missing": loss.missing, "total": loss.total}


def _losses_held(loss: Loss | None, entry: Entry) -> Condition:
    return conditions.condition(
        LOSSES_HELD,
        "False" if loss is None else "True",
        NOTHING if loss is None else HELD,
        _NOT_HELD if loss is None else loss.message[:_MAX_MESSAGE],
        now=_now(),
        generation=entry.generation,
    )


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _is_stale(word: str, entry: Entry) -> bool:
    """Tell whether a word is for another cluster than the one that answers, and is the known one.

    While it is not, vc-manager has yet to read the word; once it has, the known one is another.
    """
    status = entry.decode().get("status") or {}
    return word != status.get("identity") and conditions.is_true(
        status.get("conditions"), REACHABLE
    )


async def take(client: Client, entry: Entry, muster: Muster) -> None:
    """Take a person's word, and take it off, unless it is about another cluster."""
    word = entry.annotations.get(wellknown.CONFIRM_LOSSES, "")
    if not word:
        return
    is_taken = muster.confirm(word)
    if not (is_taken or is_state(word) or _is_stale(word, entry)):
        return
    await confirmations.take_off(
        client, SUPER_CLUSTERS, entry, annotation=wellknown.CONFIRM_LOSSES, word=word
    )
