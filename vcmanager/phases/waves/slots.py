"""Slots of a rollout, as marks in the status of the ClusterVersion.

Owns the writes of the marks. Hazards: a mark must be stored before the control plane changes, and
only the tenant's own reconcile may remove it while the tenant exists. Otherwise more tenants change
at the same time than the ClusterVersion permits. Each write names the resourceVersion that was
read, so that two processes cannot take the same slot.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import msgspec

from kubeio import Object
from tenancy import conditions, deletion, wellknown
from tenancy.control_plane_specs import RolloutSlot, RolloutSpec, RolloutStatus
from tenancy.ownership import Tenant
from tenancy.resources import CLUSTER_VERSIONS, VIRTUAL_CLUSTERS
from tenancy.specs import parse_cluster_version, parse_cluster_version_status
from vcmanager.phases.waves import admission
from vcmanager.phases.waves.admission import Admission, HoldReason, TenantState
from vcmanager.runtime.context import ReconcileContext

BROKEN_AFTER = timedelta(minutes=2)
"""Time for which a tenant must not be ready before it may be changed outside of the window."""

_HOLD_MESSAGES: Mapping[HoldReason, str] = {
    "Paused": "spec.rollout.paused is true",
    "Stopped": "the rollout has stopped, because a changed tenant is not ready",
    "OutsideWindow": "spec.rollout.window is closed",
    "SlotsTaken": "as many tenants as spec.rollout.maxUnavailable permits are changing",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A tenant whose control plane would change, and its ClusterVersion."""

    tenant: Tenant
    version_name: str
    spec: RolloutSpec
    rollout: RolloutStatus
    """State of the rollout when the reconcile began."""
    is_new: bool
    """Whether the tenant has never been ready, or its control plane is stopped and is to start."""
    is_broken: bool

    @property
    def has_slot(self) -> bool:
        """Return whether the tenant had a slot when the reconcile began."""
        return any(slot.uid == self.tenant.uid for slot in self.rollout.slots)


def is_broken(body: Mapping[str, Any], now: datetime) -> bool:
    """Return whether a VirtualCluster has not been ready for BROKEN_AFTER."""
    found = conditions.find_condition((body.get("status") or {}).get("conditions"), wellknown.READY)
    if found is None or found.get("status") == "True":
        return False
    since = conditions.parse_transition_time(found)
    return since is not None and now - since >= BROKEN_AFTER


async def acquire_slot(means: ReconcileContext, candidate: Candidate) -> str:
    """Mark a tenant, if it may change now. Return why it must wait, or an empty text.

    A tenant with a slot and a new tenant need no mark. Raises errors.Conflict if the ClusterVersion
    was changed meanwhile.
    """
    if candidate.has_slot or candidate.is_new:
        return ""
    known = candidate.rollout
    if known.tenants:  # no request while it is clear that the tenant must wait
        decision = _decide(means, candidate, known.slots, fleet=known.tenants)
        if candidate.tenant.uid not in decision.new_slots:
            return describe_hold(candidate.version_name, decision.hold or "SlotsTaken")
    async with means.rollout_lock:
        version = await means.super_client.get(CLUSTER_VERSIONS, candidate.version_name)
        rollout = parse_cluster_version_status(version).rollout
        users = await fetch_users(means, candidate.version_name, metadata_only=True)
        alive = drop_ended_slots(rollout.slots, users)
        if any(slot.uid == candidate.tenant.uid for slot in alive):
            return ""  # marked after the reconcile began
        spec = parse_cluster_version(version).rollout
        decision = _decide(means, candidate, alive, fleet=len(users), spec=spec)
        if candidate.tenant.uid not in decision.new_slots:
            return describe_hold(candidate.version_name, decision.hold or "SlotsTaken")
        mark = RolloutSlot(uid=candidate.tenant.uid, since=conditions.format_time(means.now()))
        changed = msgspec.structs.replace(rollout, tenants=len(users), slots=(*alive, mark))
        await write_rollout(means, version, {"rollout": encode_rollout(changed)})
    return ""


async def release_slot(means: ReconcileContext, version_name: str, uid: str) -> None:
    """Remove the mark of a tenant that is changed and ready. Raises errors.Conflict."""
    async with means.rollout_lock:
        version = await means.super_client.get(CLUSTER_VERSIONS, version_name)
        rollout = parse_cluster_version_status(version).rollout
        kept = tuple(slot for slot in rollout.slots if slot.uid != uid)
        if len(kept) < len(rollout.slots):
            changed = msgspec.structs.replace(rollout, slots=kept)
            await write_rollout(means, version, {"rollout": encode_rollout(changed)})


async def fetch_users(
    means: ReconcileContext, version_name: str, *, metadata_only: bool
) -> list[Object]:
    """Return the VirtualClusters that use a ClusterVersion."""
    page = await means.super_client.list(
        VIRTUAL_CLUSTERS,
        field_selector=f"spec.clusterVersionName={version_name}",
        metadata_only=metadata_only,
    )
    return list(page.get("items") or ())


def drop_ended_slots(
    slots: Iterable[RolloutSlot], users: Iterable[Mapping[str, Any]]
) -> tuple[RolloutSlot, ...]:
    """Return the slots without those of tenants that end or use another ClusterVersion."""
    alive = {each["metadata"]["uid"] for each in users if not _is_ending(each["metadata"])}
    return tuple(slot for slot in slots if slot.uid in alive)


def build_holders(slots: Sequence[RolloutSlot], now: datetime) -> list[TenantState]:
    """Return the tenants that have slots. A slot with an invalid time begins now."""
    return [
        TenantState(uid=slot.uid, slot_since=deletion.parse_time(slot.since) or now)
        for slot in slots
    ]


def describe_hold(version_name: str, hold: HoldReason) -> str:
    """Return the message of a tenant that waits."""
    return (
        f"ClusterVersion {version_name}: {_HOLD_MESSAGES[hold]}. The change of the control plane"
        " waits, and the tenant runs as before."
    )


def encode_rollout(rollout: RolloutStatus) -> dict[str, Any]:
    """Return a rollout as a server returns it, with a list of slots."""
    listed = [msgspec.to_builtins(slot) for slot in rollout.slots]
    return {**msgspec.to_builtins(rollout), "slots": listed}


async def write_rollout(
    means: ReconcileContext, version: Object, status: Mapping[str, Any]
) -> None:
    """Write parts of the status of a ClusterVersion that has not changed since it was read."""
    metadata = version["metadata"]
    patch = {
        "metadata": {"uid": metadata["uid"], "resourceVersion": metadata["resourceVersion"]},
        "status": dict(status),
    }
    await means.super_client.patch(
        CLUSTER_VERSIONS,
        metadata["name"],
        patch,
        subresource="status",
        field_manager=wellknown.MANAGER,
    )


def _decide(
    means: ReconcileContext,
    candidate: Candidate,
    slots: Sequence[RolloutSlot],
    *,
    fleet: int,
    spec: RolloutSpec | None = None,
) -> Admission:
    now = means.now()
    own = TenantState(uid=candidate.tenant.uid, is_broken=candidate.is_broken)
    states = [*build_holders(slots, now), own]
    return admission.decide_admission(states, spec or candidate.spec, fleet=fleet, now=now)


def _is_ending(metadata: Mapping[str, Any]) -> bool:
    return (
        "deletionTimestamp" in metadata
        or deletion.parse_scheduled_time(metadata.get("annotations") or {}) is not None
    )
