"""`connect`, `disconnect` and `exec`, with a real API server as the tenant's.

A program in the place of kubectl forwards where a test needs a kubelet.
"""

from __future__ import annotations

import base64
import json
import os
import stat
import sys
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import yaml

from kubeio.api.client import Client
from kubeio.config import loading
from tests.integration.kubectl_vc.conftest import UserTerminal
from tests.support.eventually import eventually
from tools.testbed.artifacts import binaries

FORWARDER = """#!{python}
import os, socket, sys, threading
with open({log!r}, "a") as log: log.write(" ".join(sys.argv[1:]) + "\\n")
local = int(sys.argv[-1].partition(":")[0] or 0)
server = socket.create_server(("127.0.0.1", local))
print(f"Forwarding from 127.0.0.1:{{server.getsockname()[1]}} -> 6443", flush=True)
def copy(source, sink):
    try:
        while data := source.recv(65536): sink.sendall(data)
        sink.shutdown(socket.SHUT_WR)
    except OSError: pass
while True:
    near, _ = server.accept()
    far = socket.create_connection(("127.0.0.1", {port}))
    threading.Thread(target=copy, args=(near, far), daemon=True).start()
    threading.Thread(target=copy, args=(far, near), daemon=True).start()
"""


def read(desk: UserTerminal) -> dict:
    return yaml.safe_load((desk.folder / "super").read_text())


def add_kubectl(desk: UserTerminal, port: int) -> Path:
    """Put a program in the place of kubectl, which forwards to a port. Return its log."""
    folder, log = desk.folder / "bin", desk.folder / "kubectl.log"
    folder.mkdir(exist_ok=True)
    program = folder / "kubectl"
    program.write_text(FORWARDER.format(python=sys.executable, log=str(log), port=port))
    program.chmod(0o755)
    desk.environment["PATH"] = f"{folder}{os.pathsep}{os.environ['PATH']}"
    return log


def _list(path: str) -> list[Path]:
    """Return the files beside a path. Empty without its folder."""
    folder = Path(path).parent
    return [*folder.iterdir()] if folder.is_dir() else []


def api_port(desk: UserTerminal) -> int:
    return urlsplit(desk.plane.endpoint.server).port or 0


async def hand_out_unreachable(desk: UserTerminal) -> None:
    """Give the tenant an endpoint that nothing answers at."""
    document = json.loads(desk.plane.kubeconfig("tenant-admin"))
    document["clusters"][0]["cluster"]["server"] = "https://127.0.0.1:9"
    await desk.hand_out(content=json.dumps(document).encode())


async def is_served(desk: UserTerminal) -> bool:
    endpoint = await loading.load_user_kubeconfig(str(desk.folder / "super"))
    async with Client(endpoint) as client:
        return bool(await client.version())


@pytest.fixture
async def tenant(desk: UserTerminal) -> UserTerminal:
    await desk.make()
    await desk.hand_out()
    return desk


async def test_connect_adds_one_context_and_disconnect_removes_it(tenant: UserTerminal):
    before = read(tenant)
    done = await tenant.run("connect", "web", "-n", tenant.namespace)
    name = f"vc_{tenant.namespace}_web_it"
    assert (done.code, done.out) == (
        0,
        f'Switched to context "{name}" of VirtualCluster {tenant.namespace}/web.\n',
    ), done.err
    after = read(tenant)
    assert after["current-context"] == name
    assert after["contexts"][0] == before["contexts"][0]
    assert stat.S_IMODE((tenant.folder / "super").stat().st_mode) == 0o600
    assert await is_served(tenant)

    # The verbs go on with the super cluster, and a second connect changes nothing.
    listed = await tenant.run("list", "-n", tenant.namespace, "-o", "name")
    assert listed.out == "virtualcluster.tenancy.x-k8s.io/web\n", listed.err
    assert (await tenant.run("connect", "web", "-n", tenant.namespace)).code == 0
    assert read(tenant) == after

    left = await tenant.run("disconnect")
    assert (left.code, left.out) == (
        0,
        f'Removed context "{name}".\nThe current context is "it".\n',
    ), left.err
    assert {key: value for key, value in read(tenant).items() if key in before} == before
    again = await tenant.run("disconnect")
    assert again.code == 1
    assert 'the current context "it" was not added by `kubectl vc connect`' in again.err
    unknown = await tenant.run("disconnect", "web")
    assert (unknown.code, "no connection to a VirtualCluster web" in unknown.err) == (1, True)


@pytest.mark.parametrize("verb", ["connect", "exec"])
async def test_a_command_gets_a_context_of_its_own_and_its_exit_code_counts(
    tenant: UserTerminal, verb: str
):
    before = (tenant.folder / "super").read_bytes()
    script = (
        "import json, os, pathlib, sys, yaml\n"
        "path = pathlib.Path(os.environ['KUBECONFIG'])\n"
        "document = yaml.safe_load(path.read_text())\n"
        "print(document['current-context'], oct(path.stat().st_mode & 0o777), path)\n"
        "sys.exit(7)"
    )
    words = (verb, "web", "-n", tenant.namespace, "--", sys.executable, "-c", script)
    running = await tenant.start(*words)
    done = await running.end()
    context, mode, path = done.out.split()
    assert (done.code, context, mode) == (7, f"vc_{tenant.namespace}_web", "0o600"), done.err
    assert path not in {str(each) for each in _list(path)}
    assert (tenant.folder / "super").read_bytes() == before
    for word, code in (("no-such-command", 127), (str(tenant.folder), 126)):
        wrong = await tenant.run(verb, "web", "-n", tenant.namespace, "--", word)
        assert (wrong.code, wrong.err.startswith("error: the command ")) == (code, True), wrong.err


async def test_without_a_route_a_forwarder_stays_until_disconnect(desk: UserTerminal):
    await desk.make()
    await hand_out_unreachable(desk)
    root = await desk.root()
    log = add_kubectl(desk, api_port(desk))
    done = await desk.run("connect", "web", "-n", desk.namespace)
    assert (done.code, "through a forwarder" in done.out) == (0, True), done.err
    cluster = read(desk)["clusters"][1]["cluster"]
    port = urlsplit(cluster["server"]).port
    assert cluster["server"] == f"https://127.0.0.1:{port}"
    assert cluster["tls-server-name"] == "127.0.0.1"
    assert await is_served(desk)
    words = log.read_text().split()
    assert words == [
        *("--context=it", "--namespace", root, "port-forward", "service/apiserver-svc"),
        *("--address=127.0.0.1", ":6443"),
    ]
    assert (await desk.run("disconnect")).code == 0

    async def is_closed() -> bool:
        from asyncio import open_connection  # noqa: PLC0415

        try:
            _, writer = await open_connection("127.0.0.1", port)
        except OSError:
            return True
        writer.close()
        raise AssertionError("the forwarder still listens")

    assert await eventually(is_closed, within=20)


async def test_a_forwarder_of_a_command_ends_with_it(desk: UserTerminal):
    await desk.make()
    await hand_out_unreachable(desk)
    add_kubectl(desk, api_port(desk))
    refused = await desk.run("exec", "web", "-n", desk.namespace, "--", "true")
    assert refused.code == 1
    assert f"Use `kubectl vc connect web -n {desk.namespace}`" in refused.err
    script = "import os; print(open(os.environ['KUBECONFIG']).read())"
    words = ("connect", "web", "-n", desk.namespace, "--", sys.executable, "-c", script)
    running = await desk.start(*words)
    done = await running.end()
    server = yaml.safe_load(done.out)["clusters"][0]["cluster"]["server"]
    assert server.startswith("https://127.0.0.1:")
    assert desk.files() == {"bin", "kubectl.log"}


async def test_another_server_at_the_end_of_the_forward_is_refused(desk: UserTerminal):
    """The authority of the tenant decides, and nothing is written."""
    await desk.make()
    other = json.loads(desk.plane.kubeconfig("tenant-admin"))
    import trustme  # noqa: PLC0415

    foreign = trustme.CA().cert_pem.bytes()
    cluster = other["clusters"][0]["cluster"]
    cluster["certificate-authority-data"] = base64.b64encode(foreign).decode()
    await desk.hand_out(content=json.dumps(other).encode())
    add_kubectl(desk, api_port(desk))
    before = (desk.folder / "super").read_bytes()
    done = await desk.run("connect", "web", "-n", desk.namespace)
    assert done.code == 1
    assert "cannot be reached through the super cluster: another server answers" in done.err
    assert (desk.folder / "super").read_bytes() == before


async def test_what_kubectl_refuses_is_reported(desk: UserTerminal):
    """With the real kubectl: there is no Service to forward to."""
    await desk.make()
    await hand_out_unreachable(desk)
    folder = binaries.path("kubectl").parent
    desk.environment["PATH"] = f"{folder}{os.pathsep}{os.environ['PATH']}"
    done = await desk.run("connect", "web", "-n", desk.namespace)
    assert done.code == 1
    assert 'services "apiserver-svc" not found' in done.err
    assert "create pods/portforward in that namespace" in done.err
    assert read(desk)["current-context"] == "it"


async def test_one_that_does_not_exist_cannot_be_connected_to(desk: UserTerminal):
    for words in (("connect", "no"), ("exec", "no", "--", "true")):
        done = await desk.run(*words[:2], "-n", desk.namespace, *words[2:])
        assert "VirtualCluster" in done.err
        assert "was not found" in done.err
        assert done.code == 3
