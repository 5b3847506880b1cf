"""What the syncer says about a VirtualCluster: Synced, DeletesHeld and TargetsGranted.

Owns their words and their writing, by server-side apply on the status with a field manager of our
own, and `status.heldStore`, which a confirmation reads. Must not know how a session works. Hazard:
all of it is applied together. An apply that leaves a part out deletes that part.
"""

import contextlib
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from kubeio import errors
from kubeio.api.client import Client
from kubeio.cache.store import Entry
from tenancy import conditions, names, wellknown
from tenancy.conditions import Condition
from tenancy.resources import VIRTUAL_CLUSTERS

ENGAGED = "Engaged"
DISENGAGED = "Disengaged"
"""vc-manager waits for this word before it deletes super namespaces."""
UNREACHABLE = "TenantUnreachable"
POLICY_MISSING = "PolicyMissing"
POLICY_UNREADABLE = "PolicyUnreadable"
REFUSING = "TenantRefusesWrites"
"""The tenant's API answers and takes nothing: a webhook, or rights that were taken away."""
NO_SUCH_TARGET = "NoSuchTarget"
GRANTED = "Granted"
STORE_CHANGED = "StoreChanged"
STORE_INTACT = "StoreIntact"

HELD_STORE = "heldStore"
"""Field of the status with the store for which deletes are held."""

_MAX_MESSAGE = 1024


def synced(*, reason: str, message: str, generation: int) -> Condition:
    """Return the condition Synced; it is true for one reason only."""
    return conditions.condition(
        wellknown.SYNCED,
        "True" if reason == ENGAGED else "False",
        reason,
        message[:_MAX_MESSAGE],
        now=_now(),
        generation=generation,
    )


def deletes_held(*, message: str, generation: int) -> Condition:
    """Return the condition DeletesHeld; an empty message means that they are not."""
    return conditions.condition(
        wellknown.DELETES_HELD,
        "True" if message else "False",
        STORE_CHANGED if message else STORE_INTACT,
        message[:_MAX_MESSAGE] or "The tenant's store is the one that was synced before.",
        now=_now(),
        generation=generation,
    )


def targets_granted(*, missing: Sequence[str], generation: int) -> Condition:
    """Return the condition TargetsGranted; `missing` are named and not declared."""
    return conditions.condition(
        wellknown.TARGETS_GRANTED,
        "False" if missing else "True",
        NO_SUCH_TARGET if missing else GRANTED,
        (
            f"There is no SuperCluster {', '.join(missing)}, which spec.targets names; join it with"
            " `kubectl vc target join`, or take it out."
        )[:_MAX_MESSAGE]
        if missing
        else "Each super cluster that spec.targets names is declared.",
        now=_now(),
        generation=generation,
    )


def held_store(uid: str) -> dict[str, str]:
    """Return `status.heldStore` for a store whose kube-system has this UID.

    Without the `uid` when there is no kube-system. The same applies to a UID that no API server
    writes: it is the tenant's word, and the definition would refuse the whole status with it.
    """
    return {"uid": uid} if names.is_uid(uid) else {}


def held_store_before(entry: Entry) -> dict[str, str] | None:
    """Return `status.heldStore` as it stands, for a write that has nothing new to say about it."""
    found = (entry.decode().get("status") or {}).get(HELD_STORE)
    return dict(found) if found is not None else None


def held_before(entry: Entry) -> list[Condition]:
    """Return the others as they stand, for a write that has nothing new to say about them."""
    live = (entry.decode().get("status") or {}).get("conditions") or ()
    found = (
        conditions.find(live, kind) for kind in (wellknown.DELETES_HELD, wellknown.TARGETS_GRANTED)
    )
    return [dict(each) for each in found if each is not None]


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def was_said(entry: Entry) -> bool:
    """Tell whether a VirtualCluster carries the condition Synced."""
    live = (entry.decode().get("status") or {}).get("conditions") or []
    return conditions.find(live, wellknown.SYNCED) is not None


def is_said(live: Sequence[Mapping[str, Any]], wanted: Sequence[Condition]) -> bool:
    """Tell whether conditions say this already, whenever they began to."""
    told = ("status", "reason", "message", "observedGeneration")
    for condition in wanted:
        found = conditions.find(live, condition["type"])
        if found is None or any(found.get(key) != condition[key] for key in told):
            return False
    return True


async def say_targets(
    super_client: Client, entry: Entry, listed: Sequence[Mapping[str, Any]]
) -> None:
    """Write in which other super clusters there may be something of a tenant, one list as a whole.

    Under a name of its own, as the conditions are applied without it.
    """
    body = {
        "apiVersion": VIRTUAL_CLUSTERS.api_version,
        "kind": VIRTUAL_CLUSTERS.kind,
        "metadata": {"name": entry.name, "namespace": entry.namespace, "uid": entry.uid},
        "status": {"targets": [*listed]},
    }
    await super_client.apply(
        VIRTUAL_CLUSTERS, body, field_manager=f"{wellknown.SYNCER}-targets", subresource="status"
    )


async def say(
    super_client: Client,
    entry: Entry,
    wanted: Sequence[Condition],
    *,
    store: Mapping[str, str] | None,
) -> None:
    """Write the conditions of a VirtualCluster and `status.heldStore`, if they say something new.

    `store` is None while deletes are not held.
    """
    status = entry.decode().get("status") or {}
    live = status.get("conditions") or []
    kinds = {condition["type"] for condition in wanted}
    is_over = wellknown.TARGETS_GRANTED not in kinds and conditions.find(
        live, wellknown.TARGETS_GRANTED
    )
    if is_said(live, wanted) and status.get(HELD_STORE) == store and not is_over:
        return
    held = {} if store is None else {HELD_STORE: dict(store)}
    body = {
        "apiVersion": VIRTUAL_CLUSTERS.api_version,
        "kind": VIRTUAL_CLUSTERS.kind,
        "metadata": {"name": entry.name, "namespace": entry.namespace, "uid": entry.uid},
        "status": {**held, "conditions": conditions.carry_times(live, wanted)},
    }
    with contextlib.suppress(errors.NotFound):  # gone meanwhile; nobody is left to tell
        await super_client.apply(
            VIRTUAL_CLUSTERS, body, field_manager=wellknown.SYNCER, subresource="status"
        )
