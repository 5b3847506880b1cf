"""The metrics over TLS: for a good token, and for no one else."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator
from dataclasses import dataclass

import pytest
import trustme
from prometheus_client import CollectorRegistry, Counter

from telemetry.exposition import Exposition
from tests.support import tls_sockets
from tests.support.eventually import eventually
from tests.support.vnagent.token_review_api import GOOD, NOBODY, OTHER, ReviewApi, asking
from vnagent.authz.token_review import TokenReviewer
from vnagent.limits.peer_backoff import PeerBackoff
from vnagent.server import metrics_server
from vnagent.server.metrics_server import MAX_PENDING_PER_SOURCE, MetricsServer
from vnagent.stream import tls_contexts
from vnagent.stream.receive_buffer import ReceiveBuffer


@dataclass
class RunningMetricsServer:
    """A running port."""

    port: int
    listener: MetricsServer
    authority: trustme.CA
    api: ReviewApi

    async def ask(
        self, token: str | None, first: str = "GET /metrics", *lines: str
    ) -> tuple[int, str]:
        """Return status and body, 0 when there is no answer."""
        shown = [] if token is None else [f"Authorization: Bearer {token}"]
        text = "\r\n".join((f"{first} HTTP/1.1", "Host: a", *shown, *lines, "", ""))

        def talk() -> bytes:
            with tls_sockets.dial(self.port, tls_sockets.client_context(self.authority)) as peer:
                peer.sendall(text.encode())
                return tls_sockets.read_all(peer)

        try:
            head, _, body = (await asyncio.to_thread(talk)).decode().partition("\r\n\r\n")
        except OSError:
            return 0, ""
        return int(head.split(" ")[1]) if head else 0, body


@contextlib.asynccontextmanager
async def showing(folder) -> AsyncIterator[RunningMetricsServer]:
    """Show one counter."""
    registry, api, authority = CollectorRegistry(), ReviewApi(), trustme.CA()
    Counter("secret_things", "Things.", registry=registry).inc()
    pair = authority.issue_cert("127.0.0.1")
    async with asking(folder, api) as origin:
        listener = MetricsServer(
            TokenReviewer(origin).review, Exposition(registry), ReceiveBuffer()
        )
        listener.listener.use_context(
            tls_contexts.create_unauthenticated_context(
                certificate=pair.cert_chain_pems[0].bytes(), key=pair.private_key_pem.bytes()
            )
        )
        try:
            yield RunningMetricsServer(
                await listener.listener.listen("127.0.0.1", 0), listener, authority, api
            )
        finally:
            await listener.listener.close()


@pytest.mark.parametrize(
    ("token", "status"), [(GOOD, 200), (OTHER, 403), (NOBODY, 401), (None, 401), ("", 401)]
)
async def test_a_good_token_and_nothing_else_opens_it(tmp_path, token, status):
    """SEC-13: the one that asks has to be known and to have the right."""
    async with showing(tmp_path) as shown:
        got, body = await shown.ask(token)
    assert (got, "secret_things_total 1.0" in body) == (status, status == 200)


async def test_what_else_may_be_shown_opens_nothing(tmp_path):
    """Two headers, another scheme, a token in the query."""
    async with showing(tmp_path) as shown:
        for first, *lines in (
            ("GET /metrics", f"Authorization: Basic {GOOD}"),
            ("GET /metrics", f"Authorization: Bearer {GOOD}", f"Authorization: Bearer {GOOD}"),
            (f"GET /metrics?token={GOOD}",),
            ("GET /metrics", f"X-Remote-User: {GOOD}", f"Cookie: token={GOOD}"),
        ):
            assert (await shown.ask(None, first, *lines))[0] == 401
        assert shown.api.asked == []
        assert (await shown.ask(None, "GET /metrics", f"authorization: bearer {GOOD}"))[0] == 200


async def test_only_the_metrics_are_there(tmp_path):
    """Nothing is said of what there is to those who are no one."""
    async with showing(tmp_path) as shown:
        assert (await shown.ask(None, "GET /debug"))[0] == 401
        assert (await shown.ask(GOOD, "GET /debug"))[0] == 404
        assert (await shown.ask(GOOD, "DELETE /metrics"))[0] == 405
        assert (await shown.ask(GOOD, "GET /metrics?name=x"))[0] == 200
        kind = "Accept: application/openmetrics-text"
        assert (await shown.ask(GOOD, "GET /metrics", kind))[1].endswith("# EOF\n")
        assert (await shown.ask(GOOD, "GET /metrics", "Content-Length: 5"))[0] == 400


async def test_plain_text_gets_no_answer(tmp_path):
    """SEC-13: a token is never asked for without TLS."""

    def talk(port: int) -> bytes:
        with socket.create_connection(("127.0.0.1", port), timeout=10) as plain:
            plain.sendall(b"GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n")
            try:
                return plain.recv(1000)
            except ConnectionResetError:
                return b""

    async with showing(tmp_path) as shown:
        assert b"HTTP" not in await asyncio.to_thread(talk, shown.port)
        assert shown.api.asked == []


async def test_an_often_refused_client_is_ignored(tmp_path):
    """SEC-13: the API server is asked for nothing more. A reader at the same address still may."""
    async with showing(tmp_path) as shown:
        shown.listener.listener.peer_backoff = PeerBackoff(3, 600.0)
        assert [(await shown.ask(NOBODY))[0] for _ in range(5)] == [401, 401, 401, 0, 0]
        shown.listener.listener.peer_backoff = PeerBackoff(3, 600.0)
        assert (await shown.ask(GOOD))[0] == 200
        assert [(await shown.ask(NOBODY))[0] for _ in range(5)] == [401] * 5
        assert (await shown.ask(GOOD))[0] == 200


async def test_a_reader_is_not_shut_out_because_the_api_server_is_away(tmp_path):
    """The fault is not the caller's, and it lets no caller in."""
    async with showing(tmp_path) as shown:
        shown.listener.listener.peer_backoff = PeerBackoff(3, 600.0)
        shown.api.odd = b"HTTP/1.1 500 Oh\r\nContent-Length: 0\r\n\r\n"
        assert [(await shown.ask(GOOD))[0] for _ in range(5)] == [503] * 5
        shown.api.odd = b""
        assert (await shown.ask(GOOD))[0] == 200


async def test_silent_connections_are_few_and_short(tmp_path, monkeypatch):
    """SEC-13: the one that reaches the port can open them."""
    monkeypatch.setattr(metrics_server, "HANDSHAKE_SECONDS", 0.3)
    async with showing(tmp_path) as shown, contextlib.AsyncExitStack() as stack:
        for _ in range(30):
            stack.callback(socket.create_connection(("127.0.0.1", shown.port)).close)
        await eventually(lambda: shown.listener.listener.pending.count == MAX_PENDING_PER_SOURCE)
        await eventually(lambda: shown.listener.listener.pending.count == 0)
        monkeypatch.setattr(metrics_server, "HANDSHAKE_SECONDS", tls_sockets.PATIENCE_SECONDS)
        assert (await shown.ask(GOOD))[0] == 200


async def test_a_new_certificate_is_for_connections_from_now_on(tmp_path):
    """It is renewed while the agent runs."""
    async with showing(tmp_path) as shown:
        shown.authority = trustme.CA()
        assert (await shown.ask(GOOD))[0] == 0
        pair = shown.authority.issue_cert("127.0.0.1")
        shown.listener.listener.use_context(
            tls_contexts.create_unauthenticated_context(
                certificate=pair.cert_chain_pems[0].bytes(), key=pair.private_key_pem.bytes()
            )
        )
        assert (await shown.ask(GOOD))[0] == 200
