"""Streams that are cut at any moment, by either side, in any way: nothing of them may stay.

FIG-29, REL-86.
"""

import asyncio
import contextlib
import random
import socket
import ssl
import tempfile
import threading
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.support import tls_sockets
from tests.support.eventually import eventually
from tests.support.vnagent import running_agent
from tests.support.vnagent.running_agent import EXEC, GREETING, LOGS, SWITCHED
from vnagent.server import audit

FULL = 5_000
AT_ONCE = 16
PATIENCE_SECONDS = 120.0
MOMENTS = ("connect", "hello", "handshake", "head", "asked", "answered", "talking", "half")
WAYS = ("reset", "fin", "goodbye")


def sockets() -> int:
    """Count this process's open sockets."""
    found = 0
    for entry in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(OSError):
            found += str(entry.readlink()).startswith("socket:")
    return found


class CuttingKubelet:
    """A kubelet that cuts by chance as well. Its threads share the dice."""

    def __init__(self, seed: int) -> None:
        self._chance = random.Random(seed)  # noqa: S311 - no secret
        self._lock = threading.Lock()
        self.count = 0
        self.is_calm = False
        """Whether nothing is cut any longer."""

    def answer(self, peer: ssl.SSLSocket, head: bytes) -> None:
        """Answer or not, talk for a while or not, and end in one of several ways."""
        with self._lock:
            how, turns = self._chance.random(), self._chance.randint(0, 5)
            how = 1.0 if self.is_calm else how
            self.count += how < 0.4
        if how < 0.1:
            tls_sockets.reset(peer)
            return
        if head.startswith(b"GET /containerLogs"):
            peer.sendall(GREETING[: len(GREETING) // 2] if how < 0.4 else GREETING)
        else:
            peer.sendall(SWITCHED + b"first")
            with contextlib.suppress(OSError):
                for _ in range(turns if how < 0.4 else 1000):
                    part = peer.recv(1000)
                    if not part:
                        break
                    peer.sendall(part * 20)
        if how < 0.2:
            tls_sockets.reset(peer)
        elif how < 0.4:
            socket.socket.shutdown(peer, socket.SHUT_RDWR)


def cut(port: int, context: ssl.SSLContext, moment: str, way: str, request: bytes) -> None:
    """Open a stream as far as the moment, and leave."""
    plain = socket.create_connection(("127.0.0.1", port), timeout=tls_sockets.PATIENCE_SECONDS)
    peer: socket.socket = plain
    try:
        if moment == "hello":
            plain.sendall(b"\x16\x03\x01\x02\x00\x01\x00")
        elif moment != "connect":
            peer = context.wrap_socket(plain, server_hostname="127.0.0.1")
            _go(peer, moment, request)
        if way == "goodbye" and moment != "half" and isinstance(peer, ssl.SSLSocket):
            tls_sockets.half_close(peer)
    except OSError:
        pass  # the kubelet was faster
    finally:
        if way == "reset":
            with contextlib.suppress(OSError):
                tls_sockets.reset(peer)
        socket.socket.close(peer)


def _go(peer: ssl.SSLSocket, moment: str, request: bytes) -> None:
    if moment == "handshake":
        return
    peer.sendall(request[: len(request) // 2] if moment == "head" else request)
    if moment in ("head", "asked"):
        return
    tls_sockets.read_until(peer, b"\r\n\r\n")
    if moment == "talking":
        peer.sendall(b"x" * 3000)
    elif moment == "half":
        tls_sockets.half_close(peer)


async def run(count: int, seed: int) -> str:
    """Cut `count` streams. Return a sentence, or fail with what was left."""
    chance = random.Random(seed)  # noqa: S311 - no secret
    troubles: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: troubles.append(context))
    seen: Counter[str] = Counter()
    ends: Counter[str] = Counter()
    kubelet = CuttingKubelet(seed)
    with tempfile.TemporaryDirectory() as name, pytest.MonkeyPatch.context() as patch:
        patch.setattr(audit, "write_audit_record", lambda session: ends.update([session.result]))
        async with running_agent.staged(
            Path(name), running_agent.FakeKubelet(answer=kubelet.answer)
        ) as set_up:
            contexts = {LOGS: set_up.context(), EXEC: set_up.context()}
            tasks, before = len(asyncio.all_tasks()), sockets()
            at_once = asyncio.Semaphore(AT_ONCE)

            async def one() -> None:
                moment, way = chance.choice(MOMENTS), chance.choice(WAYS)
                request = chance.choice((LOGS, EXEC, EXEC))
                seen[f"{moment} {way}"] += 1
                async with at_once:
                    await asyncio.to_thread(
                        cut, set_up.port, contexts[request], moment, way, request
                    )

            for start in range(0, count, 500):
                await asyncio.gather(*(one() for _ in range(min(500, count - start))))

            def left() -> dict[str, int]:
                set_up.upstream.kubelet.drop_warm()
                found = {
                    "streams": set_up.streams.count,
                    "permits": set_up.permits.count,
                    "strangers": set_up.server.listener.pending.count,
                    "tasks": max(0, len(asyncio.all_tasks()) - tasks),
                    "sockets": max(0, sockets() - before),
                }
                return {what: number for what, number in found.items() if number}

            found = await eventually(left, until=lambda left: not left, within=PATIENCE_SECONDS)
            assert not found
            kubelet.is_calm = True
            answer = await set_up.send(LOGS)
            assert (answer[:15], GREETING[-15:] in answer) == (b"HTTP/1.1 200 OK", True), answer
    assert not troubles, troubles
    return (
        f"{count:,} streams cut by the caller at {len(seen)} kinds of moment and way,"
        f" {kubelet.count:,} of them by the kubelet as well: no socket, task, place or permit was"
        f" left ({dict(ends.most_common())})"
    )
