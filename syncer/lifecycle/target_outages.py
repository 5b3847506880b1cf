"""Outages of the targets of one tenant: the keys that report them, and those after the return.

Owns the memory of targets that are unreachable or whose losses are held. Must not decide when a
target counts as unreachable. Hazard: after an outage every key must be queued, because no event
reports changes that were refused meanwhile.
"""

import asyncio
from collections.abc import Callable

from syncer.clusters.target_cluster import UNREACHABLE_SECONDS
from syncer.model.keys import NODE
from syncer.rules.placement import target_node
from syncer.tenants.target_session import TargetSession


class TargetOutages:
    """The outages of one tenant's targets."""

    def __init__(self, wake: Callable[[], None]) -> None:
        """`wake` is called when an outage must be reported."""
        self._wake = wake
        self._unreachable: set[str] = set()
        self._held: set[str] = set()
        self._timers: dict[str, asyncio.TimerHandle] = {}

    def handle_change(self, session: TargetSession) -> None:
        """Queue the keys that report the target's present state. If it is back, queue all keys."""
        name, is_away = session.name, session.scope.is_unreachable
        is_held = session.target.pod_loss_guard.is_tenant_held(session.tenant.uid)
        was_away, was_held = name in self._unreachable, name in self._held
        if is_away and not was_away:
            self._report_later(session)
        elif not is_away and (was_away or (was_held and not is_held)):
            for key in session.all_keys.list_keys():
                session.work.enqueue(key, low=True)
        (self._held.add if is_held else self._held.discard)(name)
        (self._unreachable.add if is_away else self._unreachable.discard)(name)
        session.work.enqueue(session.build_key(NODE, "", target_node.build_node_name(name)))

    def _report_later(self, session: TargetSession) -> None:
        """Schedule the keys and the status for the moment when the outage must be reported."""
        left = max(UNREACHABLE_SECONDS - session.target.get_unreachable_seconds(), 0.0)
        before = self._timers.pop(session.name, None)
        if before is not None:
            before.cancel()
        self._timers[session.name] = asyncio.get_running_loop().call_later(left, self._wake)
        for entry in session.stores["Pod"].list():
            if session.pods.has(*entry.key):
                session.queue.add_after(session.build_key("Pod", *entry.key), left, low=True)

    def close(self) -> None:
        """Cancel the scheduled reports."""
        for timer in self._timers.values():
            timer.cancel()
