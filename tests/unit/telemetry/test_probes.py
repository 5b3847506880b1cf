"""Probes: facts in, HTTP out, and no patience with nonsense."""

from __future__ import annotations

import asyncio
import contextlib

import pytest
from prometheus_client import CollectorRegistry, Counter

from telemetry import exposition, probes
from telemetry.probes import HealthProbes


async def _ask(port: int, request: bytes) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(request)
        await writer.drain()
        return await asyncio.wait_for(reader.read(), 10)
    finally:
        writer.transport.abort()


async def _get(port: int, path: str) -> tuple[int, str]:
    answer = await _ask(port, f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
    head, _, body = answer.decode().partition("\r\n\r\n")
    return int(head.split(" ")[1]), body


async def test_facts_decide():
    found = HealthProbes(CollectorRegistry())
    missing = "no list yet"
    found.add_readiness_check("caches", lambda: missing)
    found.add_readiness_check("lease", lambda: "")
    found.add_liveness_check("loop", lambda: "")
    async with found.serve_in_block(0, "127.0.0.1") as port:
        assert await _get(port, "/healthz") == (200, "loop: ok\n")
        assert await _get(port, "/readyz?verbose") == (503, "caches: no list yet\nlease: ok\n")
        missing = ""
        assert await _get(port, "/readyz") == (200, "caches: ok\nlease: ok\n")


async def test_without_facts_all_is_well():
    async with HealthProbes(CollectorRegistry()).serve_in_block(0, "127.0.0.1") as port:
        assert await _get(port, "/healthz") == (200, "ok\n")
        assert await _get(port, "/readyz") == (200, "ok\n")


async def test_one_text_of_the_metrics_serves_all_who_ask_together(monkeypatch):
    """Making it takes milliseconds of the loop, and anyone may ask."""
    registry = CollectorRegistry()
    asked = Counter("asked", "Requests.", registry=registry)
    async with HealthProbes(registry).serve_in_block(0, "127.0.0.1") as port:
        first = await _get(port, "/metrics")
        asked.inc()
        assert await _get(port, "/metrics") == first
        monkeypatch.setattr(exposition, "_CACHE_SECONDS", 0.0)
        assert await _get(port, "/metrics") != first


async def test_metrics_may_be_shown_elsewhere():
    """Where the one that asks has to say who he is."""
    async with HealthProbes(CollectorRegistry(), has_metrics=False).serve_in_block(
        0, "127.0.0.1"
    ) as port:
        assert await _get(port, "/metrics") == (404, "/healthz and /readyz are here\n")
        assert await _get(port, "/healthz") == (200, "ok\n")


async def test_one_connection_too_many_is_sent_away(monkeypatch):
    monkeypatch.setattr(probes, "_MAX_CONNECTIONS", 1)
    async with HealthProbes(CollectorRegistry()).serve_in_block(0, "127.0.0.1") as port:
        _, idle = await asyncio.open_connection("127.0.0.1", port)
        try:
            await asyncio.sleep(0.05)
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            assert await asyncio.wait_for(reader.read(), 5) == b""
            writer.close()
        finally:
            idle.transport.abort()
        await asyncio.sleep(0.05)
        assert await _get(port, "/healthz") == (200, "ok\n")


async def test_metrics_are_served_in_the_form_that_is_asked_for():
    registry = CollectorRegistry()
    Counter("things", "Things.", registry=registry).inc()
    async with HealthProbes(registry).serve_in_block(0, "127.0.0.1") as port:
        code, body = await _get(port, "/metrics")
        assert (code, "things_total 1.0" in body) == (200, True)
        accept = b"GET /metrics HTTP/1.1\r\nAccept: application/openmetrics-text\r\n\r\n"
        answer = await _ask(port, accept)
        assert b"openmetrics-text" in answer
        assert answer.endswith(b"# EOF\n")


@pytest.mark.parametrize(
    ("request_line", "code"),
    [
        (b"GET /nothing HTTP/1.1", b"404"),
        (b"POST /healthz HTTP/1.1", b"405"),
        (b"\xff\xfe", b"405"),
        (b"", b"405"),
    ],
)
async def test_nonsense_is_answered_briefly(request_line, code):
    async with HealthProbes(CollectorRegistry()).serve_in_block(0, "127.0.0.1") as port:
        answer = await _ask(port, request_line + b"\r\n\r\n")
        assert answer.split(b" ")[1] == code


async def test_head_has_no_body():
    async with HealthProbes(CollectorRegistry()).serve_in_block(0, "127.0.0.1") as port:
        answer = await _ask(port, b"HEAD /healthz HTTP/1.1\r\n\r\n")
        assert answer.endswith(b"Content-Length: 3\r\nConnection: close\r\n\r\n")


async def test_a_client_that_sends_nothing_or_too_much_is_let_go(monkeypatch):
    async with HealthProbes(CollectorRegistry()).serve_in_block(0, "127.0.0.1") as port:
        with monkeypatch.context() as impatient:
            impatient.setattr(probes, "_REQUEST_SECONDS", 0.05)
            assert await _ask(port, b"GET /hea") == b""
        flood = b"GET / HTTP/1.1\r\nX: " + b"x" * 100_000
        with contextlib.suppress(ConnectionError):  # cut off while talking is just as well
            assert await _ask(port, flood) == b""
        assert await _get(port, "/healthz") == (200, "ok\n")
