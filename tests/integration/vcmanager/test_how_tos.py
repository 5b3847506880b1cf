"""How-to pages of `docs`, run as they stand, on real API servers and with reconciles of vc-manager.

The tenant of the pages is `shop` in the namespace `default`. Its content, and the SyncRules, are
reconciled while a page runs.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from kubeio.api.client import Client
from tenancy import wellknown
from tenancy.resources import CLUSTER_ROLES, TENANT_POLICIES, VIRTUAL_CLUSTERS
from tests.integration.vcmanager.conftest import CONTROLLERS, ManagerStage, installed
from tests.integration.vcmanager.content_stage import ContentStage, reconciling
from tests.support import helm
from tests.support.controlplane import LocalControlPlane
from tools.packages import ROOT
from tools.testbed.artifacts import binaries
from tools.walks import run
from vcmanager.reconcilers.sync_rules import reconcile_sync_rules
from vcmanager.runtime.keys import SYNC_RULES_KEY

PAGES = ("policy", "sync-rules", "tenant-content")
_TURN_SECONDS = 0.5


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalControlPlane]:
    """A super cluster whose roles are aggregated."""
    controllers = (*CONTROLLERS, "clusterrole-aggregation-controller")
    with installed(tmp_path_factory.mktemp("super"), controllers=controllers) as made:
        yield made


async def install_chart_objects(admin: Client) -> None:
    """Create the TenantPolicies of the chart, and the role that collects rights of SyncRules.

    Policies that another page has created are deleted, because a page lists all.
    """
    for body in (await admin.list(TENANT_POLICIES))["items"]:
        await admin.delete(TENANT_POLICIES, body["metadata"]["name"])
    rendered = helm.render()
    for body in rendered:
        if body["kind"] == "TenantPolicy":
            await admin.apply(TENANT_POLICIES, body, field_manager="helm")
    role = helm.named(rendered, "ClusterRole", wellknown.SYNCER_RULES_ROLE)
    await admin.apply(CLUSTER_ROLES, role, field_manager="helm")


async def keep_reconciling(found: ContentStage) -> None:
    """Reconcile SyncRules and the content of the tenant, as their watches would."""
    while True:
        found.wake()
        await reconcile_sync_rules(found.means, SYNC_RULES_KEY)
        await asyncio.sleep(_TURN_SECONDS)


@pytest.mark.parametrize("page", PAGES)
async def test_page_runs_as_it_stands(
    page: str, stage: ManagerStage, inside: LocalControlPlane, tmp_path: Path
):
    await install_chart_objects(stage.admin)
    (tmp_path / "super").write_bytes(stage.plane.kubeconfig())
    (tmp_path / "shop.kubeconfig").write_bytes(inside.kubeconfig())
    programs = (str(Path(sys.executable).parent), str(binaries.path("kubectl").parent))
    environment = {
        **os.environ,
        "KUBECONFIG": str(tmp_path / "super"),
        "PATH": os.pathsep.join((*programs, os.environ["PATH"])),
        "PYTHONPATH": str(ROOT),
    }
    async with reconciling(stage, inside, name="shop") as found:
        working = asyncio.ensure_future(keep_reconciling(found))
        try:
            await asyncio.to_thread(run.walk, ROOT / f"docs/{page}.md", tmp_path, environment)
        finally:
            working.cancel()
            await asyncio.wait([working])
            await stage.admin.delete(VIRTUAL_CLUSTERS, "shop", namespace="default")
        assert working.cancelled(), working.exception()
