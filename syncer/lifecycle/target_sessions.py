"""Lifecycle of a tenant's sessions with targets.

Owns, for one connection, the targets with a session. These are the granted targets and those in the
tenant's status, as long as they are connected. Must not know the work of a session. Hazard: the
status must name a target before any object is created in it, and until no object is left. Otherwise
the objects would never be found again.
"""

import asyncio
import contextlib
from collections.abc import Callable, Collection, Iterable, Mapping, MutableMapping
from typing import Any

import structlog

from kubeio import errors
from kubeio.cache.store import Entry
from syncer.clusters.home_cluster import Home
from syncer.clusters.target_cluster import AWAY_SECONDS, Target
from syncer.handlers import tenant_events
from syncer.lifecycle.target_manager import Targets
from syncer.model.keys import NODE
from syncer.model.rejections import STUMBLES
from syncer.placement.assignments import NOWHERE
from syncer.rules.placement import target_node
from syncer.tenants import conditions
from syncer.tenants.connection import Link
from syncer.tenants.session import Session
from tenancy import wellknown
from tenancy.names import NameProblemError
from tenancy.specs import SpecProblemError, VirtualCluster, parse_virtual_cluster
from tenancy.super_clusters import HOME

RETRY_SECONDS = 10.0
TELL_SECONDS = 5.0
"""Minimum interval in seconds between two writes of the pod counts."""

_log: structlog.stdlib.BoundLogger = structlog.get_logger(__name__)


class Outposts:
    """The target sessions of one tenant."""

    def __init__(
        self,
        link: Link,
        targets: Targets,
        sessions: MutableMapping[str, dict[str, Session]],
        made: Callable[[Target], Session],
    ) -> None:
        """`sessions` are those of all tenants. `made` returns a new session of this tenant."""
        self._link = link
        self._targets = targets
        self._sessions = sessions
        self._made = made
        self._own: dict[str, Session] = {}
        self._unwire: dict[str, Callable[[], None]] = {}
        self._away: frozenset[str] = frozenset()
        self._held: frozenset[str] = frozenset()
        self._begun: set[str] = set()
        self._offered: frozenset[str] = frozenset()
        """Granted and declared targets, without the home cluster."""
        self._judged: object = None
        self.changed = asyncio.Event()
        self._recount = asyncio.Event()
        """Set some time after a pod was created or deleted."""
        self._counting: asyncio.TimerHandle | None = None
        self._waking: dict[str, asyncio.TimerHandle] = {}
        self._named: frozenset[str] = frozenset()
        self._told: list[dict[str, Any]] | None = None
        """The list that was written last. None: no list yet."""

    async def run(self) -> None:
        """Keep the sessions until cancelled, then end them."""
        unsubscribe = self._targets.subscribe(self.changed.set)
        self._link.seats.counted = self._count
        try:
            while True:
                self.changed.clear()
                try:
                    is_done = await self._look()
                except STUMBLES as problem:  # else no session would follow
                    _log.error("tenant.targets_stumbled", exc_info=problem)
                    is_done = False
                await self._told_until_changed(None if is_done else RETRY_SECONDS)
        finally:
            unsubscribe()
            self._link.seats.counted = _nobody
            for timer in (self._counting, *self._waking.values()):
                if timer is not None:
                    timer.cancel()
            for name in list(self._own):
                self._forget(name)

    def _count(self, name: str) -> None:
        """Schedule one write of the pod counts for all changes within `TELL_SECONDS`."""
        if name != HOME and self._counting is None:
            self._counting = asyncio.get_running_loop().call_later(TELL_SECONDS, self._counted)

    def _wake_in(self, seconds: float, name: str) -> None:
        """Schedule a check of a target for the moment when its outage must be reported."""
        before = self._waking.pop(name, None)
        if before is not None:
            before.cancel()
        self._waking[name] = asyncio.get_running_loop().call_later(seconds, self.changed.set)

    def _counted(self) -> None:
        self._counting = None
        self._recount.set()

    async def _told_until_changed(self, seconds: float | None) -> None:
        """Wait for a change or a timeout, and write changed pod counts meanwhile."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while not self.changed.is_set():
                    await _any_of(self.changed, self._recount)
                    if self._recount.is_set():
                        self._recount.clear()
                        if not await self._tell(self._named):
                            self._count("")

    async def _look(self) -> bool:
        """Start and stop target sessions to match the grants.

        Returns False if a step failed and must be retried.
        """
        cluster = self._cluster()
        if cluster is None:
            return True
        seats = self._link.seats
        granted = {grant.name: grant for grant in cluster.spec.targets}
        seats.granted = granted  # before any judgement, so that new pods are placed by these grants
        named = {target.name for target in cluster.status.targets}
        declared = {entry.name for entry in self._link.home.super_clusters.list()}
        offered = frozenset(set(granted) & declared) - {HOME}
        for name in offered - self._offered:
            self._opens(name)
        self._offered = offered
        kept = {name for name in named if not self._is_over(name, granted, declared)}
        wanted = (kept | offered) - {HOME}
        seats.untouched = frozenset({*seats.untouched, *(wanted - named)} - self._begun)
        seats.known = frozenset(named | wanted)
        self._look_again()
        is_said = True
        if wanted != named:
            is_said = await self._say(wanted)
            if not is_said:
                wanted &= named  # create nothing in a target that the status lacks
            late = {name for name in named - wanted if not self._is_over(name, granted, declared)}
            if late:  # an object appeared in the target meanwhile
                wanted |= late
                is_said = is_said and await self._say(wanted)
        self._link.look_at_store()  # this writes the condition about undeclared targets
        for name, session in list(self._own.items()):
            if name not in wanted or self._targets.ready(name) is not session.target:
                await self._end(name)
        for name in sorted(wanted - set(self._own)):
            target = self._targets.ready(name)
            if target is not None:
                self._begin(target)
        self._look_again()
        for session in self._own.values():
            self._hear(session)
        self._named = frozenset(wanted)
        if is_said and not self._is_told(wanted, counts=False):
            is_said = await self._tell(wanted)
        elif is_said and not self._is_told(wanted):
            self._count("")  # later: the write comes back as a change, and would never end
        is_left = wanted - set(granted)  # no event reports the end of the last object
        return is_said and not is_left and wanted >= offered

    def _opens(self, name: str) -> None:
        """Let pods wait a moment for a target whose session will begin soon."""
        self._link.seats.opens(name, asyncio.get_running_loop().time())

    def _look_again(self) -> None:
        """Check all assignments when the grants or the visible targets have changed."""
        seats = self._link.seats
        judged = (seats.granted, seats.unseen(), frozenset(self._own))
        if judged != self._judged:
            self._judged = judged
            tenant_events.look_again(self._link)

    def _hear(self, session: Session) -> None:
        """Queue the keys that report the target's present state. If it is back, queue all keys."""
        assert session.target is not None  # noqa: S101 - they are all of targets
        name, is_away = session.name, bool(session.target.problem)
        is_held = session.target.muster.holds(session.tenant.uid)
        if is_away and name not in self._away:
            left = max(AWAY_SECONDS - session.target.away_seconds(), 0.0)
            self._wake_in(left, name)
            for entry in session.stores["Pod"].list():
                if session.pods.has(*entry.key):
                    key = session.key("Pod", *entry.key)
                    session.queue.add_after(key, left, low=True)
        elif not is_away and (name in self._away or (name in self._held and not is_held)):
            for key in session.all_keys():
                session.add(key, low=True)
        self._held = self._held | {name} if is_held else self._held - {name}
        self._away = self._away | {name} if is_away else self._away - {name}
        session.add(session.key(NODE, "", target_node.name_of(name)))

    def _cluster(self) -> VirtualCluster | None:
        tenant = self._link.tenant
        entry = _entry(self._link.home, tenant.namespace, tenant.name)
        if entry is None or entry.uid != tenant.uid or entry.deleting:
            return None
        try:
            return parse_virtual_cluster(entry.decode())
        except (SpecProblemError, NameProblemError):
            return None

    def _is_over(self, name: str, granted: Collection[str], declared: Collection[str]) -> bool:
        """Return True if the status need not name a target any longer."""
        if name in declared:
            return name not in granted and self._is_empty(name)
        # The target cannot be reached. Pods that stay assigned to it are created nowhere else.
        seats = self._link.seats
        return self._link.is_ready and not (
            seats.is_any_at(name)
            or any(
                seats.of(pod) == NOWHERE and seats.is_recorded(pod, name)
                for pod in self._link.stores["Pod"].list()
            )
        )

    def _is_empty(self, name: str) -> bool:
        """Return True if no object of the tenant is left in a target.

        A target that is away may have all.
        """
        if name in self._link.seats.untouched:
            return not self._link.seats.is_any_at(name)
        session = self._own.get(name)
        if session is None or session.target is None or session.target.problem:
            return False
        if session.target.muster.holds(session.tenant.uid):
            return False  # missing pods may come back
        shown = session.stores[NODE].get("", target_node.name_of(name))
        if shown is not None and wellknown.SUPER_CLUSTER in shown.annotations:
            return False  # its key deletes the node, and the key ends with the session
        is_left = any(True for _ in session.super_cluster.owned_by(self._link.tenant.uid))
        return not is_left and not self._link.seats.is_any_at(name)

    async def _say(self, names: Collection[str]) -> bool:
        """Write the targets and their pod counts to the status.

        Returns False if the write failed.
        """
        tenant = self._link.tenant
        entry = _entry(self._link.home, tenant.namespace, tenant.name)
        if entry is None:
            return False
        listed = [self._sentence(name) for name in sorted(names)]
        try:
            await conditions.say_targets(self._link.home.client, entry, listed)
        except errors.KubeError as problem:
            _log.warning("tenant.targets_not_told", tenant=tenant.root, problem=str(problem))
            self._told = None  # the write may have succeeded nevertheless
            return False
        self._told = listed
        return True

    async def _tell(self, names: Collection[str]) -> bool:
        """Call `_say`, unless the status is up to date or the tenant is being deleted."""
        return self._cluster() is None or self._is_told(names) or await self._say(names)

    def _is_told(self, names: Collection[str], *, counts: bool = True) -> bool:
        """Return True if the status is up to date, apart from pod counts if `counts` is False.

        The cache may be older than the last write.
        """
        told = self._told
        cluster = self._cluster() if told is None else None
        if cluster is not None:
            told = [_listed(each.name, each.phase, each.pods) for each in cluster.status.targets]
        wanted = [self._sentence(name) for name in sorted(names)]
        if counts:
            return wanted == told
        return _uncounted(wanted) == _uncounted(told or [])

    def _sentence(self, name: str) -> dict[str, Any]:
        """Return the status entry of one target."""
        target, seats = self._targets.ready(name), self._link.seats
        is_away = target is None or target.away_seconds() >= AWAY_SECONDS  # as its node
        phase = "Draining" if name not in seats.granted else "Away" if is_away else "Granted"
        return _listed(name, phase, seats.pods_at(name))

    def _begin(self, target: Target) -> None:
        session = self._made(target)
        self._begun.add(target.name)
        self._link.seats.untouched = {*self._link.seats.untouched} - {target.name}
        self._own[target.name] = session
        self._unwire[target.name] = tenant_events.wire_tenant(session)
        self._sessions.setdefault(target.name, {})[session.tenant.uid] = session
        self._link.sessions.append(session)
        tenant_events.take_in(session)
        if self._link.is_ready:
            self._link.brake.recall(session.stamps())
            session.start()
        _log.info("tenant.target_begun", tenant=session.tenant.root, target=target.name)

    async def _end(self, name: str) -> None:
        session = self._own[name]
        self._opens(name)  # its client is usually a new one
        self._forget(name)
        await session.drained()
        _log.info("tenant.target_ended", tenant=session.tenant.root, target=name)

    def _forget(self, name: str) -> None:
        session = self._own.pop(name)
        session.is_ready = False
        self._unwire.pop(name)()
        if session in self._link.sessions:
            self._link.sessions.remove(session)
        self._sessions[name].pop(session.tenant.uid, None)
        self._link.queue.drop_group(session.group)


def _entry(home: Home, namespace: str, name: str) -> Entry | None:
    return home.virtual_clusters.get(namespace, name)


def _nobody(_: str) -> None:
    """Ignore the change, because the sessions have ended."""


def _listed(name: str, phase: str, pods: int) -> dict[str, Any]:
    return {"name": name, "phase": phase, "pods": pods}


def _uncounted(listed: Iterable[Mapping[str, Any]]) -> list[tuple[str, str]]:
    return [(each["name"], each["phase"]) for each in listed]


async def _any_of(*events: asyncio.Event) -> None:
    """Wait until one of several events is set."""
    waiting = [asyncio.ensure_future(each.wait()) for each in events]
    try:
        await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for each in waiting:
            each.cancel()
