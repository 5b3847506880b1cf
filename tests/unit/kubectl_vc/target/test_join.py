"""`kubectl vc target join`: what it writes in both clusters, and what it refuses."""

from __future__ import annotations

import io
from typing import Any, cast

import pytest
import yaml

from kubectl_vc.output.cli_errors import CliError
from kubectl_vc.output.terminal import Terminal
from kubectl_vc.target import join, manifests
from kubectl_vc.target.manifests import TargetObjects
from kubeio import errors
from kubeio.api.client import Client
from kubeio.config.endpoint import Endpoint
from tests.support.kubectl_vc.super_clusters import HOME_UID
from tests.support.kubeio.described_requests import REQUEST

PLAN = TargetObjects(HOME_UID)


def wish(**more) -> join.JoinOptions:
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
    return join.JoinOptions(**(usual | more))


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
    assert join._choose_mode(known, wish(mode=wished)) == mode


@pytest.mark.parametrize("known", [None, {"spec": {"mode": "apiserver"}}])
def test_an_authority_of_kubelets_that_no_one_asks_is_refused(known):
    with pytest.raises(CliError, match="Add --mode agent"):
        join._choose_mode(known, wish(kubelet_authorities=b"PEM"))
    asked = wish(kubelet_authorities=b"PEM", mode="agent")
    assert join._choose_mode(known, asked) == "agent"


def test_a_name_leaves_room_for_what_its_node_is_called():
    assert manifests.check_target_name("x" * 56)
    with pytest.raises(CliError, match="at most 56"):
        manifests.check_target_name("x" * 57)


def test_a_server_that_only_this_machine_reaches_is_refused_with_the_remedy():
    local = Endpoint(server="https://127.0.0.1:41235", ca=b"CA")
    with pytest.raises(CliError, match="--server"):
        join._build_component_endpoint(local, wish())
    found = join._build_component_endpoint(local, wish(server="https://c2-control-plane:6443"))
    assert found.server == "https://c2-control-plane:6443"
    with pytest.raises(CliError, match="certificate-authority-data"):
        join._build_component_endpoint(Endpoint(server="https://10.0.0.5"), wish())


@pytest.mark.parametrize(
    ("problem", "told"),
    [
        (
            errors.Forbidden("-", request=REQUEST),
            (
                "-. Use a user with rights to write namespaces and cluster roles in the target"
                " cluster."
            ),
        ),
        (
            errors.Untrusted("expired"),
            "expired. Check server and certificate-authority-data of its kubeconfig.",
        ),
        (errors.NotSent("refused"), "refused"),
        (errors.NotSent("refused", request=REQUEST), "https://super: refused"),
        (errors.NotConnected("no route to c2:6443", request=REQUEST), "no route to c2:6443"),
        (errors.Unauthorized("who", request=REQUEST), "who"),
        (errors.CredentialsError("no PEM"), "no PEM"),
    ],
)
def test_an_error_of_the_other_cluster_has_its_own_remedy_or_none(problem, told):
    with pytest.raises(CliError) as raised, join.attribute_to_target():
        raise problem
    assert str(raised.value) == f"in the target cluster: {told}"


@pytest.mark.parametrize("server", ["https://[::1", "https://10.0.0.5:99999", "c2:6443"])
def test_a_server_that_is_no_url_is_a_sentence(server):
    with pytest.raises(errors.CredentialsError, match="like https"):
        join._build_component_endpoint(
            Endpoint(server="https://10.0.0.5", ca=b"CA"), wish(server=server)
        )


def test_a_dry_run_shows_both_clusters_and_no_token():
    shown = Endpoint(server="https://10.0.0.5:6443", ca=b"CA", token="secret")
    text = join._format_plan(PLAN, wish(), shown)
    there, here = text.split("# In the home cluster:\n")
    assert [each["kind"] for each in yaml.safe_load_all(here)] == ["Secret", "SuperCluster"]
    assert len(list(yaml.safe_load_all(there))) == 16
    assert "token: TOKEN" in text


class NarrowUser:
    """A target that refuses aggregated roles, as to a user who is no cluster-admin."""

    def __init__(self, *, refuses: str = "aggregationRule") -> None:
        self.refuses = refuses
        self.applied: list[str] = []

    async def apply(self, _: object, body: dict[str, Any], **__: object) -> None:
        if self.refuses in body:
            raise errors.Forbidden("must have all rights", request=REQUEST)
        self.applied.append(f"{body['kind']} {body['metadata']['name']}")

    async def get(self, *_: object, **__: object) -> None:
        raise errors.NotFound("-", request=REQUEST)

    async def create(self, *_: object, **__: object) -> dict[str, Any]:
        return {"status": {"token": "t", "expirationTimestamp": "2026-01-01T00:00:00Z"}}


async def test_a_user_without_the_right_to_aggregate_roles_joins_without_sync_rules():
    there, told = NarrowUser(), io.StringIO()
    terminal = Terminal(io.StringIO(), told)
    token, _ = await join._create_account(cast("Client", there), PLAN, wish(), terminal)
    assert token == "t"
    assert f"ClusterRoleBinding {PLAN.role_name}" in there.applied
    assert PLAN.rules_role_name not in " ".join(there.applied)
    assert PLAN.rules_role_name in told.getvalue()
    assert "no object of a SyncRule" in told.getvalue()
    with pytest.raises(errors.Forbidden):
        await join._create_account(
            cast("Client", NarrowUser(refuses="rules")), PLAN, wish(), terminal
        )
