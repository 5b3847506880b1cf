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
    yard, said, vouching
):
    """By an authority of their own where there is one, else by the API server's. Never by none."""
    await yard.keep(mode="agent", endpoint=STRAIGHT, kubelet_authorities=said)
    assert environment(yard)["UPSTREAM"] == "kubelet"
    assert yard.home.mounted() == {
        "token": b"made-1",
        "ca.crt": STRAIGHT.ca,
        "kubelet-ca.crt": vouching,
    }
    assert yard.wanted == [required_permissions.list_required_by_agent("agent")]
    assert {each.kubectl_name for each in yard.wanted[0]} == {"pods", "nodes/proxy"}


async def test_in_mode_apiserver_no_kubelet_is_known(yard):
    """Whatever the Secret has."""
    await yard.keep(endpoint=STRAIGHT, kubelet_authorities=KUBELETS)
    assert environment(yard)["UPSTREAM"] == "apiserver"
    assert set(yard.home.mounted()) == {"token", "ca.crt"}
    assert yard.wanted == [required_permissions.list_required_by_agent("apiserver")]
    assert "nodes/proxy" not in {each.kubectl_name for each in yard.wanted[0]}


@pytest.mark.parametrize(
    ("mode", "words"), [("apiserver", "(mode apiserver)"), ("agent", "kubelets (mode agent)")]
)
async def test_the_condition_reports_which_mode_is_served(yard, mode, words):
    await yard.keep(mode=mode, endpoint=STRAIGHT)
    yard.home.runs()
    status, reason, message = await yard.keep(mode=mode, endpoint=STRAIGHT)
    assert (status, reason) == ("True", "Serves")
    assert words in message


@pytest.mark.parametrize("before", ["apiserver", "agent"])
async def test_another_mode_has_the_pods_and_the_token_recreated(yard, before):
    """A pod that serves the mode of before is not said to serve this one."""
    after = "agent" if before == "apiserver" else "apiserver"
    await yard.keep(mode=before, endpoint=STRAIGHT)
    yard.home.runs()
    template = yard.home.template()
    await yard.keep(mode=after, endpoint=STRAIGHT)
    assert yard.home.token == "made-2"
    now = yard.home.template()
    assert now["spec"] != template["spec"]
    assert now["metadata"]["annotations"] != template["metadata"]["annotations"]
    live = yard.home.objects[DEPLOYMENT]
    live["metadata"]["generation"] = 2
    for status in (
        {"observedGeneration": 1, "replicas": 1, "updatedReplicas": 1, "readyReplicas": 1},
        {"observedGeneration": 2, "replicas": 2, "updatedReplicas": 1, "readyReplicas": 1},
        {"observedGeneration": 2, "replicas": 1, "readyReplicas": 1},
    ):
        live["status"] = status
        said = await yard.keep(mode=after, endpoint=STRAIGHT)
        assert said[:2] == ("True", "Serves")
        assert said[2].endswith("its pods are being replaced"), status
    live["status"] |= {"updatedReplicas": 1}
    assert f"(mode {after})" in (await yard.keep(mode=after, endpoint=STRAIGHT))[2]


async def test_other_authorities_of_kubelets_are_other_servers(yard):
    """They get a token of their own, and pods that have read no other authority."""
    straight = {"mode": "agent", "endpoint": STRAIGHT}
    await yard.keep(**straight)
    before = dict(yard.home.objects[DEPLOYMENT])
    await yard.keep(**straight, kubelet_authorities=KUBELETS)
    assert yard.home.token == "made-2"
    assert yard.home.mounted()["token"] == b"made-2"
    made, yard.home.objects[DEPLOYMENT] = yard.home.objects[DEPLOYMENT], before
    assert "token" not in yard.home.mounted(), "a pod of before reads no token for these"
    assert yard.home.template() != made["spec"]["template"]
    yard.home.objects[DEPLOYMENT] = made
    await yard.keep(**straight, kubelet_authorities=KUBELETS)
    assert yard.home.token == "made-2"


@pytest.mark.parametrize("said", [b"nothing", b" ", KUBELETS * 200])
async def test_what_vouches_for_no_kubelet_is_reported_and_nothing_shown_to_one(yard, said):
    await yard.keep(mode="agent", endpoint=STRAIGHT)
    answer = await yard.keep(mode="agent", endpoint=STRAIGHT, kubelet_authorities=said)
    assert answer[:2] == ("False", "NoKubeletAuthority")
    assert "kubelet-ca.crt in the Secret" in answer[2]
    assert yard.home.token is None


async def test_the_right_to_kubelets_is_named_where_it_is_missing(yard):
    yard.lacking = [
        RequiredPermission("", "nodes/proxy", "get"),
        RequiredPermission("", "nodes/proxy", "create"),
    ]
    status, reason, message = await yard.keep(mode="agent", endpoint=STRAIGHT)
    assert (status, reason) == ("False", "MissingRights")
    assert "mode agent: nodes/proxy: get, create" in message
    assert "kubectl vc target join c2" in message
