"""`kubectl vc target join`: what it writes in both clusters, and what it refuses."""

from __future__ import annotations

from typing import get_args

import pytest
import yaml

from kubectl_vc import flags
from kubectl_vc.output.cli_errors import CliProblem
from kubectl_vc.target import join, manifests
from kubectl_vc.target.manifests import There
from kubeio import errors
from kubeio.config.endpoint import Endpoint
from tenancy import super_clusters
from tests.support.kubectl_vc.super_clusters import HOME_UID

PLAN = There(HOME_UID)


def wish(**more) -> join.Wish:
    usual = {
        "name": "c2",
        "kubeconfig": "",
        "context": "x",
        "server": "",
        "tls_server_name": "",
        "namespace": "vc-manager",
        "labels": {},
        "taints": [],
        "resolvers": [],
        "token_seconds": 0,
    }
    return join.Wish(**(usual | more))


def test_the_flag_has_the_modes_that_there_are():
    assert {each.value for each in flags.Mode} == {*get_args(super_clusters.Mode)}


@pytest.mark.parametrize(
    ("known", "wished", "mode"),
    [
        (None, None, "apiserver"),
        (None, "agent", "agent"),
        ({"spec": {}}, None, "apiserver"),
        ({"spec": {"mode": "agent"}}, None, "agent"),
        ({"spec": {"mode": "agent"}}, "apiserver", "apiserver"),
    ],
)
def test_who_joins_again_without_a_word_keeps_the_mode(known, wished, mode):
    assert join._mode(known, wish(mode=wished)) == mode


@pytest.mark.parametrize("known", [None, {"spec": {"mode": "apiserver"}}])
def test_an_authority_of_kubelets_that_nobody_asks_is_refused(known):
    with pytest.raises(CliProblem, match="add --mode agent"):
        join._mode(known, wish(kubelet_authorities=b"PEM"))
    asked = wish(kubelet_authorities=b"PEM", mode="agent")
    assert join._mode(known, asked) == "agent"


def test_a_name_leaves_room_for_what_its_node_is_called():
    assert manifests.checked_name("x" * 56)
    with pytest.raises(CliProblem, match="at most 56"):
        manifests.checked_name("x" * 57)


def test_a_server_that_only_this_machine_reaches_is_refused_with_the_remedy():
    local = Endpoint(server="https://127.0.0.1:41235", ca=b"CA")
    with pytest.raises(CliProblem, match="--server"):
        join._as_seen_from_here(local, wish())
    found = join._as_seen_from_here(local, wish(server="https://c2-control-plane:6443"))
    assert found.server == "https://c2-control-plane:6443"
    with pytest.raises(CliProblem, match="certificate-authority-data"):
        join._as_seen_from_here(Endpoint(server="https://10.0.0.5"), wish())


@pytest.mark.parametrize(
    ("problem", "told"),
    [
        (
            errors.Forbidden("where: -", said="-"),
            "-; joining and leaving need somebody who may write namespaces and cluster roles there",
        ),
        (
            errors.Untrusted("expired"),
            "expired; check server and certificate-authority-data of its kubeconfig",
        ),
        (errors.NotSent("refused"), "refused"),
        (errors.Unauthorized("where: who", said="who"), "who"),
        (errors.CredentialsProblem("no PEM"), "no PEM"),
    ],
)
def test_an_error_of_the_other_cluster_has_its_own_remedy_or_none(problem, told):
    with pytest.raises(CliProblem) as raised, join.in_target():
        raise problem
    assert str(raised.value) == f"in the other cluster: {told}"


@pytest.mark.parametrize("server", ["https://[::1", "https://10.0.0.5:99999", "c2:6443"])
def test_a_server_that_is_no_url_is_a_sentence(server):
    with pytest.raises(errors.CredentialsProblem, match="like https"):
        join._as_seen_from_here(Endpoint(server="https://10.0.0.5", ca=b"CA"), wish(server=server))


def test_a_dry_run_shows_both_clusters_and_no_token():
    shown = Endpoint(server="https://10.0.0.5:6443", ca=b"CA", token="secret")
    text = join._described(PLAN, wish(), shown)
    there, here = text.split("# In this cluster:\n")
    assert [each["kind"] for each in yaml.safe_load_all(here)] == ["Secret", "SuperCluster"]
    assert len(list(yaml.safe_load_all(there))) == 10
    assert "token: TOKEN" in text
