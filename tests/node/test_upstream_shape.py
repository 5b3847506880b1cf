"""A ClusterVersion of upstream's shape, with images, flags and probes of 1.36."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from tests.node.conftest import SuperClusterAdmin, TenantAdmin
from tests.support import node_objects

pytestmark = [pytest.mark.node, pytest.mark.timeout(900)]

SAMPLE = Path(__file__).parents[2] / "clusterversions" / "samples" / "upstream-shape.yaml"


def test_it_gives_a_ready_tenant_with_logs_and_exec(
    super_cluster: SuperClusterAdmin, make_tenant: Callable[..., TenantAdmin]
):
    sample = SAMPLE.read_text()
    name = yaml.safe_load(sample)["metadata"]["name"]
    before = yaml.safe_load(
        super_cluster.kubectl.run(
            "apply", "--server-side", "--dry-run=server", "-o", "yaml", "-f", "-", stdin=sample
        )
    )
    assert before["spec"] == yaml.safe_load(sample)["spec"], "the sample must pass unchanged"
    super_cluster.kubectl.run("apply", "--server-side", "-f", "-", stdin=sample)
    tenant = make_tenant("upstream", cluster_version=name)
    tenant.kubectl.apply(node_objects.sleeper("first"))
    tenant.kubectl.run("wait", "--for=condition=Ready", "pod/first", "--timeout=90s")
    assert tenant.kubectl.run("logs", "first").strip() == "ready"
    assert tenant.kubectl.run("exec", "first", "--", "echo", "inside").strip() == "inside"
    ephemeral = super_cluster.condition("upstream", "StoreEphemeral")
    assert ephemeral is not None
    assert ephemeral["status"] == "True", json.dumps(ephemeral)
    super_cluster.kubectl.run("vc", "delete", "upstream", timeout=180)
