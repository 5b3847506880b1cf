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
from tenancy.agent_permissions import AgentPermissions, InvalidAgentPermissionsError, KubeletCall
from vnagent.authz import metrics
from vnagent.authz.metrics import PermissionsState
from vnagent.protocol.errors import RefusalReason, RequestRefusedError
from vnagent.protocol.routes import RouteVerb

STALE_SECONDS = 300.0
"""Time in seconds for which the document applies while its ConfigMap is not watched. Without the
super API server no policy can change, but a single node may be cut off.
"""
_TIMER_TOLERANCE_SECONDS = 0.01
"""Time in seconds by which a timer may be early."""

CALLS_BY_VERB: Mapping[RouteVerb, KubeletCall] = {
    RouteVerb.LOGS: KubeletCall.LOGS,
    RouteVerb.EXEC: KubeletCall.EXEC,
    RouteVerb.ATTACH: KubeletCall.ATTACH,
    RouteVerb.RUN: KubeletCall.EXEC,
    RouteVerb.PORT_FORWARD: KubeletCall.PORT_FORWARD,
}
"""Switch of each verb. A verb that is not listed has no switch."""

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, eq=False)
class _RunningRequest:
    vc_uid: str
    call: KubeletCall
    timeout: asyncio.Timeout


class PermissionEnforcer:
    """Permits of sessions, which end when their permit ends."""

    def __init__(self) -> None:
        self._permissions: AgentPermissions | None = None
        self._lost_at: float | None = None
        self._logged_state: PermissionsState | None = None
        self._known_event = asyncio.Event()
        self._running: set[_RunningRequest] = set()
        self._report_state()

    @property
    def count(self) -> int:
        """The number of sessions with a permit."""
        return len(self._running)

    def update(self, data: Mapping[str, str] | None) -> None:
        """Apply the data of the ConfigMap, None if it does not exist.

        Ends the sessions that the data does not permit. Unreadable data ends no session, because it
        switches nothing off.
        """
        self._lost_at = None
        self._permissions = _parse_permissions(data)
        self._report_state()
        if self._permissions is None:
            return
        self._known_event.set()
        now = asyncio.get_running_loop().time()
        for session in list(self._running):
            if self._find_refusal(session.vc_uid, session.call) is not None:
                # An expired timeout cannot be rescheduled, and the next document may arrive before
                # the session ends.
                self._running.discard(session)
                session.timeout.reschedule(now)

    def mark_lost(self) -> None:
        """Record that the ConfigMap is not watched from now on."""
        if self._lost_at is not None:
            return
        loop = asyncio.get_running_loop()
        self._lost_at = loop.time()
        loop.call_later(STALE_SECONDS + _TIMER_TOLERANCE_SECONDS, self._report_state)
        self._report_state()

    async def wait_known(self) -> None:
        """Wait until a document is known."""
        await self._known_event.wait()

    @contextlib.asynccontextmanager
    async def hold_permission(self, vc_uid: str, verb: RouteVerb) -> AsyncIterator[None]:
        """Hold a permit for one session. Raises RefusedError without a permit or when it ends."""
        call = CALLS_BY_VERB.get(verb)
        if call is None:
            yield
            return
        if (fault := self._find_refusal(vc_uid, call)) is not None:
            raise fault
        life = asyncio.timeout(None)
        session = _RunningRequest(vc_uid, call, life)
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
            raise self._find_refusal(vc_uid, call) or _build_unknown() from error

    def _find_refusal(self, vc_uid: str, call: KubeletCall) -> RequestRefusedError | None:
        """Return the reason why a call is not permitted, None when it is."""
        found = self._permissions
        if found is None or self._is_stale():
            return _build_unknown()
        name = found.tenants.get(vc_uid)
        if name is None:
            return RequestRefusedError(
                403,
                RefusalReason.NO_POLICY,
                "no TenantPolicy of this cluster is known on the node. Contact your platform"
                " administrator",
            )
        shown = name or "baseline"
        calls = found.policies.get(name)
        if calls is None:
            return RequestRefusedError(
                403,
                RefusalReason.NO_POLICY,
                f"the TenantPolicy {shown!r} of this cluster is missing or cannot be read, so"
                " nothing is allowed. Contact your platform administrator",
            )
        if call not in calls:
            return RequestRefusedError(
                403,
                RefusalReason.SWITCHED_OFF,
                f"{call.value} is disabled for this cluster: spec.access.{call.value} of its"
                f" TenantPolicy {shown!r} is false. Contact your platform administrator",
            )
        return None

    def _is_stale(self) -> bool:
        if self._lost_at is None:
            return False
        return asyncio.get_running_loop().time() - self._lost_at >= STALE_SECONDS

    def _get_state(self) -> PermissionsState:
        if self._permissions is None:
            return PermissionsState.UNKNOWN
        if self._lost_at is None:
            return PermissionsState.WATCHED
        return PermissionsState.STALE if self._is_stale() else PermissionsState.LAST_KNOWN

    def _report_state(self) -> None:
        """Report the state of the policies if it has changed."""
        state, before = self._get_state(), self._logged_state
        if state is before:
            return
        self._logged_state = state
        metrics.set_policies_state(state)
        match state:
            case PermissionsState.LAST_KNOWN:
                _log.warning("policies are not updated, the known ones apply", left=STALE_SECONDS)
            case PermissionsState.STALE:
                _log.error("policies were not updated for too long, nothing new is served")
            case PermissionsState.WATCHED:
                _log.info("policies are updated", before=before and before.value)
            case PermissionsState.UNKNOWN:
                pass  # `_parse_permissions` has logged the reason


def _parse_permissions(data: Mapping[str, str] | None) -> AgentPermissions | None:
    try:
        return agent_permissions.decode_permissions((data or {})[agent_permissions.DOCUMENT_KEY])
    except (KeyError, InvalidAgentPermissionsError) as problem:
        said = (
            str(problem)
            if data
            else "the ConfigMap does not exist. Check that vc-manager is running"
        )
        _log.error("no policies are known, nothing new is served", problem=said)
        return None


def _build_unknown() -> RequestRefusedError:
    return RequestRefusedError(
        503,
        RefusalReason.NO_POLICY,
        "the node agent does not know what this cluster's TenantPolicy allows. Try again",
    )
