"""The walkthroughs of `docs/walkthroughs`, run as they stand, on two super clusters with kubelets.

Hazard: what one of them leaves behind the next one finds; each sets what the tenant is granted.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator

import pytest

from tests.node.conftest import SuperCluster
from tests.testbed.cluster import REPOSITORY, Cluster
from tests.testbed.progress import Progress
from tests.walks import run

pytestmark = [pytest.mark.node, pytest.mark.timeout(600)]

PAGES = REPOSITORY / "docs" / "walkthroughs"
FAR = "c2"
"""The name of the other cluster on the pages."""

Walk = Callable[[str], None]


@pytest.fixture(scope="module")
def walk(super_cluster: SuperCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Walk]:
    """Have what comes before the first page, and go through pages."""
    far = Cluster(FAR)
    far.up(Progress())
    far.connect(super_cluster.cluster)
    folder = tmp_path_factory.mktemp("walk")
    shutil.copy(far.kubeconfig, folder / f"{FAR}.kubeconfig")
    environment = {
        **os.environ,
        **super_cluster.cluster.environment(),
        "PYTHONPATH": str(REPOSITORY),
    }
    try:
        run.walk(PAGES / "README.md", folder, environment)
        yield lambda name: run.walk(PAGES / name, folder, environment)
    finally:
        if "KEEP" not in os.environ:
            kubectl = super_cluster.kubectl
            kubectl.call("vc", "delete", "demo", timeout=180)
            left = kubectl.call(
                *("vc", "target", "leave", FAR),
                *("--target-kubeconfig", str(folder / f"{FAR}.kubeconfig")),
            )
            kubectl.call("delete", "superclusters", "--all")
            far.down()
            assert left.code == 0, left


def test_two_clusters_with_kubelets_are_one_tenants(walk: Walk):
    """A0-04, A0-07, A0-08, A1-02, A1-03, A1-05, A1-06, A2-01: joined, declared, one node."""
    assert walk is not None


def test_a_job_runs_on_another_cluster(walk: Walk):
    """A0-10, A0-14, A0-15, A0-16, A0-19: where it is seen, where it runs, and how it ends."""
    walk("000-a-job-on-another-cluster.md")


def test_ten_replicas_are_five_in_each_of_two_clusters(walk: Walk):
    """A1-08, A1-09, A1-10, A1-11, A1-13: ten on each side of the border, equal addresses."""
    walk("001-ten-replicas-over-two.md")


def test_a_taint_keeps_off_who_does_not_tolerate_it(walk: Walk):
    """A2-04, A2-06, A2-07, A2-08, A2-10: the pod of the post, and its twin that waits."""
    walk("002-a-taint-and-its-toleration.md")


def test_an_autoscaler_makes_the_node_that_a_pod_waits_for(walk: Walk):
    """A4-10, A4-11, A4-13: Pending, told why, a node joins, Running."""
    walk("004-a-node-from-an-autoscaler.md")
