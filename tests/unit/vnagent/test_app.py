"""The program itself: it waits for its authorities, serves, and ends in order."""

import asyncio
import contextlib
import signal
import ssl
import sys
import urllib.error
import urllib.request
from collections.abc import AsyncIterator

import pytest
import trustme

from tenancy import wellknown
from tests.support import tls_sockets
from tests.support.eventually import eventually
from tests.support.processes import free_port
from tests.support.vnagent import certificates
from tests.support.vnagent.certificates import VALID
from tests.support.vnagent.configmap_api import NAMESPACE, ConfigMapApi
from tests.support.vnagent.running_agent import LOGS, FakeKubelet, access, api_server, shop
from tests.support.vnagent.token_review_api import GOOD, NOBODY, ReviewApi


def is_ready(port: int, path: str = "/readyz") -> int:
    """Ask the health port."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=5) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        with error:
            return error.code
    except urllib.error.URLError:
        return 0


def metrics(port: int, context: ssl.SSLContext, token: str) -> bytes:
    """Ask for the metrics."""
    lines = ("GET /metrics HTTP/1.1", "Host: a", f"Authorization: Bearer {token}", "", "")
    with tls_sockets.dial(port, context) as peer:
        peer.sendall("\r\n".join(lines).encode())
        return tls_sockets.read_all(peer)


@contextlib.asynccontextmanager
async def servers(
    authority: trustme.CA, around: FakeKubelet
) -> AsyncIterator[tuple[ConfigMapApi, int, FakeKubelet]]:
    """Have a kubelet, and at one address an API server: ConfigMaps, reviews, and ways to pods."""
    api, readers = ConfigMapApi(), ReviewApi()

    def answer(peer: ssl.SSLSocket) -> None:
        head = tls_sockets.read_until(peer, b"\r\n\r\n")
        if not head:  # gone before it asked
            return
        if b"/configmaps" in head.partition(b"\r\n")[0]:
            api.relay(peer, head)
        elif b"reviews HTTP/1.1\r\n" in head:
            whole, _, body = head.partition(b"\r\n\r\n")
            readers.handle(peer, whole, body)
        else:
            around.handle(peer, head)
        tls_sockets.half_close(peer)

    context = tls_sockets.server_context(authority, "127.0.0.1")
    with (
        FakeKubelet().running(authority) as kubelet,
        tls_sockets.serving(context, answer) as (port, _),
    ):
        async with api.running():
            yield api, port, kubelet


@pytest.mark.parametrize("upstream", ["auto", "kubelet", "apiserver"])
async def test_the_program_from_start_to_end(tmp_path, upstream):
    """No authority or no policies: no listener. Then tenants are served. SIGTERM ends with 0.

    Without the kubelet nothing of the kubelet is needed. SEC-13: the plain port has no metrics.
    """
    straight = upstream != "apiserver"
    authority, callers = trustme.CA(), certificates.make_authority()
    pair = authority.issue_cert("127.0.0.1")
    (tmp_path / "serving.crt").write_bytes(pair.cert_chain_pems[0].bytes())
    (tmp_path / "serving.key").write_bytes(pair.private_key_pem.bytes())
    (tmp_path / "token").write_bytes(b"token")
    (tmp_path / "api.crt").write_bytes(authority.cert_pem.bytes())
    if straight:
        (tmp_path / "kubelet.crt").write_bytes(authority.cert_pem.bytes())
    port, health_port, metrics_port = free_port(), free_port(), free_port()
    around = api_server()
    async with servers(authority, around) as (api, api_port, kubelet):
        program = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "vnagent", "--pod-name=x", "--pod-ip=127.0.0.1"),
            *(f"--pod-namespace={NAMESPACE}", "--node-name=node-1", f"--upstream={upstream}"),
            *(f"--api-port={api_port}", f"--api-ca-file={tmp_path}/api.crt"),
            *("--kubelet-host=127.0.0.1", "--api-host=127.0.0.1", f"--port={port}"),
            *(f"--kubelet-port={kubelet.port}", f"--health-port={health_port}"),
            f"--metrics-port={metrics_port}",
            *(f"--tls-cert-file={tmp_path}/serving.crt", f"--token-file={tmp_path}/token"),
            *(f"--tls-private-key-file={tmp_path}/serving.key",),
            *(f"--client-ca-file={tmp_path}/clients.crt",),
            *(f"--kubelet-ca-file={tmp_path}/kubelet.crt",),
            stderr=asyncio.subprocess.PIPE,
        )
        try:
            await eventually(lambda: asyncio.to_thread(is_ready, health_port), within=20)
            assert await asyncio.to_thread(is_ready, health_port) == 503
            (tmp_path / "clients.crt").write_bytes(callers.pem)
            await eventually(lambda: api.asked, within=20)
            assert await asyncio.to_thread(is_ready, health_port) == 503
            api.put(access())
            await eventually(
                lambda: asyncio.to_thread(is_ready, health_port),
                until=lambda status: status == 200,
                within=20,
            )
            context = tls_sockets.client_context(authority)
            certificates.present(context, tmp_path, callers, VALID)

            def talk() -> bytes:
                with tls_sockets.dial(port, context) as peer:
                    peer.sendall(b"GET /containerLogs/web/shop/main HTTP/1.1\r\nHost: a\r\n\r\n")
                    return tls_sockets.read_all(peer)

            assert (await asyncio.to_thread(talk)).endswith(b"5\r\nhello\r\n0\r\n\r\n")
            assert await asyncio.to_thread(is_ready, health_port, "/metrics") == 404
            open_context = tls_sockets.client_context(authority)
            shown = await asyncio.to_thread(metrics, metrics_port, open_context, GOOD)
            assert b"vc_agent_sessions_total{" in shown
            hidden = await asyncio.to_thread(metrics, metrics_port, open_context, NOBODY)
            assert hidden.startswith(b"HTTP/1.1 401 ")
            program.send_signal(signal.SIGUSR1)
            async with asyncio.timeout(20):
                while b'"source":"tasks"' not in (line := await program.stderr.readline()):
                    assert line
            assert b"AgentProcess._run_jobs" in line
        finally:
            program.send_signal(signal.SIGTERM)
            _, log = await program.communicate()
    assert (bool(kubelet.heads), bool(around.heads)) == (straight, not straight)
    assert program.returncode == 0
    assert b'"event":"ended"' in log
    assert b"Traceback" not in log


async def test_the_program_of_a_target(tmp_path):
    """It serves before it has a credential for the target, and says so. Then it has one.

    Each server sees its own credential alone, below the path that the target has.
    """
    authority, callers, far_authority = trustme.CA(), certificates.make_authority(), trustme.CA()
    pair = authority.issue_cert("127.0.0.1")
    (tmp_path / "serving.crt").write_bytes(pair.cert_chain_pems[0].bytes())
    (tmp_path / "serving.key").write_bytes(pair.private_key_pem.bytes())
    (tmp_path / "token").write_bytes(b"home-token")
    (tmp_path / "api.crt").write_bytes(authority.cert_pem.bytes())
    (tmp_path / "clients.crt").write_bytes(callers.pem)
    port, health_port = free_port(), free_port()
    registration = "cccccccc-0000-4000-8000-000000000000"
    pod = shop()
    pod["metadata"]["annotations"][wellknown.SUPER_CLUSTER] = registration  # type: ignore[index]
    far = FakeKubelet(pods=[pod], lists=b"GET /far/api/v1/pods?labelSelector=")
    api = ConfigMapApi(access())
    context = tls_sockets.server_context(authority, "127.0.0.1")
    with far.running(far_authority):
        async with api.running(tls=context):
            program = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "vnagent", "--pod-name=x", "--pod-ip=127.0.0.1"),
                *(f"--pod-namespace={NAMESPACE}", f"--target-registration={registration}"),
                *(f"--target-server=https://127.0.0.1:{far.port}/far",),
                *(f"--target-ca-file={tmp_path}/far.crt", f"--target-token-file={tmp_path}/far"),
                *(f"--api-port={api.port}", f"--api-ca-file={tmp_path}/api.crt"),
                *("--api-host=127.0.0.1", f"--port={port}", "--metrics-port=0"),
                *(f"--health-port={health_port}", f"--token-file={tmp_path}/token"),
                *(
                    f"--tls-cert-file={tmp_path}/serving.crt",
                    f"--client-ca-file={tmp_path}/clients.crt",
                ),
                *(f"--tls-private-key-file={tmp_path}/serving.key",),
                stderr=asyncio.subprocess.PIPE,
            )
            try:
                await eventually(
                    lambda: asyncio.to_thread(is_ready, health_port),
                    until=lambda status: status == 200,
                    within=20,
                )
                context = tls_sockets.client_context(authority)
                certificates.present(context, tmp_path, callers, VALID)

                def talk() -> bytes:
                    with tls_sockets.dial(port, context) as peer:
                        peer.sendall(LOGS)
                        return tls_sockets.read_all(peer)

                assert b"has no credential for the API server" in await asyncio.to_thread(talk)
                assert far.connections == 0
                (tmp_path / "far.crt").write_bytes(far_authority.cert_pem.bytes())
                (tmp_path / "far").write_bytes(b"far-token")
                answer = await eventually(
                    lambda: asyncio.to_thread(talk),
                    until=lambda found: b" 200 " in found.split(b"\r\n")[0],
                    within=30,
                )
                assert answer.endswith(b"5\r\nhello\r\n0\r\n\r\n")
            finally:
                program.send_signal(signal.SIGTERM)
                _, log = await program.communicate()
    assert all(b"Authorization: Bearer far-token\r\n" in head for head in far.heads)
    assert far.asked[0].startswith(b"GET /far/api/v1/namespaces/")
    assert program.returncode == 0
    assert b"Traceback" not in log
    assert b"far-token" not in log
