"""Bytes that coverage leads, to what the agent reads: heads, targets, queries, kubelets' answers.

Needs atheris, which the project does not depend on:

    pip install --target FOLDER atheris
    PYTHONPATH=FOLDER python -m tests.properties.agent.guided SECONDS [-seed=N] [-runs=N]

What follows the seconds is libFuzzer's. Prints its figures and its seed. Ends with another code
than 0 at the first input that does not hold, and leaves that in a file beside.
"""

import random
import sys
import tempfile
from pathlib import Path
from urllib.parse import parse_qsl

import atheris

with atheris.instrument_imports(include=["vnagent", "h11"]):
    import h11  # noqa: F401 - to be led through it as well

    from vnagent.protocol import http_heads, queries
    from vnagent.protocol.errors import RequestRefusedError
    from vnagent.protocol.http_heads import InvalidResponseError, LineReader, ResponseReader

from tests.properties.agent.frames import ANSWERS, LIMIT
from tests.support.kubelet_targets import SEEDS, is_harmless, mutate

READERS = (
    queries.parse_log_options,
    queries.parse_attach_options,
    queries.parse_exec_options,
    queries.parse_run_options,
    queries.parse_summary_options,
    queries.parse_port_forward_options,
    queries.parse_no_options,
)
HEADS = (
    b"GET /containerLogs/ns/pod/c HTTP/1.1\r\nHost: a\r\nAccept: */*\r\n\r\n",
    (
        b"POST /exec/ns/pod/c?command=id HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\n"
        b"Upgrade: SPDY/3.1\r\nX-Stream-Protocol-Version: v4.channel.k8s.io\r\n"
        b"Content-Length: 0\r\n\r\n"
    ),
    (
        b"GET /attach/ns/pod/c?output=1 HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\n"
        b"Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Protocol: "
        b"v5.channel.k8s.io\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
    ),
)


def head(text: bytes) -> None:
    """A request that passes is one request, on a listed path, with the agent's credential."""
    found = http_heads.parse_request(text.partition(http_heads.HEAD_END)[0] + http_heads.HEAD_END)
    upgrade = http_heads.get_requested_upgrade(found)
    passed = http_heads.filter_upgrade_headers(found, upgrade) if upgrade else []
    written = http_heads.write_request("GET", "/pods", "10.0.0.1:10250", passed, b"token")
    assert written.startswith(b"GET /pods HTTP/1.1\r\n")
    assert written.endswith(b"\r\nAuthorization: Bearer token\r\n\r\n")
    assert written.count(http_heads.HEAD_END) == written.count(b"Authorization") == 1
    target(found.target)


def target(text: bytes) -> None:
    """A target passes to the caller's own pods on a listed path, or not at all."""
    is_harmless(text)


def query(text: bytes) -> None:
    """A query is decoded once, into what reads the same again, or refused."""
    read = READERS[text[0] % len(READERS)]
    pairs = read(text[1:])
    assert read(queries.render_query(pairs).encode()) == pairs
    plain = parse_qsl(text[1:].decode(), keep_blank_values=True)
    for key in ("command", "cmd"):
        found = [value for name, value in pairs if name == key]
        assert found in ([], [value for name, value in plain if name == key])


def answer(text: bytes) -> None:
    """An answer is read, or it is said why not. What is sent on of its head is one head."""
    for reader in (ResponseReader(LIMIT), LineReader(LIMIT)):
        try:
            for piece in (text[: len(text) // 2], text[len(text) // 2 :], b""):
                found = reader.feed(piece)
                if isinstance(reader, ResponseReader) and found is not None:
                    break
                if isinstance(reader, LineReader) and reader.has_ended:
                    break
        except InvalidResponseError:
            pass
    parsed = http_heads.parse_response(text.partition(http_heads.HEAD_END)[0] + http_heads.HEAD_END)
    for written in (
        http_heads.write_switching_protocols(parsed, b"SPDY/3.1"),
        http_heads.write_stream_head(parsed),
    ):
        assert written.count(http_heads.HEAD_END) == 1


OWN_SHARE = 0.5
"""Of libFuzzer's own changes."""
KINDS = (head, target, query, answer)


def one(data: bytes) -> None:
    """Judge one input: its first byte says what it is."""
    if len(data) < 2:
        return
    try:
        KINDS[data[0] % len(KINDS)](data[1:])
    except (RequestRefusedError, InvalidResponseError):
        return


def mutated(data: bytes, longest: int, seed: int) -> bytes:
    """Change an input: half of the time with scraps that such texts are made of, in few places."""
    chance = random.Random(seed)  # noqa: S311 - no secret
    if len(data) < 2 or chance.random() < OWN_SHARE:
        return bytes(atheris.MutateFunction(data, longest))
    return (data[:1] + mutate(chance, data[1:]))[:longest]


def main() -> None:
    """Run for as long as is said."""
    seconds, more = int(sys.argv[1]), sys.argv[2:]
    with tempfile.TemporaryDirectory() as name:
        known = [(0, text) for text in HEADS] + [(3, text) for text in ANSWERS]
        known += [(1, text) for text in SEEDS]
        known += [
            (2, bytes((number,)) + text.partition(b"?")[2])
            for number in range(len(READERS))
            for text in SEEDS
        ]
        for number, (kind, text) in enumerate(known):
            (Path(name) / str(number)).write_bytes(bytes((kind,)) + text)
        options = [f"-max_total_time={seconds}", "-max_len=8192", "-mutate_depth=2", *more]
        atheris.Setup([sys.argv[0], name, *options], one, custom_mutator=mutated)
        atheris.Fuzz()


if __name__ == "__main__":
    main()
