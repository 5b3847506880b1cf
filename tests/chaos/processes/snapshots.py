"""Backups of a tenant's store, by hand with etcdctl and etcdutl, or by the Jobs of vc-manager.

Owns the two programs' command lines. A restore by hand makes a new data folder beside the present
one. `ControlPlane.restart_on_store` moves in. The Jobs replace the present data for good.
"""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

from kubeio import Object
from tenancy.ownership import Tenant
from tenancy.snapshots import view
from tenancy.snapshots.view import Snapshot
from tests.support.controlplane import LocalControlPlane
from tests.support.vcmanager.job_containers import run_container
from tests.support.vcmanager.snapshots import live_etcd, snapshot_body
from tools.testbed.artifacts import binaries
from vcmanager.snapshots import jobs
from vcmanager.snapshots.jobs import JobContext

BUMP = 1_000_000_000
"""What Kubernetes' own documentation has a restored store's revision raised by."""


async def save(plane: LocalControlPlane, file: Path) -> None:
    """Take a backup of a store that runs."""
    await _run("etcdctl", f"--endpoints={plane.etcd}", "snapshot", "save", str(file))


async def restore(plane: LocalControlPlane, file: Path, store: str, *, bump: int) -> None:
    """Make a data folder `store` of the plane out of a backup. `bump` 0: revisions as they were."""
    raised = (f"--bump-revision={bump}", "--mark-compacted") if bump else ()
    peer = "http://127.0.0.1:2380"
    await _run(
        "etcdutl",
        *("snapshot", "restore", str(file), f"--data-dir={plane.folder / store}"),
        *("--name=default", f"--initial-cluster=default={peer}"),
        f"--initial-advertise-peer-urls={peer}",
        *raised,
    )


async def save_by_job(plane: LocalControlPlane, tenant: Tenant, folder: Path) -> Snapshot:
    """Save a store that runs with the Job of vc-manager, into a folder that exists."""
    body = snapshot_body("Running")
    job = jobs.build_save_job(_build_context(tenant), view.parse_snapshot(body), {}, name="save")
    measured = await _run_job(job, plane, folder)
    return view.parse_snapshot(snapshot_body(virtualClusterUID=tenant.uid, **measured))


async def restore_by_job(
    plane: LocalControlPlane, tenant: Tenant, snapshot: Snapshot, folder: Path
) -> str:
    """Replace the data of a store that has stopped with the Job of vc-manager.

    Returns the name of the data folder.
    """
    volume = plane.folder / f"volume-{folder.name}"
    volume.mkdir()
    (plane.folder / plane.store).rename(volume / "data")
    await _run_job(
        jobs.build_restore_job(_build_context(tenant), snapshot, name="x"), plane, folder
    )
    return f"{volume.name}/data"


def _build_context(tenant: Tenant) -> JobContext:
    return JobContext(tenant=tenant, etcd=live_etcd(), image="vc-manager")


async def _run_job(job: Object, plane: LocalControlPlane, folder: Path) -> Object:
    """Run the containers of a Job one after the other. Return the output of the last one."""
    paths = (
        ("https://etcd-client:2379", plane.etcd),
        (f"{jobs.SNAPSHOT_FOLDER}/", f"{folder}/"),
        (jobs.ETCD_FOLDER, str(plane.folder / f"volume-{folder.name}")),
    )

    def adapt(words: list[str]) -> list[str]:
        for old, new in paths:
            words = [word.replace(old, new) for word in words]
        # The store of a drill has no TLS.
        return [word for word in words if not word.startswith(("--cacert=", "--cert=", "--key="))]

    pod, text = job["spec"]["template"]["spec"], ""
    for container in (*pod["initContainers"], *pod["containers"]):
        code, text = await asyncio.to_thread(run_container, container, folder / "log", adapt)
        assert code == 0, f"{container['name']}: {text}"
    found: Object = json.loads(text)
    return found


async def _run(program: str, *words: str) -> None:
    process = await asyncio.create_subprocess_exec(
        str(binaries.path(program)),
        *words,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    told, _ = await process.communicate()
    assert not process.returncode, f"{program}: {told.decode(errors='replace')}"
