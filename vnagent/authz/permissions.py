"""Permissions of calls by tenant policy, and the sessions that depend on them.

The module owns the last document of vc-manager and one entry per running session. It must not know
the source of the document. Hazard: an unknown, unreadable or stale document must permit no new
session, and a session must end with its permit. Otherwise a call that was switched off would go on.
The document ages only while its ConfigMap is not watched. A watched document counts as current,
even if vc-manager is down (docs/adr/0022).
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass

import structlog

from tenancy import agent_permissions
from tenancy.agent_permissions import Call, Switches, SwitchesProblemError
from vnagent.authz import metrics
from vnagent.authz.metrics import Policies
from vnagent.protocol.errors import Reason, RefusedError
from vnagent.protocol.routes import Verb

STALE_SECONDS = 300.0
"""Time in seconds for which the document applies while its ConfigMap is not watched. Without the
super API server no policy can change, but a single node may be cut off.
"""
_TICK_SECONDS = 0.01
"""Time in seconds by which a timer may be early."""

CALLS: Mapping[Verb, Call] = {
    Verb.LOGS: Call.LOGS,
    Verb.EXEC: Call.EXEC,
    Verb.ATTACH: Call.ATTACH,
    Verb.RUN: Call.EXEC,
    Verb.PORT_FORWARD: Call.PORT_FORWARD,
}
"""Switch of each verb. A verb that is not listed has no switch."""

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, eq=False)
class _Running:
    vc_uid: str
    call: Call
    life: asyncio.Timeout


class Permits:
    """Permits of sessions, which end when their permit ends."""

    def __init__(self) -> None:
        self._switches: Switches | None = None
        self._lost_at: float | None = None
        self._told: Policies | None = None
        self._known = asyncio.Event()
        self._running: set[_Running] = set()
        self._tell()

    @property
    def count(self) -> int:
        """The number of sessions with a permit."""
        return len(self._running)

    def learn(self, data: Mapping[str, str] | None) -> None:
        """Apply the data of the ConfigMap, None if it does not exist.

        Ends the sessions that the data does not permit. Unreadable data ends no session, because it
        switches nothing off.
        """
        self._lost_at = None
        self._switches = _read(data)
        self._tell()
        if self._switches is None:
            return
        self._known.set()
        now = asyncio.get_running_loop().time()
        for session in list(self._running):
            if self._fault(session.vc_uid, session.call) is not None:
                # An expired timeout cannot be rescheduled, and the next document may arrive before
                # the session ends.
                self._running.discard(session)
                session.life.reschedule(now)

    def lose(self) -> None:
        """Record that the ConfigMap is not watched from now on."""
        if self._lost_at is not None:
            return
        loop = asyncio.get_running_loop()
        self._lost_at = loop.time()
        loop.call_later(STALE_SECONDS + _TICK_SECONDS, self._tell)
        self._tell()

    async def known(self) -> None:
        """Wait until a document is known."""
        await self._known.wait()

    @contextlib.asynccontextmanager
    async def one(self, vc_uid: str, verb: Verb) -> AsyncIterator[None]:
        """Hold a permit for one session. Raises RefusedError without a permit or when it ends."""
        call = CALLS.get(verb)
        if call is None:
            yield
            return
        if (fault := self._fault(vc_uid, call)) is not None:
            raise fault
        life = asyncio.timeout(None)
        session = _Running(vc_uid, call, life)
        try:
            async with life:
                self._running.add(session)
                try:
                    yield
                finally:
                    self._running.discard(session)
        except TimeoutError as error:
            if not life.expired():
                raise
            raise self._fault(vc_uid, call) or _unknown() from error

    def _fault(self, vc_uid: str, call: Call) -> RefusedError | None:
        """Return the reason why a call is not permitted, None when it is."""
        found = self._switches
        if found is None or self._is_stale():
            return _unknown()
        name = found.tenants.get(vc_uid)
        if name is None:
            return RefusedError(
                403,
                Reason.NO_POLICY,
                "no TenantPolicy of this cluster is known on the node; ask whoever runs the super"
                " cluster",
            )
        shown = name or "baseline"
        calls = found.policies.get(name)
        if calls is None:
            return RefusedError(
                403,
                Reason.NO_POLICY,
                f"the TenantPolicy {shown!r} of this cluster is missing or cannot be read, so"
                " nothing is allowed; ask whoever runs the super cluster",
            )
        if call not in calls:
            return RefusedError(
                403,
                Reason.SWITCHED_OFF,
                f"{call.value} is switched off for this cluster: spec.access.{call.value} of its"
                f" TenantPolicy {shown!r} is false; ask whoever runs the super cluster",
            )
        return None

    def _is_stale(self) -> bool:
        if self._lost_at is None:
            return False
        return asyncio.get_running_loop().time() - self._lost_at >= STALE_SECONDS

    def _state(self) -> Policies:
        if self._switches is None:
            return Policies.UNKNOWN
        if self._lost_at is None:
            return Policies.FOLLOWED
        return Policies.STALE if self._is_stale() else Policies.KEPT

    def _tell(self) -> None:
        """Report the state of the policies if it has changed."""
        state, before = self._state(), self._told
        if state is before:
            return
        self._told = state
        metrics.show_policies(state)
        match state:
            case Policies.KEPT:
                _log.warning("policies are not followed; what is known counts", left=STALE_SECONDS)
            case Policies.STALE:
                _log.error("policies were not followed for too long, nothing new is served")
            case Policies.FOLLOWED:
                _log.info("policies are followed", before=before and before.value)
            case Policies.UNKNOWN:
                pass  # `_read` has logged the reason


def _read(data: Mapping[str, str] | None) -> Switches | None:
    try:
        return agent_permissions.read((data or {})[agent_permissions.DOCUMENT])
    except (KeyError, SwitchesProblemError) as problem:
        said = str(problem) if data else "the ConfigMap is not there; is vc-manager running?"
        _log.error("no policies are known, nothing new is served", problem=said)
        return None


def _unknown() -> RefusedError:
    return RefusedError(
        503,
        Reason.NO_POLICY,
        "the node agent does not know what this cluster's TenantPolicy allows; try again",
    )
