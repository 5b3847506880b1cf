"""Due snapshots of a schedule, and those that exceed the number to keep.

Pure. Hazard: a time comes from the objects, and never from memory. A restart of vc-manager must
neither skip a snapshot nor create one twice.

Hazard: on a full volume the oldest file must go before the next one is saved. Otherwise each
further snapshot fails, because surplus files go only after a complete one.
"""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from tenancy import deletion
from tenancy.snapshots import view
from tenancy.snapshots.specs import SnapshotSchedule
from tenancy.snapshots.view import Snapshot

MIN_INTERVAL = timedelta(minutes=10)
OVERDUE_INTERVALS = 2
"""Number of intervals without a complete snapshot after which a schedule is overdue."""
_MAX_NAME = 253


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulePlan:
    """Snapshots to create and to delete."""

    create: str
    """Name of the snapshot to create. Empty: none is due."""
    room: Snapshot | None
    """Snapshot to delete before the new one is created, because the volume was full."""
    surplus: tuple[Snapshot, ...]
    is_overdue: bool
    next_seconds: float
    """Seconds until the next snapshot is due."""


def plan_schedule(
    schedule: SnapshotSchedule,
    existing: list[Snapshot],
    *,
    cluster_name: str,
    cluster_created: str,
    now: datetime,
) -> SchedulePlan:
    """Return what is due. `existing` are the snapshots of this schedule.

    A snapshot that found the volume full is repeated at once, because room is made for it.
    """
    name, names = _build_name(cluster_name, now), {each.name for each in existing}
    existing = [each for each in existing if not each.deleting]
    interval = max(deletion.parse_grace_period(schedule.interval), MIN_INTERVAL)
    began = _parse_time(cluster_created, now)
    created = [_parse_time(each.created, now) for each in existing]
    saved = [_parse_time(each.created, now) for each in existing if each.status.phase == "Complete"]
    is_running = any(each.status.phase in ("Pending", "Running") for each in existing)
    room = view.choose_room(existing, schedule.storage)
    is_repeat = room is not None and view.is_volume_full(max(existing, key=view.get_age_order))
    due = max(created) + interval if created and not is_repeat else now
    is_due = due <= now and not is_running and name not in names
    surplus = view.choose_surplus(existing, schedule.keep)
    return SchedulePlan(
        create=name if is_due else "",
        room=room if is_due and room not in surplus else None,
        surplus=tuple(surplus),
        is_overdue=now - max(saved, default=began) > OVERDUE_INTERVALS * interval,
        next_seconds=interval.total_seconds() if is_due else (due - now).total_seconds(),
    )


def _build_name(cluster_name: str, now: datetime) -> str:
    stamp = now.astimezone(UTC).strftime("%Y%m%d-%H%M")
    return f"{cluster_name}-{stamp}"[-_MAX_NAME:]


def _parse_time(text: str, otherwise: datetime) -> datetime:
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        return otherwise
    return found if found.tzinfo is not None else found.replace(tzinfo=UTC)
