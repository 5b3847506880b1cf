"""The Python client of Kubernetes through an agent, at both versions of its protocol.

The kubelet is played: it speaks of RFC 6455 what one exchange needs. Node tests have a real one.
"""

import asyncio
import base64
import hashlib
import json
import re
import ssl

import pytest
from kubernetes.client import Configuration

from tests.support import websockets
from tests.support.vnagent import running_agent
from tests.support.vnagent.running_agent import FakeKubelet
from tests.support.websockets import V4, V5, CommandOutput

MAGIC = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
FAILED = {
    "status": "Failure",
    "reason": "NonZeroExitCode",
    "details": {"causes": [{"reason": "ExitCode", "message": "7"}]},
}


def spoken(peer: ssl.SSLSocket, head: bytes) -> None:
    """Play a command that reads a line, answers at both outputs and exits with 7."""
    asked = dict(re.findall(rb"(?m)^(sec-websocket-\w+): (\S+)\r$", head.lower()))
    key = re.search(rb"(?mi)^sec-websocket-key: (\S+)\r$", head)
    assert key is not None
    accepted = base64.b64encode(hashlib.sha1(key[1] + MAGIC).digest())  # noqa: S324 - as RFC 6455 has it
    protocol = asked[b"sec-websocket-protocol"]
    peer.sendall(
        b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
        b"Sec-WebSocket-Accept: %s\r\nSec-WebSocket-Protocol: %s\r\n\r\n" % (accepted, protocol)
    )
    line = unmasked(peer)
    assert line[:1] == b"\0"
    for channel, content in (
        (1, b"got " + line[1:]),
        (2, b"aside\n"),
        (3, json.dumps(FAILED).encode()),
    ):
        peer.sendall(bytes((0x82, 126, 0, 1 + len(content), channel)) + content)
    peer.sendall(bytes((0x88, 2)) + (1000).to_bytes(2))


def unmasked(peer: ssl.SSLSocket) -> bytes:
    """Read one short frame of a client's, which may come in parts."""
    _, size, *mask = read_exactly(peer, 6)
    content = read_exactly(peer, size & 0x7F)
    return bytes(byte ^ mask[at % 4] for at, byte in enumerate(content))


def read_exactly(peer: ssl.SSLSocket, count: int) -> bytes:
    read = b""
    while len(read) < count and (part := peer.recv(count - len(read))):
        read += part
    return read


@pytest.mark.parametrize("protocol", [V4, V5])
async def test_a_command_is_talked_to(tmp_path, protocol):
    """REL-94: input, both outputs and the exit code, by the protocol that was asked for."""
    async with running_agent.staged(tmp_path, FakeKubelet(answer=spoken)) as set_up:
        set_up.context()  # writes down the caller's certificate and key
        to = Configuration(host=f"https://127.0.0.1:{set_up.port}")
        set_up.serving_authority.cert_pem.write_to_path(str(tmp_path / "serving.pem"))
        to.ssl_ca_cert = str(tmp_path / "serving.pem")
        to.cert_file = to.key_file = str(set_up.folder / "presented.pem")
        options = [("command", "id"), ("input", "1"), ("output", "1"), ("error", "1")]
        found = await asyncio.to_thread(
            websockets.run, to, "/exec/web/shop/main", options, "hello\n", protocol
        )
        assert found == CommandOutput(protocol, "got hello\n", "aside\n", 7)
        assert b"Authorization: Bearer" in set_up.kubelet.heads[-1]
