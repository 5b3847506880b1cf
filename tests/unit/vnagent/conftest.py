"""Throw-away authorities for the agent's tests."""

import pytest
import trustme
import uvloop

from vnagent.server import audit


@pytest.fixture(scope="session")
def authority() -> trustme.CA:
    """One authority that signs servers on loopback."""
    return trustme.CA()


@pytest.fixture
def recorded(monkeypatch: pytest.MonkeyPatch) -> list[audit.RequestAudit]:
    """The lines of the audit log."""
    found: list[audit.RequestAudit] = []
    monkeypatch.setattr(audit, "write_audit_record", found.append)
    return found


def pytest_asyncio_loop_factories(config, item):
    """The agent's loop in production is the one in its tests."""
    return {"uvloop": uvloop.new_event_loop}
