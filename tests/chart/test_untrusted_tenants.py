"""The page about tenants that an administrator does not trust, run as it stands."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from kubeio.api.client import Client
from tenancy import resources
from tests.chart.conftest import ChartApiServer
from tools.packages import ROOT
from tools.testbed.artifacts import binaries
from tools.walks import run

pytestmark = pytest.mark.integration


async def test_the_page_runs_as_it_stands(server: ChartApiServer, tmp_path: Path):
    """SEC-212."""
    environment = {
        **os.environ,
        "KUBECONFIG": str(server.kubeconfig),
        "PATH": os.pathsep.join((str(binaries.path("kubectl").parent), os.environ["PATH"])),
    }
    async with Client(server.plane.endpoint) as admin:
        await admin.create(resources.NODES, {"metadata": {"name": "pool-1"}})
        try:
            page = ROOT / "docs/untrusted-tenants.md"
            await asyncio.to_thread(run.walk, page, tmp_path, environment)
        finally:
            await admin.delete(resources.NODES, "pool-1")
