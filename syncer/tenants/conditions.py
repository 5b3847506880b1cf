"""Conditions Synced, DeletesHeld and TargetsGranted of a VirtualCluster.

Owns their texts, `status.heldStore`, which a confirmation reads, and
`status.disconnectedForRestore`, which vc-manager reads. Writes them by server-side apply on the
status with a field manager of their own. Must not know how a session works. Hazard: every apply
must contain all of these fields. A field that an apply leaves out is deleted.
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
"""vc-manager waits for this reason before it deletes super namespaces."""
UNREACHABLE = "TenantUnreachable"
POLICY_MISSING = "PolicyMissing"
POLICY_UNREADABLE = "PolicyUnreadable"
REFUSING = "TenantRefusesWrites"
"""The tenant's API answers and refuses all writes. Causes are a webhook, or rights that were
removed.
"""
TOO_LARGE = "TooLarge"
"""The tenant's objects use more memory of the syncer than one tenant may use."""
SUSPENDED = "Suspended"
"""`VirtualCluster.spec.suspend` is set."""
ASLEEP = wellknown.ASLEEP
"""`VirtualCluster.spec.sleep` is set. vc-manager waits for it before it stops the API server."""
NO_SUCH_TARGET = "NoSuchTarget"
TARGETS_DECLARED = "Granted"
NETWORK_INVALID = "NetworkUnusable"
NETWORK_USABLE = "NetworkUsable"
STORE_CHANGED = "StoreChanged"
STORE_INTACT = "StoreIntact"

HELD_STORE = "heldStore"
"""Field of the status with the store for which deletes are held."""
DISCONNECTED_FOR_RESTORE = "disconnectedForRestore"
"""Field of the status with the request of the restore that the syncer has disconnected for."""

_OPTIONAL_CONDITIONS = (wellknown.TARGETS_GRANTED, wellknown.NETWORK_READY)
"""Conditions that a VirtualCluster has only with the field that they are about."""
_MAX_MESSAGE = 1024


def build_synced(*, reason: str, message: str, generation: int) -> Condition:
    """Return the condition Synced. It is true with the reason `ENGAGED` only."""
    return conditions.build_condition(
        wellknown.SYNCED,
        "True" if reason == ENGAGED else "False",
        reason,
        message[:_MAX_MESSAGE],
        now=_format_now(),
        generation=generation,
    )


def build_deletes_held(*, message: str, generation: int) -> Condition:
    """Return the condition DeletesHeld. An empty message means that deletes are not held."""
    return conditions.build_condition(
        wellknown.DELETES_HELD,
        "True" if message else "False",
        STORE_CHANGED if message else STORE_INTACT,
        message[:_MAX_MESSAGE] or "The tenant's etcd is the one that was synced before.",
        now=_format_now(),
        generation=generation,
    )


def build_targets_granted(*, missing: Sequence[str], generation: int) -> Condition:
    """Return the condition TargetsGranted.

    `missing` are the targets that `spec.targets` names and that no SuperCluster declares.
    """
    return conditions.build_condition(
        wellknown.TARGETS_GRANTED,
        "False" if missing else "True",
        NO_SUCH_TARGET if missing else TARGETS_DECLARED,
        (
            f"There is no SuperCluster {', '.join(missing)}, which spec.targets names. Create it"
            " with `kubectl vc target join`, or remove it from spec.targets."
        )[:_MAX_MESSAGE]
        if missing
        else "All targets in spec.targets have a SuperCluster.",
        now=_format_now(),
        generation=generation,
    )


def build_network_ready(*, problem: str, generation: int) -> Condition:
    """Return the condition NetworkReady. `problem` is why spec.network cannot be used, or empty."""
    return conditions.build_condition(
        wellknown.NETWORK_READY,
        "False" if problem else "True",
        NETWORK_INVALID if problem else NETWORK_USABLE,
        f"spec.network: {problem}."[:_MAX_MESSAGE]
        if problem
        else "Pods are created on the network of spec.network.",
        now=_format_now(),
        generation=generation,
    )


def held_store(uid: str) -> dict[str, str]:
    """Return `status.heldStore` for a store in which kube-system has this UID.

    The `uid` is left out when there is no kube-system. It is also left out when no API server
    writes such a UID. The tenant controls that text, and the CRD would refuse the whole status
    because of it.
    """
    return {"uid": uid} if names.is_uid(uid) else {}


def held_store_before(entry: Entry) -> dict[str, str] | None:
    """Return the present `status.heldStore`, for a write that does not change it."""
    found = (entry.decode().get("status") or {}).get(HELD_STORE)
    return dict(found) if found is not None else None


def get_other_conditions(entry: Entry) -> list[Condition]:
    """Return the present other conditions, for a write that does not change them."""
    live = (entry.decode().get("status") or {}).get("conditions") or ()
    found = (
        conditions.find_condition(live, kind)
        for kind in (wellknown.DELETES_HELD, *_OPTIONAL_CONDITIONS)
    )
    return [dict(each) for each in found if each is not None]


def _format_now() -> str:
    return conditions.format_time(datetime.now(UTC))


def has_synced(entry: Entry) -> bool:
    """Return True if a VirtualCluster has the condition Synced."""
    live = (entry.decode().get("status") or {}).get("conditions") or []
    return conditions.find_condition(live, wellknown.SYNCED) is not None


def is_up_to_date(live: Sequence[Mapping[str, Any]], wanted: Sequence[Condition]) -> bool:
    """Return True if the conditions already match, apart from their transition times."""
    told = ("status", "reason", "message", "observedGeneration")
    for condition in wanted:
        found = conditions.find_condition(live, condition["type"])
        if found is None or any(found.get(key) != condition[key] for key in told):
            return False
    return True


async def write_target_statuses(
    super_client: Client, entry: Entry, listed: Sequence[Mapping[str, Any]]
) -> None:
    """Write `status.targets`, the targets that may still have objects of a tenant.

    The list is written as a whole. It has a field manager of its own, because the conditions are
    applied without it.
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


async def write_conditions(
    super_client: Client,
    entry: Entry,
    wanted: Sequence[Condition],
    *,
    store: Mapping[str, str] | None,
    restore: str = "",
) -> None:
    """Write the conditions of a VirtualCluster and the fields beside them, if they changed.

    `store` is None while deletes are not held. `restore` is the request of the restore that the
    syncer has disconnected for.
    """
    status = entry.decode().get("status") or {}
    live = status.get("conditions") or []
    kinds = {condition["type"] for condition in wanted}
    is_over = any(
        kind not in kinds and conditions.find_condition(live, kind) for kind in _OPTIONAL_CONDITIONS
    )
    fields: dict[str, Any] = {}
    if store is not None:
        fields[HELD_STORE] = dict(store)
    if restore:
        fields[DISCONNECTED_FOR_RESTORE] = restore
    present = {
        name: status[name] for name in (HELD_STORE, DISCONNECTED_FOR_RESTORE) if name in status
    }
    if is_up_to_date(live, wanted) and present == fields and not is_over:
        return
    body = {
        "apiVersion": VIRTUAL_CLUSTERS.api_version,
        "kind": VIRTUAL_CLUSTERS.kind,
        "metadata": {"name": entry.name, "namespace": entry.namespace, "uid": entry.uid},
        "status": {**fields, "conditions": conditions.carry_transition_times(live, wanted)},
    }
    with contextlib.suppress(errors.NotFound):  # deleted meanwhile: there is no status to write
        await super_client.apply(
            VIRTUAL_CLUSTERS, body, field_manager=wellknown.SYNCER, subresource="status"
        )
