"""Whether the agent of a target asks kubelets or the API server, and what that needs."""

from __future__ import annotations

from dataclasses import replace

import pytest
import trustme

from tests.support.vcmanager.target_agents import DEPLOYMENT, KUBELETS, THERE, environment
from vcmanager.targets import required_permissions
from vcmanager.targets.required_permissions import RequiredPermission

STRAIGHT = replace(THERE, ca=trustme.CA().cert_pem.bytes())
"""A cluster whose kubelets may be asked: who vouches for them can be read."""


@pytest.mark.parametrize(("said", "vouching"), [(b"", STRAIGHT.ca), (KUBELETS, KUBELETS)])
async def test_in_mode_agent_it_is_informed_to_ask_kubelets_and_by_what_it_knows_them(
    agent_world, said, vouching
):
    """By an authority of their own where there is one, else by the API server's. Never by none."""
    await agent_world.keep(mode="agent", endpoint=STRAIGHT, kubelet_authorities=said)
    assert environment(agent_world)["UPSTREAM"] == "kubelet"
    assert agent_world.home.mounted() == {
        "token": b"made-1",
        "ca.crt": STRAIGHT.ca,
        "kubelet-ca.crt": vouching,
    }
    assert agent_world.wanted == [required_permissions.list_required_by_agent("agent")]
    assert {each.kubectl_name for each in agent_world.wanted[0]} == {"pods", "nodes/proxy"}


async def test_in_mode_apiserver_no_kubelet_is_known(agent_world):
    """Whatever the Secret has."""
    await agent_world.keep(endpoint=STRAIGHT, kubelet_authorities=KUBELETS)
    assert environment(agent_world)["UPSTREAM"] == "apiserver"
    assert set(agent_world.home.mounted()) == {"token", "ca.crt"}
    assert agent_world.wanted == [required_permissions.list_required_by_agent("apiserver")]
    assert "nodes/proxy" not in {each.kubectl_name for each in agent_world.wanted[0]}


@pytest.mark.parametrize(
    ("mode", "words"), [("apiserver", "(mode apiserver)"), ("agent", "kubelets (mode agent)")]
)
async def test_the_condition_reports_which_mode_is_served(agent_world, mode, words):
    await agent_world.keep(mode=mode, endpoint=STRAIGHT)
    agent_world.home.runs()
    status, reason, message = await agent_world.keep(mode=mode, endpoint=STRAIGHT)
    assert (status, reason) == ("True", "Serves")
    assert words in message


@pytest.mark.parametrize("before", ["apiserver", "agent"])
async def test_another_mode_has_the_pods_and_the_token_recreated(agent_world, before):
    """A pod that serves the mode of before is not said to serve this one."""
    after = "agent" if before == "apiserver" else "apiserver"
    await agent_world.keep(mode=before, endpoint=STRAIGHT)
    agent_world.home.runs()
    template = agent_world.home.template()
    await agent_world.keep(mode=after, endpoint=STRAIGHT)
    assert agent_world.home.token == "made-2"
    now = agent_world.home.template()
    assert now["spec"] != template["spec"]
    assert now["metadata"]["annotations"] != template["metadata"]["annotations"]
    live = agent_world.home.objects[DEPLOYMENT]
    live["metadata"]["generation"] = 2
    for status in (
        {"observedGeneration": 1, "replicas": 1, "updatedReplicas": 1, "readyReplicas": 1},
        {"observedGeneration": 2, "replicas": 2, "updatedReplicas": 1, "readyReplicas": 1},
        {"observedGeneration": 2, "replicas": 1, "readyReplicas": 1},
    ):
        live["status"] = status
        said = await agent_world.keep(mode=after, endpoint=STRAIGHT)
        assert said[:2] == ("True", "Serves")
        assert said[2].endswith("Its pods are being replaced."), status
    live["status"] |= {"updatedReplicas": 1}
    assert f"(mode {after})" in (await agent_world.keep(mode=after, endpoint=STRAIGHT))[2]


async def test_other_authorities_of_kubelets_are_other_servers(agent_world):
    """They get a token of their own, and pods that have read no other authority."""
    straight = {"mode": "agent", "endpoint": STRAIGHT}
    await agent_world.keep(**straight)
    before = dict(agent_world.home.objects[DEPLOYMENT])
    await agent_world.keep(**straight, kubelet_authorities=KUBELETS)
    assert agent_world.home.token == "made-2"
    assert agent_world.home.mounted()["token"] == b"made-2"
    made, agent_world.home.objects[DEPLOYMENT] = agent_world.home.objects[DEPLOYMENT], before
    assert "token" not in agent_world.home.mounted(), "a pod of before reads no token for these"
    assert agent_world.home.template() != made["spec"]["template"]
    agent_world.home.objects[DEPLOYMENT] = made
    await agent_world.keep(**straight, kubelet_authorities=KUBELETS)
    assert agent_world.home.token == "made-2"


@pytest.mark.parametrize("said", [b"nothing", b" ", KUBELETS * 200])
async def test_what_vouches_for_no_kubelet_is_reported_and_nothing_shown_to_one(agent_world, said):
    await agent_world.keep(mode="agent", endpoint=STRAIGHT)
    answer = await agent_world.keep(mode="agent", endpoint=STRAIGHT, kubelet_authorities=said)
    assert answer[:2] == ("False", "NoKubeletAuthority")
    assert "kubelet-ca.crt in the Secret" in answer[2]
    assert agent_world.home.token is None


async def test_the_right_to_kubelets_is_named_where_it_is_missing(agent_world):
    agent_world.lacking = [
        RequiredPermission("", "nodes/proxy", "get"),
        RequiredPermission("", "nodes/proxy", "create"),
    ]
    status, reason, message = await agent_world.keep(mode="agent", endpoint=STRAIGHT)
    assert (status, reason) == ("False", "MissingRights")
    assert "mode agent: nodes/proxy: get, create" in message
    assert "kubectl vc target join c2" in message
