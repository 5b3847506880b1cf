"""Options of vc-manager: defaults, and the JSON that the chart writes."""

import msgspec
import pytest

from vcmanager import __main__ as program
from vcmanager.runtime.options import AgentPodSettings, OperatorSettings


def test_objects_of_other_projects_are_off_by_default(monkeypatch):
    for name in ("CLUSTER_MANAGER", "CLUSTER_API"):
        monkeypatch.delenv(name, raising=False)
    settings = OperatorSettings(registry="")
    assert (settings.cluster_manager, settings.cluster_api) == ("", False)
    found = program._parse_options([])
    assert (found.cluster_manager, found.cluster_api) == ("", "false")


def test_the_chart_switches_them_on_by_the_environment(monkeypatch):
    monkeypatch.setenv("CLUSTER_MANAGER", "fleet-1")
    monkeypatch.setenv("CLUSTER_API", "true")
    found = program._parse_options([])
    assert (found.cluster_manager, found.cluster_api) == ("fleet-1", "true")


def test_agent_pods_have_the_names_of_a_deployment():
    text = '{"image": "a", "imagePullSecrets": [{"name": "b"}], "nodeSelector": {"c": "d"}}'
    found = msgspec.json.decode(text, type=AgentPodSettings)
    assert (found.image, found.image_pull_secrets) == ("a", ({"name": "b"},))
    assert (found.node_selector, found.replicas) == ({"c": "d"}, 1)


def test_agent_pods_need_an_image():
    with pytest.raises(msgspec.ValidationError, match="image"):
        msgspec.json.decode("{}", type=AgentPodSettings)
