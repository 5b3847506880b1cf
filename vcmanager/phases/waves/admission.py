"""Decision which tenants of one ClusterVersion may change their control plane now.

Pure. All inputs are in objects of the super cluster, so a restarted vc-manager decides the same.
A tenant that has a slot keeps it until its control plane is changed and ready, because half a
change must not stay.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, time, timedelta
from typing import Literal

from tenancy.control_plane_specs import RolloutSpec, RolloutWindow

HoldReason = Literal["Stopped", "Paused", "OutsideWindow", "SlotsTaken"]
"""Reason why a tenant waits. The first one that applies is reported."""

_WEEKDAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")


@dataclass(frozen=True, slots=True, kw_only=True)
class TenantState:
    """One tenant that has a slot, or whose control plane would change."""

    uid: str
    slot_since: datetime | None = None
    """Time at which the tenant got its slot. None without a slot."""
    is_new: bool = False
    """Whether the tenant has never been ready."""
    is_broken: bool = False
    """Whether the tenant has not been ready for some time. It need not wait for the window.

    Hazard: it takes a slot as every tenant. A faulty version would otherwise reach all tenants of a
    node that is lost meanwhile.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class Admission:
    """The decision."""

    admitted: frozenset[str]
    """UIDs of the tenants that may go on: these with a slot, new ones, and those that may take a
    free slot."""
    new_slots: frozenset[str]
    """UIDs of the admitted tenants that must be marked with a slot first."""
    failed: frozenset[str]
    """UIDs of the tenants whose deadline is over."""
    hold: HoldReason | None
    """Why further tenants wait. None while a slot is free."""


def decide_admission(
    tenants: Sequence[TenantState], spec: RolloutSpec, *, fleet: int, now: datetime
) -> Admission:
    """Return which tenants may go on.

    `tenants` are in the order in which they get slots. `fleet` is the number of all tenants of the
    ClusterVersion, of which a percentage is computed.
    """
    holders = {each.uid: each.slot_since for each in tenants if each.slot_since is not None}
    deadline = timedelta(seconds=spec.deadline_seconds)
    failed = frozenset(uid for uid, since in holders.items() if now - since > deadline)
    free = max(0, compute_limit(spec.max_unavailable, fleet) - len(holders.keys() - failed))
    hold = _find_hold(spec, len(failed), free, now)
    waiting = [each for each in tenants if each.slot_since is None]
    new = {each.uid for each in waiting if each.is_new}
    able = [
        each.uid
        for each in waiting
        if not each.is_new and (hold is None or (hold == "OutsideWindow" and each.is_broken))
    ]
    new_slots = frozenset(able[:free])
    return Admission(
        admitted=frozenset(holders) | new | new_slots,
        new_slots=new_slots,
        failed=failed,
        hold=hold,
    )


def compute_limit(wanted: int | str, fleet: int) -> int:
    """Return the number of tenants that may change at the same time, at least 1.

    A percentage is rounded down. An invalid value means 1, which is the most careful one.
    """
    if isinstance(wanted, int):
        return max(1, wanted)
    digits = wanted.removesuffix("%")
    if not wanted.endswith("%") or not (digits.isascii() and digits.isdigit()):
        return 1
    return max(1, fleet * min(int(digits), 100) // 100)


def is_within_window(window: RolloutWindow | None, now: datetime) -> bool:
    """Return whether tenants may begin now. `now` is in UTC. An invalid start closes the window."""
    if window is None:
        return True
    try:
        start = time.fromisoformat(window.start)
    except ValueError:
        return False
    length = timedelta(minutes=window.duration_minutes)
    for days in (0, 1):  # a window may begin on the day before
        begins = datetime.combine(now.date() - timedelta(days=days), start, tzinfo=now.tzinfo)
        is_day = not window.days or _WEEKDAYS[begins.weekday()] in window.days
        if is_day and begins <= now < begins + length:
            return True
    return False


def _find_hold(spec: RolloutSpec, failed: int, free: int, now: datetime) -> HoldReason | None:
    rules: tuple[tuple[HoldReason, bool], ...] = (
        ("Stopped", failed > spec.max_failed),  # first, because its alert must not end by a pause
        ("Paused", spec.paused),
        ("OutsideWindow", not is_within_window(spec.window, now)),
        ("SlotsTaken", free == 0),
    )
    return next((reason for reason, applies in rules if applies), None)
