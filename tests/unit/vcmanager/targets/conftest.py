"""A target and its agent for the tests of this folder."""

import pytest

from tests.support.vcmanager.target_agents import Yard


@pytest.fixture
def yard(monkeypatch: pytest.MonkeyPatch) -> Yard:
    """One target and its agent."""
    return Yard(monkeypatch)
