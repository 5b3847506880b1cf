"""The syncer as people run it: `python -m syncer --kubeconfig FILE`, stopped by a signal."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from pathlib import Path

from tenancy import wellknown
from tenancy.resources import LEASES, PODS
from tests.integration.syncer.objects import pod
from tests.integration.syncer.rights import grant_lease
from tests.integration.syncer.world import HOME, SYNCER, SyncerWorld
from tests.support import alerts
from tests.support.eventually import eventually
from tests.support.processes import free_port
from tests.support.replicas import fetch


async def test_the_program_syncs_and_ends_in_order(world: SyncerWorld, tmp_path: Path):
    """A2-15, REL-13: by a signal."""
    await grant_lease(world)
    kubeconfig, port = tmp_path / "super.kubeconfig", free_port()
    kubeconfig.write_bytes(world.super_plane.kubeconfig(SYNCER, group=""))
    kubeconfig.chmod(0o600)
    with (tmp_path / "log").open("wb") as log:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            *("-m", "syncer", "--kubeconfig", str(kubeconfig), "--port", str(port)),
            env={**os.environ, "KUBECONFIG": "/nonexistent"},
            stderr=log,
        )
        try:
            made = await world.tenant_client.create(PODS, pod("program"), namespace="default")
            twin = await eventually(lambda: world.twin(PODS, "default", "program"), within=60)
            assert twin["metadata"]["annotations"][wellknown.UID] == made["metadata"]["uid"]
            for path in ("/healthz", "/readyz"):
                assert await fetch(port, path)
            assert "VirtualClusterSyncerDown" not in alerts.firing(
                alerts.scraped(await fetch(port, "/metrics"))
            )
            lease = await world.super_client.get(LEASES, wellknown.SYNCER, namespace=HOME)
            assert lease["spec"]["holderIdentity"]
        finally:
            process.send_signal(signal.SIGTERM)
            code = await asyncio.wait_for(process.wait(), 15)
    assert code == 0
    lease = await world.super_client.get(LEASES, wellknown.SYNCER, namespace=HOME)
    assert not lease["spec"].get("holderIdentity")
    lines = [json.loads(line) for line in (tmp_path / "log").read_text().splitlines()]
    assert lines[-2]["event"] == "syncer.stopped"
    assert not [line for line in lines if line["level"] == "error"]


async def test_without_credentials_it_reports_it(tmp_path: Path):
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", "syncer", "--kubeconfig", str(tmp_path / "none")),
        stderr=asyncio.subprocess.PIPE,
    )
    _, told = await asyncio.wait_for(process.communicate(), 30)
    assert process.returncode == 1
    assert told.decode().startswith("vc-syncer: ")
    assert "Traceback" not in told.decode()
