"""The agents' metrics, for those whom a role of the super cluster lets read them."""

import json
import ssl
import urllib.error
import urllib.request
from collections.abc import Iterator

import pytest

from tests.node.conftest import COMPONENTS, SuperClusterAdmin, TenantAdmin

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


def ask(super_cluster: SuperClusterAdmin, account: str | None) -> tuple[int, str]:
    """Ask an agent for its metrics with an account's token, or without; status and text."""
    kubectl = super_cluster.kubectl
    trust = json.loads(
        kubectl.run("-n", COMPONENTS, "get", "configmap", "vn-agent-trust", "-o", "json")
    )
    selector = "app.kubernetes.io/name=vn-agent"
    agent = kubectl.items("pods", "-n", COMPONENTS, "-l", selector)[0]
    request = urllib.request.Request(f"https://{agent['status']['podIP']}:{PORT}/metrics")
    if account is not None:
        token = kubectl.run("-n", COMPONENTS, "create", "token", account).strip()
        request.add_header("Authorization", f"Bearer {token}")
    context = ssl.create_default_context(cadata=trust["data"]["serving-ca.crt"])
    try:
        with urllib.request.urlopen(request, timeout=20, context=context) as answer:  # noqa: S310
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as refused:
        return refused.code, refused.read().decode()


def test_sec_13_an_agent_shows_its_metrics_to_whom_a_role_lets_read_them(
    super_cluster: SuperClusterAdmin, tenant_a: TenantAdmin, reader: str
):
    status, text = ask(super_cluster, reader)
    assert status == 200
    assert 'vc_agent_policies{state="followed"} 1.0' in text
    assert ask(super_cluster, None)[0] == 401
    assert ask(super_cluster, "default")[0] == 403
