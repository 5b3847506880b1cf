"""The agents' metrics, for users with a role of the super cluster that allows it."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.node.conftest import COMPONENTS, SuperClusterAdmin

pytestmark = [pytest.mark.node, pytest.mark.timeout(300)]

READER = "metrics-reader"
ROLE = "virtual-cluster-metrics"
PORT = 10552


@pytest.fixture
def reader(super_cluster: SuperClusterAdmin) -> Iterator[str]:
    """An account that may read metrics."""
    kubectl = super_cluster.kubectl
    kubectl.run("-n", COMPONENTS, "create", "serviceaccount", READER)
    account = f"--serviceaccount={COMPONENTS}:{READER}"
    kubectl.run("create", "clusterrolebinding", READER, f"--clusterrole={ROLE}", account)
    yield READER
    kubectl.run("delete", "clusterrolebinding", READER)
    kubectl.run("-n", COMPONENTS, "delete", "serviceaccount", READER)


@pytest.fixture
def ask(
    super_cluster: SuperClusterAdmin, tmp_path: Path
) -> Callable[[str | None], tuple[int, str]]:
    """Ask an agent for its metrics with an account's token, or without. Status and text."""
    kubectl = super_cluster.kubectl
    trust = kubectl.get("configmap", "vn-agent-trust", "-n", COMPONENTS)
    (tmp_path / "ca.crt").write_text(trust["data"]["serving-ca.crt"])
    selector = "app.kubernetes.io/name=vn-agent"
    agent = kubectl.items("pods", "-n", COMPONENTS, "-l", selector)[0]
    words = ("--cacert", str(tmp_path / "ca.crt"), "--write-out", "\n%{http_code}")
    path = f"https://{agent['status']['podIP']}:{PORT}/metrics"

    def run(account: str | None) -> tuple[int, str]:
        own = words
        if account is not None:
            token = kubectl.run("-n", COMPONENTS, "create", "token", account).strip()
            (tmp_path / "header").write_text(f"Authorization: Bearer {token}")
            own = (*words, "--header", f"@{tmp_path / 'header'}")
        done = super_cluster.curl_from_node(agent["spec"]["nodeName"], *own, path)
        text, _, status = done.stdout.rpartition("\n")
        return int(status), text

    return run


def test_sec_13_an_agent_shows_its_metrics_to_accounts_with_the_role(ask, reader: str):
    status, text = ask(reader)
    assert status == 200
    assert 'vc_agent_policies{state="followed"} 1.0' in text
    assert ask(None)[0] == 401
    assert ask("default")[0] == 403
