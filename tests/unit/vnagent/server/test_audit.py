"""Audit line of a request: no command and no secret in it."""

from __future__ import annotations

from datetime import UTC, datetime

from vnagent.authz.client_identity import ClientIdentity
from vnagent.protocol.routes import Route, RouteVerb
from vnagent.server import audit

CALLER = ClientIdentity(
    "0f0e0d0c-0b0a-4900-8800-070605040302", "default-b41df0-one", datetime.now(UTC)
)


def test_the_line_has_no_command(capsys):
    """A command may hold a password."""
    query = (("command", "pa55word"),)
    route = Route(verb=RouteVerb.EXEC, method="POST", pod="shop", container="main", query=query)
    audit.write_audit_record(audit.RequestAudit(CALLER, route=route, result="complete"))
    line = capsys.readouterr().out
    assert "shop" in line
    assert "pa55word" not in line
