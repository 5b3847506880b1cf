"""Decision on the next change of the members of a tenant's etcd.

Pure. One step at a time, each from the list of members, their answers and the desired number. A
step that fails or is interrupted is decided again from what etcd then reports, so no plan is kept.

A member is added as a learner, which has no vote, and is promoted when it has all data. A member
that lost its data is removed and added with another ID. Hazard: a member that starts with an empty
disk and its old ID has forgotten its votes and acknowledged writes, and etcd may lose data.

Hazard: a step must never leave fewer healthy voters than a quorum. No member is removed unless the
remaining voters that answer are a quorum of the remaining voters.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from vcmanager.runtime.etcd_stores import DesiredStore, EtcdObservation, Member

Action = Literal["settled", "wait", "add", "promote", "remove", "transfer", "defragment", "disarm"]


VOLUME_OCCUPIED = "VolumeOccupied"
"""Reason of a step that waits for the deletion of an old volume."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreStep:
    """The next step, with its reason for the condition EtcdMembersReady."""

    action: Action
    member: Member | None = None
    """Member to change. For `transfer`: the next leader."""
    ordinal: int | None = None
    """Ordinal to add."""
    reason: str = "AsDesired"
    message: str = ""


def compute_quorum(voters: int) -> int:
    """Return the number of voters that must agree."""
    return voters // 2 + 1


def choose_membership_step(desired: DesiredStore, found: EtcdObservation) -> StoreStep:
    """Return the next step. `settled` means that the members are as desired."""
    voters = [each for each in found.members if not each.is_learner]
    healthy = {each.id for each in voters if is_healthy(each, found)}
    if not voters or len(healthy) < compute_quorum(len(voters)):
        return StoreStep(
            action="wait",
            reason="NoQuorum",
            message=f"Only {len(healthy)} of {len(voters)} etcd members answer, so etcd accepts no"
            " change. Restore the missing members.",
        )
    learners = [each for each in found.members if each.is_learner]
    if learners:
        return _handle_learner(desired, found, learners[0])
    lost = [
        each
        for each in voters
        if each.ordinal in desired.lost and each.id not in found.statuses and each.is_started
    ]
    for each in lost:
        return StoreStep(
            action="remove",
            member=each,
            reason="ReplacingMember",
            message=f"The etcd member of pod etcd-{each.ordinal} lost its data and is replaced.",
        )
    # Before a removal, because only the ordinals from 0 on may stay.
    known = list_ordinals(voters)
    missing = [number for number in range(desired.replicas) if number not in known]
    if missing:
        return _add_missing(desired, voters, healthy, missing[0])
    surplus = [
        each for each in voters if each.ordinal is not None and each.ordinal >= desired.replicas
    ]
    if surplus:
        return _remove_surplus(desired, found, voters, max(surplus, key=_get_ordinal))
    return StoreStep(action="settled")


def is_healthy(member: Member, found: EtcdObservation) -> bool:
    """Return whether a member answers and has a leader."""
    status = found.statuses.get(member.id)
    return status is not None and status.has_leader


def _handle_learner(desired: DesiredStore, found: EtcdObservation, member: Member) -> StoreStep:
    name = f"etcd-{member.ordinal}"
    is_lost = member.is_started and member.ordinal in desired.lost
    if member.ordinal is None or member.ordinal >= desired.replicas:
        return StoreStep(
            action="remove",
            member=member,
            reason="Scaling",
            message=f"The etcd member of pod {name} is not needed and is removed.",
        )
    if is_healthy(member, found):
        return StoreStep(
            action="promote",
            member=member,
            reason="MemberJoining",
            message=f"The etcd member of pod {name} receives the data.",
        )
    if is_lost:
        return StoreStep(
            action="remove",
            member=member,
            reason="ReplacingMember",
            message=f"The etcd member of pod {name} lost its data and is replaced.",
        )
    return StoreStep(
        action="wait",
        reason="MemberStarting",
        message=f"Waiting for the pod {name} of a new etcd member. If its log contains `permanently"
        f" removed`, delete its claim data-{name} and the pod.",
    )


def _remove_surplus(
    desired: DesiredStore, found: EtcdObservation, voters: list[Member], target: Member
) -> StoreStep:
    reason, name = "Scaling", f"etcd-{target.ordinal}"
    staying = [each for each in voters if each is not target]
    healthy = [each for each in staying if is_healthy(each, found)]
    if len(healthy) < compute_quorum(len(staying)):
        return StoreStep(
            action="wait",
            reason="MemberUnhealthy",
            message=f"Pod {name} stays until more of the other etcd members answer.",
        )
    message = f"The etcd member of pod {name} is removed."
    status = found.statuses.get(target.id)
    successors = [
        each for each in healthy if each.ordinal is not None and each.ordinal < desired.replicas
    ]
    if status is not None and status.is_leader and successors:
        successor = min(successors, key=_get_ordinal)
        return StoreStep(action="transfer", member=successor, reason=reason, message=message)
    return StoreStep(action="remove", member=target, reason=reason, message=message)


def _add_missing(
    desired: DesiredStore, voters: list[Member], healthy: set[str], ordinal: int
) -> StoreStep:
    if len(healthy) < len(voters):
        return StoreStep(
            action="wait",
            reason="MemberUnhealthy",
            message=f"Pod etcd-{ordinal} is added when all other etcd members answer.",
        )
    if ordinal in desired.occupied:
        return StoreStep(
            action="wait",
            reason=VOLUME_OCCUPIED,
            message=f"Waiting for the deletion of the old volume of pod etcd-{ordinal}.",
        )
    return StoreStep(
        action="add",
        ordinal=ordinal,
        reason="Scaling",
        message=f"An etcd member is added in pod etcd-{ordinal}.",
    )


def _get_ordinal(member: Member) -> int:
    return member.ordinal if member.ordinal is not None else -1


def list_ordinals(members: Iterable[Member]) -> frozenset[int]:
    """Return the ordinals of members."""
    return frozenset(each.ordinal for each in members if each.ordinal is not None)
