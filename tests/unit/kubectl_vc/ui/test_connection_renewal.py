"""A connection is opened again, but not for each page that fails."""

import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest

from kubectl_vc.client.config_flags import ConfigFlags
from kubectl_vc.ui import connection_renewal
from kubectl_vc.ui.connection_renewal import RenewedConnection


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The connections that were opened and closed."""
    found: list[str] = []

    @contextlib.asynccontextmanager
    async def connect(*_: Any) -> AsyncIterator[Any]:
        found.append("open")
        yield len(found)
        found.append("close")

    monkeypatch.setattr(connection_renewal, "connect_super_cluster", connect)
    return found


async def test_pages_that_fail_together_open_one_connection(
    opened: list[str], monkeypatch: pytest.MonkeyPatch
):
    async with RenewedConnection(ConfigFlags()) as renewed:
        await renewed.reconnect()
        assert opened == ["open"]
        monkeypatch.setattr(connection_renewal, "_MIN_SECONDS_BETWEEN", 0.0)
        await renewed.reconnect()
        # Pages in progress still use the first one.
        assert opened == ["open", "open"]
        assert renewed.connection == 2
    assert opened == ["open", "open", "close", "close"]
