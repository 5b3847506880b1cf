"""Files of snapshots through `exec`: the server runs the real program."""

import asyncio
import hashlib
import json
import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace

import pytest
from aiohttp import WSMsgType, web

from kubectl_vc.client import pod_exec
from kubectl_vc.output.cli_errors import CliError
from kubectl_vc.snapshot import transfer
from kubectl_vc.snapshot.transfer_pod import TransferPod
from kubeio.config.endpoint import Endpoint
from tests.unit.kubectl_vc.snapshot.test_snapshots import body

CONTENT = os.urandom(700_000)
PROGRAM = "import sys; from vcmanager.snapshots import worker; sys.exit(worker.main(sys.argv[1:]))"
"""The program of the pod, without the imports of vc-manager's other programs."""
CHECKSUM = hashlib.sha256(CONTENT).hexdigest()


class Kubelet:
    """The server side of `exec`. It runs the program, and may cut the connection."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.cut_after: list[int] = []
        """Bytes after which each of the next connections is cut."""
        self.commands: list[list[str]] = []

    async def exec(self, request: web.Request) -> web.StreamResponse:
        if request.headers.get("Authorization") != "Bearer t":
            return web.Response(status=403)
        command = request.query.getall("command")
        self.commands.append(command)
        assert command[:4] == ["python3", "-m", "vcmanager", "snapshot-file"]
        words = [word.replace("/snapshots", str(self.folder)) for word in command[4:]]
        socket = web.WebSocketResponse(protocols=("v4.channel.k8s.io",))
        await socket.prepare(request)
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", PROGRAM, *words),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        assert process.stdin
        assert process.stdout
        assert process.stderr
        left = self.cut_after.pop(0) if self.cut_after else None
        feeding = asyncio.create_task(self._feed(socket, process.stdin, left))
        while chunk := await process.stdout.read(50_000):
            await socket.send_bytes(b"\x01" + chunk)
            if left is not None and (left := left - len(chunk)) <= 0:
                process.kill()
                feeding.cancel()
                await process.communicate()
                request.transport.abort()
                return socket
        problem = await process.stderr.read()
        code = await process.wait()
        feeding.cancel()
        if problem:
            await socket.send_bytes(b"\x02" + problem)
        state = {"status": "Success"} if not code else {"status": "Failure", "message": str(code)}
        await socket.send_bytes(b"\x03" + json.dumps(state).encode())
        await socket.close()
        return socket

    async def _feed(self, socket, stdin, left) -> None:
        async for message in socket:
            if message.type is WSMsgType.BINARY and message.data[0] == 0:
                stdin.write(message.data[1:])
                await stdin.drain()
                if left is not None and (left := left - len(message.data)) <= 0:
                    stdin.close()
                    return


@pytest.fixture
async def kubelet(tmp_path: Path) -> AsyncIterator[tuple[Kubelet, TransferPod]]:
    found = Kubelet(tmp_path / "volume")
    found.folder.mkdir()
    app = web.Application()
    app.router.add_get("/api/v1/namespaces/root/pods/p/exec", found.exec)
    runner = web.AppRunner(app, shutdown_timeout=1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    port = runner.addresses[0][1]
    endpoint = Endpoint(server=f"http://127.0.0.1:{port}", token="t")
    connection = SimpleNamespace(super_client=SimpleNamespace(endpoint=endpoint))
    pod = TransferPod(connection=connection, namespace="root", name="p")  # type: ignore[arg-type]
    try:
        yield found, pod
    finally:
        await runner.cleanup()


async def test_a_cut_download_continues_at_the_received_byte(kubelet, tmp_path, monkeypatch):
    server, pod = kubelet
    monkeypatch.setattr(transfer, "_RETRY_SECONDS", 0)
    (server.folder / "a.db").write_bytes(CONTENT)
    server.cut_after = [100_000, 200_000]
    with (tmp_path / "out").open("wb") as file:
        checksum = await transfer._download(pod, "/snapshots/a.db", file)
    assert (tmp_path / "out").read_bytes() == CONTENT
    assert checksum == CHECKSUM
    offsets = [int(each[-1].partition("=")[2]) for each in server.commands]
    assert offsets[0] == 0
    assert len(offsets) == 3
    assert sorted(offsets) == offsets
    assert offsets[-1] > 0


async def test_a_cut_upload_leaves_no_file_and_is_repeated(kubelet, tmp_path, monkeypatch):
    server, pod = kubelet
    (tmp_path / "in").write_bytes(CONTENT)
    manifest = {"sizeBytes": len(CONTENT), "sha256": CHECKSUM}
    server.cut_after = [300_000]
    with pytest.raises(CliError, match="the stream ended"):
        await transfer._upload(pod, "a", manifest, tmp_path / "in")
    assert list(server.folder.iterdir()) == []
    await transfer._upload(pod, "a", manifest, tmp_path / "in")
    assert [each.name for each in server.folder.iterdir()] == ["a.db"]
    assert (server.folder / "a.db").read_bytes() == CONTENT


async def test_another_content_than_announced_leaves_no_file(kubelet, tmp_path):
    server, pod = kubelet
    (tmp_path / "in").write_bytes(b"x" * len(CONTENT))
    manifest = {"sizeBytes": len(CONTENT), "sha256": CHECKSUM}
    with pytest.raises(CliError, match=r"was announced \(ChecksumMismatch\)"):
        await transfer._upload(pod, "a", manifest, tmp_path / "in")
    assert list(server.folder.iterdir()) == []


async def test_a_missing_file_and_a_missing_right_are_named(kubelet, tmp_path):
    _, pod = kubelet
    with (tmp_path / "out").open("wb") as file, pytest.raises(CliError, match=r"no file b\.db"):
        await transfer._download(pod, "/snapshots/b.db", file)
    endpoint = Endpoint(server=pod.connection.super_client.endpoint.server, token="other")
    with pytest.raises(CliError, match="create of pods/exec"):
        await pod_exec.run_in_pod(endpoint, "root", "p", ["x"], write=lambda _: None)


def test_a_local_file_must_be_that_of_its_manifest(tmp_path):
    file = tmp_path / "web.db"
    file.write_bytes(CONTENT)
    beside = tmp_path / "web.db.json"
    with pytest.raises(CliError, match=r"web\.db\.json cannot be read"):
        transfer.read_manifest(file)
    for content, message in (
        ("{", "no JSON"),
        ("{}", "the field sha256 is missing"),
        (json.dumps({"sha256": "00"}), "Use the file that was exported"),
    ):
        beside.write_text(content)
        with pytest.raises(CliError, match=message):
            transfer.read_manifest(file)
    beside.write_text(json.dumps({"sha256": CHECKSUM, "objects": 7}))
    assert transfer.read_manifest(file) == {
        "sha256": CHECKSUM,
        "objects": 7,
        "sizeBytes": len(CONTENT),
    }


def test_an_imported_snapshot_has_the_manifest_and_no_bucket():
    options = transfer.ImportOptions(file=Path("f"), snapshot="s", claim="snapshots-nfs")
    found = transfer.build_imported("web", {"sha256": CHECKSUM}, options)
    assert found["spec"] == {
        "virtualClusterName": "web",
        "storage": {"persistentVolumeClaim": {"claimName": "snapshots-nfs"}},
        "imported": {"manifest": {"sha256": CHECKSUM}},
    }


@pytest.mark.parametrize("status", ["Unknown", "False"])
async def test_only_a_complete_snapshot_is_exported(status, tmp_path):
    with pytest.raises(CliError, match="is not complete"):
        await transfer.export_snapshot(
            None,  # type: ignore[arg-type]
            body(status),
            tmp_path / "f",
            force=False,
            image="",
        )
    assert list(tmp_path.iterdir()) == []
