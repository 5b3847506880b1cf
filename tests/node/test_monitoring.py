"""Metrics of a tenant's control plane, read by the scrapers that the values of the chart name.

The values are those of `docs/monitoring.md`. Each check that a port is closed has one that it is
open, from the same node.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.node.conftest import SuperClusterAdmin, TenantAdmin
from tests.support import enforcement, node_objects
from tests.support.kubectl import until
from tools.packages import ROOT
from tools.testbed import chart
from tools.testbed.progress import StepPrinter

pytestmark = [pytest.mark.thorough, pytest.mark.node, pytest.mark.timeout(900)]

SPACE = "monitoring"
LABELS = {"prometheus": {"app.kubernetes.io/name": "prometheus"}, "other": {}}
"""Labels of the pods that read metrics. The values select the first."""
SECRET = "apiserver-scraper-client"
SCRAPERS = "controlPlane.networkPolicies.scrapers"


def flatten(value: Any, path: str) -> Iterator[str]:
    """Yield the words of `helm --set` for a value."""
    if isinstance(value, dict):
        for key, item in value.items():
            yield from flatten(item, f"{path}.{key.replace('.', chr(92) + '.')}".lstrip("."))
    elif isinstance(value, list):
        for number, item in enumerate(value):
            yield from flatten(item, f"{path}[{number}]")
    else:
        yield f"{path}={value}"


def read_values() -> tuple[str, ...]:
    """Return the values of the page that name the scrapers of control planes."""
    blocks = re.findall(r"```yaml\n(.*?)```", (ROOT / "docs/monitoring.md").read_text(), re.DOTALL)
    (found,) = [block for block in blocks if block.startswith("controlPlane:")]
    return tuple(flatten(yaml.safe_load(found), ""))


@pytest.fixture
def root(super_cluster: SuperClusterAdmin, tenant_a: TenantAdmin) -> str:
    """The root namespace of the tenant."""
    return str(super_cluster.virtual_cluster(tenant_a.name)["status"]["clusterNamespace"])


@pytest.fixture
def scrapers(super_cluster: SuperClusterAdmin) -> Iterator[None]:
    """A pod that the values of the page select, and one that they do not select."""
    enforcement.require(enforces=super_cluster.cluster.enforces)
    kubectl = super_cluster.kubectl
    kubectl.run("create", "namespace", SPACE)
    for name, labels in LABELS.items():
        made = node_objects.sleeper(name, namespace=SPACE)
        made["metadata"]["labels"] |= labels
        kubectl.apply(made)
    kubectl.run("-n", SPACE, "wait", "--for=condition=Ready", "pod", "--all", "--timeout=90s")
    chart.install(super_cluster.cluster, StepPrinter(), values=read_values())
    yield
    kubectl.run("delete", "namespace", SPACE, timeout=120)
    chart.install(super_cluster.cluster, StepPrinter(), values=(f"{SCRAPERS}=null",))


def find_pod(super_cluster: SuperClusterAdmin, root: str, component: str) -> dict[str, Any]:
    (found,) = super_cluster.kubectl.items("pods", "-n", root, "-l", f"component-name={component}")
    return found


def test_named_scrapers_read_the_metrics_of_a_tenants_etcd_and_no_other_pod_does(
    super_cluster: SuperClusterAdmin, root: str, scrapers: None
):
    address = find_pod(super_cluster, root, "etcd")["status"]["podIP"]

    def read(pod: str) -> str:
        words = ("wget", "-q", "-T", "4", "-O-", f"http://{address}:2381/metrics")
        return super_cluster.kubectl.call("-n", SPACE, "exec", pod, "--", *words).out

    until(lambda: "etcd_server_has_leader 1" in read("prometheus"), "metrics of etcd")
    assert read("other") == ""


def test_the_certificate_of_a_scraper_reads_metrics_of_the_api_server_and_nothing_else(
    super_cluster: SuperClusterAdmin, root: str, scrapers: None, tmp_path: Path
):
    kubectl = super_cluster.kubectl
    until(lambda: kubectl.exists("secret", SECRET, "-n", root), f"the Secret {SECRET}")
    pair = kubectl.get("secret", SECRET, "-n", root)["data"]
    for key in ("tls.crt", "tls.key"):
        file = tmp_path / key
        file.touch(mode=0o600)
        file.write_bytes(base64.b64decode(pair[key]))
    trust = kubectl.get("configmap", "trust", "-n", root)["data"]["serving.crt"]
    (tmp_path / "ca.crt").write_text(trust)
    pod = find_pod(super_cluster, root, "apiserver")
    name = "kubernetes.default.svc"

    def read(path: str) -> tuple[str, str]:
        """Return the status and the body of an answer."""
        done = super_cluster.curl_from_node(
            pod["spec"]["nodeName"],
            *("--cacert", f"{tmp_path}/ca.crt"),
            *("--cert", f"{tmp_path}/tls.crt", "--key", f"{tmp_path}/tls.key"),
            *("--resolve", f"{name}:6443:{pod['status']['podIP']}"),
            *("--write-out", "%{http_code}", f"https://{name}:6443{path}"),
        )
        return done.stdout[-3:], done.stdout[:-3]

    status, text = read("/metrics")
    assert status == "200"
    assert "\napiserver_request_total{" in text
    for path in ("/api/v1/secrets", "/api/v1/namespaces", "/apis/apps/v1/deployments"):
        assert read(path)[0] == "403", path
