"""Decisions on the space of a tenant's etcd: filling, defragmentation, and the space alarm.

Pure. etcd compares the size of its database file with its limit. The file has free pages after a
compaction, and only a defragmentation returns them. A member serves nothing while it is
defragmented, some seconds for each GiB. Hazard: only one member may be defragmented at a time, and
only while all members answer. The leader is the last one, because it serves all writes.

Hazard: etcd keeps the alarm NOSPACE until it is disarmed, even if space is free again. Until then
it refuses every write.
"""

from vcmanager.phases.etcd.membership import StoreStep, is_healthy
from vcmanager.runtime.etcd_stores import EtcdObservation, MemberStatus

FILLING_PERCENT = 75
"""Share of the limit that the data may use before StoreFilling is True."""
SPACE_PERCENT = 70
"""Share of the limit below which StoreFilling is False again. Otherwise it would flap."""
DISARM_PERCENT = 90
"""Size of the file in percent of the limit, below which an alarm is disarmed."""
_DEFRAGMENT_PERCENT = 60
"""Size of the file in percent of the limit, from which members are defragmented."""
_DEFRAGMENT_SINGLE_PERCENT = 80
"""The same for a single member, because its tenant waits meanwhile."""
_FREE_PERCENT = 30
"""Share of free pages in the file from which a defragmentation is worth its pause."""
_FREE_ALARMED_PERCENT = 5
"""The same while the alarm is active, because the tenant cannot write at all."""
_STEP = 5


def choose_maintenance_step(found: EtcdObservation) -> StoreStep:
    """Return the next step of a store with the desired members: defragment, disarm or settled."""
    if not found.members or not all(is_healthy(each, found) for each in found.members):
        return StoreStep(action="settled")
    is_alarmed = bool(found.alarmed)
    is_single = len(found.members) == 1
    # The leader last. False sorts before True.
    ordered = sorted(found.members, key=lambda each: (found.statuses[each.id].is_leader, each.id))
    for member in ordered:
        if _needs_defragmentation(found.statuses[member.id], is_alarmed, is_single):
            return StoreStep(action="defragment", member=member)
    if is_alarmed and all(_has_room(each) for each in found.statuses.values()):
        alarmed = [each for each in found.members if each.id in found.alarmed]
        return StoreStep(action="disarm", member=alarmed[0] if alarmed else None)
    return StoreStep(action="settled")


def compute_filling(found: EtcdObservation, *, was_filling: bool) -> tuple[bool, str, str] | None:
    """Return value, reason and message of StoreFilling. None if no member reported its limit.

    The message has steps of 5 %, so that it does not change with every object.
    """
    known = [each for each in found.statuses.values() if each.limit > 0]
    if not known:
        return None
    fullest = max(known, key=lambda each: each.used / each.limit)
    percent = fullest.used * 100 // fullest.limit
    size = f"{percent // _STEP * _STEP} % of its limit of {fullest.limit // 2**20} MiB"
    remedy = "Delete objects in the tenant, or enlarge etcdStorage."
    if found.alarmed:
        message = (
            f"The etcd of this tenant reached its limit and refuses writes. Its data uses {size}."
            f" {remedy} Writes are accepted again when the file is below {DISARM_PERCENT} % of the"
            " limit."
        )
        return True, "NoSpace", message
    if percent >= (SPACE_PERCENT if was_filling else FILLING_PERCENT):
        message = (
            f"The data in the etcd of this tenant uses {size}. At the limit, etcd refuses writes."
            f" {remedy}"
        )
        return True, "AboveThreshold", message
    return False, "SpaceLeft", "The etcd of this tenant has space left."


def _needs_defragmentation(status: MemberStatus, is_alarmed: bool, is_single: bool) -> bool:
    if status.limit <= 0 or status.size <= 0:
        return False
    free = status.free * 100 // status.size
    if is_alarmed:
        return free >= _FREE_ALARMED_PERCENT and not _has_room(status)
    from_percent = _DEFRAGMENT_SINGLE_PERCENT if is_single else _DEFRAGMENT_PERCENT
    return free >= _FREE_PERCENT and status.size * 100 >= from_percent * status.limit


def _has_room(status: MemberStatus) -> bool:
    return status.limit > 0 and status.size * 100 < DISARM_PERCENT * status.limit
