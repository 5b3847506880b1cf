"""A target and its agent for the tests of this folder."""

import pytest

from tests.support.vcmanager.target_agents import AgentWorld


@pytest.fixture
def agent_world(monkeypatch: pytest.MonkeyPatch) -> AgentWorld:
    """One target and its agent."""
    return AgentWorld(monkeypatch)
