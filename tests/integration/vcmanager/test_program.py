"""The program as it is started in a pod: takes the Lease, works, ends in order."""

import asyncio
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from kubeio import errors
from tenancy import resources
from tests.integration.vcmanager.conftest import NAMESPACE, USER, ManagerStage
from tests.support.eventually import eventually
from tests.support.processes import free_port


@pytest.fixture
async def program(stage: ManagerStage, tmp_path: Path) -> AsyncIterator[asyncio.subprocess.Process]:
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_bytes(stage.plane.kubeconfig(USER, group=""))
    kubeconfig.chmod(0o600)
    with (tmp_path / "log").open("wb") as log:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "vcmanager", "--kubeconfig", str(kubeconfig)),
            *("--namespace", NAMESPACE, "--port", str(free_port())),
            *("--control-plane-registry", "registry.example/vc"),
            stderr=log,
        )
        yield process
        if process.returncode is None:
            process.kill()
            await process.wait()


async def holder(stage: ManagerStage) -> str:
    try:
        lease = await stage.admin.get(resources.LEASES, "vc-manager", namespace=NAMESPACE)
    except errors.NotFound:
        return ""
    return lease["spec"].get("holderIdentity") or ""


async def test_it_works_while_it_holds_the_lease_and_gives_it_back(stage: ManagerStage, program):
    await eventually(lambda: holder(stage), within=60)
    cluster = await stage.declare()
    await eventually(
        lambda: stage.names_of(resources.STATEFUL_SETS, cluster),
        until=lambda found: "etcd" in found,
        within=60,
    )

    async def ready_reason():
        ready = await stage.condition(cluster, "Ready")
        return ready["reason"] if ready else ""

    assert await eventually(ready_reason, within=30) in ("NotCreated", "Starting")
    found = await stage.fresh(cluster)
    assert found["metadata"]["finalizers"] == ["tenancy.x-k8s.io/vc-manager"]
    program.send_signal(signal.SIGTERM)
    async with asyncio.timeout(20):
        assert await program.wait() == 0
    assert await holder(stage) == ""


async def test_what_is_wrong_with_its_kubeconfig_is_one_sentence(tmp_path: Path):
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "vcmanager", "--kubeconfig", str(tmp_path / "missing")),
        stderr=asyncio.subprocess.PIPE,
    )
    _, told = await process.communicate()
    assert process.returncode == 1
    assert told.startswith(b"vc-manager: ")
    assert b"missing" in told
    assert b"Traceback" not in told
