"""Audit log line and metrics for each session.

Hazard: a record must never contain the command line. A command line may contain a password, which
the log would expose.
"""

import time
from dataclasses import dataclass, field

import structlog

from vnagent.authz import metrics
from vnagent.authz.client_identity import ClientIdentity
from vnagent.protocol.routes import Route

_log = structlog.get_logger("vnagent.audit")


@dataclass(slots=True)
class RequestAudit:
    """Facts about one request, filled in while it runs."""

    caller: ClientIdentity
    started: float = field(default_factory=time.monotonic)
    route: Route | None = None
    protocol: str = ""
    """Protocol of a stream: `SPDY/3.1` or `websocket`. It is empty for an HTTP response."""
    status: int = 0
    result: str = ""
    bytes_up: int = 0
    bytes_down: int = 0


def write_audit_record(session: RequestAudit) -> None:
    """Write the audit line and the metrics of a session."""
    route = session.route
    verb = route.verb.value if route else "none"
    outcome = metrics.get_outcome(session.status)
    metrics.SESSIONS.labels(session.result).inc()
    metrics.CALLS.labels(verb, outcome).inc()
    tenant = metrics.get_tenant_label(session.caller.vc_uid)
    metrics.TENANT_SESSIONS.labels(tenant, outcome).inc()
    metrics.TENANT_BYTES.labels(tenant, "up").inc(session.bytes_up)
    metrics.TENANT_BYTES.labels(tenant, "down").inc(session.bytes_down)
    _log.info(
        "session",
        tenant=session.caller.key,
        vc_uid=session.caller.vc_uid,
        verb=verb,
        namespace=route.tenant_namespace if route else "",
        pod=route.pod if route else "",
        container=route.container if route else "",
        protocol=session.protocol,
        status=session.status,
        result=session.result,
        bytes_up=session.bytes_up,
        bytes_down=session.bytes_down,
        seconds=round(time.monotonic() - session.started, 3),
    )
