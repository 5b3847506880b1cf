"""How-to pages of `docs` that change the values of the chart, run as they stand with helm.

An API server has the chart, and no component of the product runs. So the tests show that each value
and each object of a page is accepted, and that the rights are as the page reports them. Blocks
without the word `console` need a component, and are not run.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from kubeio import Object
from tests.support import ecosystem
from tests.support.controlplane import LocalControlPlane, serving
from tests.support.helm import CHART, NAMESPACE, RELEASE, helm
from tests.support.kubectl import KubectlRunner, listed
from tools.packages import ROOT
from tools.testbed.artifacts import binaries
from tools.walks import run

pytestmark = pytest.mark.integration

PAGES = ("api-proxy", "cluster-inventory", "cluster-api", "gitops")
PROGRAMS = ("kubectl", "helm")
PREPARED: tuple[Object, ...] = (
    {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "argocd"}},
    {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "argocd-cm", "namespace": "argocd"},
    },
    {
        "apiVersion": "tenancy.x-k8s.io/v1alpha1",
        "kind": "VirtualCluster",
        "metadata": {"name": "shop", "namespace": "default"},
        "spec": {"clusterVersionName": "v1.36"},
    },
    ecosystem.load_definition(ecosystem.CLUSTERS),
    ecosystem.load_definition(ecosystem.CLUSTER_PROFILES),
)
"""Objects that a reader has before the first step of a page."""


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mapping[str, str]]:
    """A shell with kubectl and helm, for a super cluster with the chart."""
    folder = tmp_path_factory.mktemp("how-tos")
    plane = LocalControlPlane(folder, name="how-tos")
    with serving(plane):
        kubeconfig = folder / "kubeconfig"
        kubeconfig.write_bytes(plane.kubeconfig())
        kubeconfig.chmod(0o600)
        words = ("install", RELEASE, str(CHART), "--namespace", NAMESPACE, "--create-namespace")
        done = helm(*words, kubeconfig=kubeconfig)
        assert done.returncode == 0, done.stderr
        folders = (Path(sys.executable).parent, *(binaries.path(name).parent for name in PROGRAMS))
        path = os.pathsep.join((*map(str, folders), os.environ["PATH"]))
        create = ("create", "-f", "-")
        kubectl = KubectlRunner(kubeconfig=kubeconfig, path=path)
        kubectl.run(*create, stdin=json.dumps(listed(PREPARED)))
        yield {
            **os.environ,
            **{f"HELM_{kind}_HOME": str(folder) for kind in ("CACHE", "CONFIG", "DATA")},
            "KUBECACHEDIR": str(folder / "cache"),
            "KUBECONFIG": str(kubeconfig),
            "PATH": path,
            "PYTHONPATH": str(ROOT),
        }


@pytest.mark.parametrize("page", PAGES)
def test_page_runs_as_it_stands(page: str, environment: Mapping[str, str], tmp_path: Path):
    (tmp_path / "charts").symlink_to(ROOT / "charts")
    run.walk(ROOT / f"docs/{page}.md", tmp_path, environment)
