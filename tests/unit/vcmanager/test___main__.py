"""Flags of vc-manager, and what the chart sets by the environment."""

from __future__ import annotations

import pytest

from vcmanager import __main__
from vcmanager.runtime.options import AgentPodSettings, OperatorSettings


def test_what_the_chart_specifies_is_read_at_the_start(monkeypatch, capsys):
    monkeypatch.setenv("AGENT_PODS", '{"image": "i", "imagePullPolicy": "Always"}')
    monkeypatch.setattr(__main__, "_read_version", lambda: "v0")
    options = __main__._parse_options([])
    assert options.agent_pods == AgentPodSettings(image="i", image_pull_policy="Always")
    with pytest.raises(SystemExit):
        __main__._parse_options(["--agent-pods", "{}"])
    assert "image" in capsys.readouterr().err


def test_objects_of_other_projects_are_off_by_default(monkeypatch):
    for name in ("CLUSTER_MANAGER", "CLUSTER_API"):
        monkeypatch.delenv(name, raising=False)
    settings = OperatorSettings(registry="")
    assert (settings.cluster_manager, settings.cluster_api) == ("", False)
    found = __main__._parse_options([])
    assert (found.cluster_manager, found.cluster_api) == ("", "false")


def test_the_chart_switches_them_on_by_the_environment(monkeypatch):
    monkeypatch.setenv("CLUSTER_MANAGER", "fleet-1")
    monkeypatch.setenv("CLUSTER_API", "true")
    found = __main__._parse_options([])
    assert (found.cluster_manager, found.cluster_api) == ("fleet-1", "true")
