"""Options of vc-manager: defaults, and the JSON that the chart writes."""

import msgspec
import pytest

from vcmanager.runtime.options import AgentPodSettings


def test_agent_pods_have_the_names_of_a_deployment():
    text = '{"image": "a", "imagePullSecrets": [{"name": "b"}], "nodeSelector": {"c": "d"}}'
    found = msgspec.json.decode(text, type=AgentPodSettings)
    assert (found.image, found.image_pull_secrets) == ("a", ({"name": "b"},))
    assert (found.node_selector, found.replicas) == ({"c": "d"}, 1)


def test_agent_pods_need_an_image():
    with pytest.raises(msgspec.ValidationError, match="image"):
        msgspec.json.decode("{}", type=AgentPodSettings)
