"""Conditions of a target on its SuperCluster, and the confirmation of a loss.

Owns the conditions Followed, LossesHeld and SyncRulesServed, `status.losses`, which a confirmation
reads, and the removal of a confirmation. Must not judge: `syncer.safety.pod_loss_guard` does.
Hazards: every apply must contain all of these fields. A field that an apply leaves out is deleted.
A confirmation must be removed once it was read. Otherwise it would end the next hold as well. An
exception is a confirmation that names a different cluster, because vc-manager must accept that
cluster first.
"""

import contextlib
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from kubeio import errors
from kubeio.api.client import Client
from kubeio.cache.store import Entry
from syncer.safety import confirmations
from syncer.safety.pod_loss_guard import Loss, PodLossGuard, is_state
from tenancy import conditions, wellknown
from tenancy.conditions import Condition
from tenancy.resources import SUPER_CLUSTERS
from tenancy.super_clusters import FOLLOWED, LOSSES_HELD, REACHABLE, SYNC_RULES_SERVED

WATCHED = "Watched"
NOT_FOLLOWED = "NotFollowed"
PODS_MISSING = "PodsMissing"
NO_PODS_MISSING = "NoPodsMissing"
RULES_SERVED = "Served"
RULE_NOT_SERVED = "RuleNotServed"
LOSSES = "losses"
"""Field of the status with the pods whose loss is held."""
_MAX_MESSAGE = 1024
_WATCHED_MESSAGE = "All objects of tenants in the target are listed and watched."
_RULES_SERVED_MESSAGE = "The target serves the kinds of all SyncRules with the placement WithPods."
_RULE_REMEDY = (
    f"Install the kind in the target, and create there a ClusterRole with the label"
    f" {wellknown.AGGREGATE_TO_SYNCER}=true and the rights that the home cluster grants."
)
_NOT_HELD_MESSAGE = "No pods of tenants are missing in the target."


async def write_target_conditions(
    client: Client,
    entry: Entry,
    *,
    problem: str,
    pod_loss_guard: PodLossGuard | None,
    rules: Mapping[str, str] | None = None,
) -> None:
    """Write the conditions if they changed.

    `problem` is the reason why the target is not connected, empty while it is. Without
    `pod_loss_guard` the losses are unknown now, and the earlier condition stays. `rules` has for
    each SyncRule why the target does not serve it, or an empty text. Without `rules` the earlier
    condition stays.
    """
    status = entry.decode().get("status") or {}
    live = status.get("conditions") or []
    wanted = [_build_followed(problem, entry)]
    before = conditions.find_condition(live, LOSSES_HELD)
    losses = status.get(LOSSES)
    if pod_loss_guard is not None:
        loss = pod_loss_guard.build_held_message() if pod_loss_guard.is_held else None
        losses = _build_losses_held(loss) if loss is not None else None
        if loss is not None or before is not None:
            wanted.append(_losses_held(loss, entry))
    elif before is not None:
        wanted.append(dict(before))
    served = conditions.find_condition(live, SYNC_RULES_SERVED)
    if rules:
        wanted.append(_build_rules_served(rules, entry))
    elif rules is None and served is not None:
        wanted.append(dict(served))
    is_stale = served is not None and rules is not None and not rules
    is_said = all(
        _is_up_to_date(conditions.find_condition(live, each["type"]), each) for each in wanted
    )
    if is_said and not is_stale and status.get(LOSSES) == losses:
        return
    held = {} if losses is None else {LOSSES: losses}
    body = {
        "apiVersion": SUPER_CLUSTERS.api_version,
        "kind": SUPER_CLUSTERS.kind,
        "metadata": {"name": entry.name, "uid": entry.uid},
        "status": {**held, "conditions": conditions.carry_transition_times(live, wanted)},
    }
    with contextlib.suppress(errors.NotFound):
        await client.apply(
            SUPER_CLUSTERS, body, field_manager=wellknown.SYNCER, subresource="status"
        )


def _is_up_to_date(live: object, wanted: Condition) -> bool:
    told = ("status", "reason", "message")
    return isinstance(live, dict) and all(live.get(key) == wanted[key] for key in told)


def _build_followed(problem: str, entry: Entry) -> Condition:
    return conditions.build_condition(
        FOLLOWED,
        "False" if problem else "True",
        NOT_FOLLOWED if problem else WATCHED,
        problem[:_MAX_MESSAGE] or _WATCHED_MESSAGE,
        now=_now(),
        generation=entry.generation,
    )


def _build_losses_held(loss: Loss) -> dict[str, Any]:
    """Return `status.losses`."""
    return {"state": loss.state, "missing": loss.missing, "total": loss.total}


def _build_rules_served(rules: Mapping[str, str], entry: Entry) -> Condition:
    unserved = [
        f"SyncRule {name}: {reason.rstrip('.')}." for name, reason in rules.items() if reason
    ]
    text = " ".join(unserved)[: _MAX_MESSAGE - len(_RULE_REMEDY) - 1]
    return conditions.build_condition(
        SYNC_RULES_SERVED,
        "False" if unserved else "True",
        RULE_NOT_SERVED if unserved else RULES_SERVED,
        f"{text} {_RULE_REMEDY}" if unserved else _RULES_SERVED_MESSAGE,
        now=_now(),
        generation=entry.generation,
    )


def _losses_held(loss: Loss | None, entry: Entry) -> Condition:
    return conditions.build_condition(
        LOSSES_HELD,
        "False" if loss is None else "True",
        NO_PODS_MISSING if loss is None else PODS_MISSING,
        _NOT_HELD_MESSAGE if loss is None else loss.message[:_MAX_MESSAGE],
        now=_now(),
        generation=entry.generation,
    )


def _now() -> str:
    return conditions.format_time(datetime.now(UTC))


def _is_stale_confirmation(confirmation: str, entry: Entry) -> bool:
    """Return True if a confirmation names a different cluster although the known one answers.

    While the known one does not answer, vc-manager has yet to read the confirmation. Afterwards the
    known cluster is a different one.
    """
    status = entry.decode().get("status") or {}
    return confirmation != status.get("identity") and conditions.is_true(
        status.get("conditions"), REACHABLE
    )


async def apply_confirmation(client: Client, entry: Entry, pod_loss_guard: PodLossGuard) -> None:
    """Apply a confirmation and remove it, unless it is for a different cluster."""
    word = entry.annotations.get(wellknown.CONFIRM_LOSSES, "")
    if not word:
        return
    is_taken = pod_loss_guard.confirm_losses(word)
    if not (is_taken or is_state(word) or _is_stale_confirmation(word, entry)):
        return
    await confirmations.remove_confirmation(
        client, SUPER_CLUSTERS, entry, annotation=wellknown.CONFIRM_LOSSES, confirmation=word
    )
