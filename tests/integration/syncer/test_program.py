"""The syncer as people run it: `python -m syncer --kubeconfig FILE`, stopped by a signal."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from pathlib import Path

from syncer.access import SUPER_ACCESS
from tenancy import marks
from tenancy.resources import LEASES, PODS, ROLE_BINDINGS, ROLES
from tests.integration.syncer.conftest import HOME, SYNCER, World, pod, rules_of
from tests.support.eventually import eventually
from tests.support.processes import free_port


async def grant_lease(world: World) -> None:
    """Let the syncer have its Lease, as the chart does in the components' namespace."""
    kind = "rbac.authorization.k8s.io"
    role = {
        "apiVersion": f"{kind}/v1",
        "kind": "Role",
        "metadata": {"name": SYNCER, "namespace": HOME},
        "rules": rules_of([row for row in SUPER_ACCESS if row.namespaced]),
    }
    binding = {
        "apiVersion": f"{kind}/v1",
        "kind": "RoleBinding",
        "metadata": {"name": SYNCER, "namespace": HOME},
        "roleRef": {"apiGroup": kind, "kind": "Role", "name": SYNCER},
        "subjects": [{"apiGroup": kind, "kind": "User", "name": SYNCER}],
    }
    await world.below.create(ROLES, role)
    await world.below.create(ROLE_BINDINGS, binding)


async def ask(port: int, path: str) -> str:
    """Return the status line of a probe."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
    answer = await reader.read()
    writer.close()
    return answer.decode().splitlines()[0]


async def test_the_program_syncs_and_ends_in_order(world: World, tmp_path: Path):
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
            made = await world.above.create(PODS, pod("program"), namespace="default")
            twin = await eventually(lambda: world.twin(PODS, "default", "program"), within=60)
            assert twin["metadata"]["annotations"][marks.UID] == made["metadata"]["uid"]
            for path in ("/healthz", "/readyz", "/metrics"):
                assert (await ask(port, path)).endswith("200 OK")
            lease = await world.below.get(LEASES, marks.SYNCER, namespace=HOME)
            assert lease["spec"]["holderIdentity"]
        finally:
            process.send_signal(signal.SIGTERM)
            code = await asyncio.wait_for(process.wait(), 15)
    assert code == 0
    lease = await world.below.get(LEASES, marks.SYNCER, namespace=HOME)
    assert not lease["spec"].get("holderIdentity")
    lines = [json.loads(line) for line in (tmp_path / "log").read_text().splitlines()]
    assert lines[-2]["event"] == "syncer.stopped"
    assert not [line for line in lines if line["level"] == "error"]


async def test_without_credentials_it_says_so(tmp_path: Path):
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", "syncer", "--kubeconfig", str(tmp_path / "none")),
        stderr=asyncio.subprocess.PIPE,
    )
    _, told = await asyncio.wait_for(process.communicate(), 30)
    assert process.returncode == 1
    assert told.decode().startswith("vc-syncer: ")
    assert "Traceback" not in told.decode()
