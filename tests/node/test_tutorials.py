"""The tutorials of `docs/tutorials`, run as they stand, on a super cluster with a kubelet."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.node.conftest import SuperClusterAdmin
from tests.support.kubectl import KubectlRunner
from tools.testbed.cluster.handle import REPOSITORY
from tools.walks import run

pytestmark = [pytest.mark.node, pytest.mark.timeout(600)]

PAGES = sorted((REPOSITORY / "docs/tutorials").glob("*.md"))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_page_runs_as_it_stands(page: Path, super_cluster: SuperClusterAdmin, tmp_path: Path):
    environment = {
        **os.environ,
        **super_cluster.cluster.environment(),
        "PYTHONPATH": str(REPOSITORY),
    }
    try:
        run.walk(page, tmp_path, environment)
    except run.WalkthroughError:
        _delete_tenants(environment, tmp_path)
        raise


def _delete_tenants(environment: dict[str, str], folder: Path) -> None:
    """Delete the tenants of a page that failed. Each wrote its kubeconfig to the folder."""
    admin = KubectlRunner(kubeconfig=Path(environment["KUBECONFIG"]), path=environment["PATH"])
    for path in folder.glob("*.kubeconfig"):
        admin.call("delete", "virtualcluster", path.stem, "--wait=false")
