"""TLS in memory: all input is decrypted, in whatever amounts it comes and is fetched."""

import random
import ssl

import pytest
import trustme

from kubeio.http.tls_engine import CHUNK_BYTES, TlsEngine
from tests.support.tls_sockets import client_context, server_context

READ_BYTES = 64 * 1024
BUFFERS = {"as kubeio": CHUNK_BYTES, "as vn-agent": READ_BYTES + 2 * CHUNK_BYTES, "small": 1000}
RECORD_OVERHEAD = 256
"""Bytes of a record that are no plaintext, at most."""


@pytest.fixture(scope="module")
def contexts() -> tuple[ssl.SSLContext, ssl.SSLContext]:
    authority = trustme.CA()
    return server_context(authority, "127.0.0.1"), client_context(authority)


def encrypted(engine: TlsEngine, plaintext: bytes | memoryview) -> bytes:
    return b"".join(engine.encrypt(plaintext))


def before_finished(contexts) -> tuple[TlsEngine, TlsEngine, bytes]:
    """Return a server, a client that has finished its handshake, and the client's last flight."""
    server = TlsEngine(contexts[0], server_name=None)
    client = TlsEngine(contexts[1], server_name="127.0.0.1")
    assert not client.do_handshake()
    server.feed(memoryview(client.take_output()))
    assert not server.do_handshake()
    client.feed(memoryview(server.take_output()))
    assert client.do_handshake()
    return server, client, client.take_output()


def connected(contexts) -> tuple[TlsEngine, TlsEngine]:
    """Return a server and a client whose handshake has ended."""
    server, client, last = before_finished(contexts)
    server.feed(memoryview(last))
    assert server.do_handshake()
    return server, client


def decrypted(engine: TlsEngine, buffer: memoryview) -> bytes:
    """Return all plaintext of the input, as a TLS stream fetches it."""
    found = bytearray()
    while (size := engine.decrypt(buffer)) == len(buffer):
        found += buffer
    return bytes(found + buffer[:size])


@pytest.mark.parametrize("room", BUFFERS.values(), ids=BUFFERS)
@pytest.mark.parametrize("size", [1, 128, CHUNK_BYTES - 1, CHUNK_BYTES, 3 * READ_BYTES + 7])
def test_all_input_is_decrypted(contexts, size, room):
    """Also more than a chunk at once, and input that ends in the middle of a record."""
    server, client = connected(contexts)
    plaintext = bytes(range(256)) * (300_000 // 256)
    ciphertext = b"".join(
        encrypted(client, plaintext[start : start + size])
        for start in range(0, len(plaintext), size)
    )
    buffer, found = memoryview(bytearray(room)), bytearray()
    for start in range(0, len(ciphertext), READ_BYTES):
        server.feed(memoryview(ciphertext)[start : start + READ_BYTES])
        found += decrypted(server, buffer)
    assert found == plaintext


@pytest.mark.parametrize("seed", range(20))
def test_records_and_reads_of_any_size_are_decrypted(contexts, seed):
    """Both streams reuse the memory of a read, so no input may stay in it."""
    draw = random.Random(seed)  # noqa: S311 - no secret
    sender, receiver = draw.sample(connected(contexts), 2)
    plaintext = draw.randbytes(draw.randrange(200_000))
    sent, ciphertext = 0, b""
    while sent < len(plaintext):
        size = draw.choice([1, 100, 1300, CHUNK_BYTES, draw.randrange(1, 50_000)])
        ciphertext += encrypted(sender, memoryview(plaintext)[sent : sent + size])
        sent += size
    found, read = bytearray(), 0
    raw, buffer = bytearray(READ_BYTES), memoryview(bytearray(draw.choice([*BUFFERS.values()])))
    while read < len(ciphertext):
        piece = ciphertext[read : read + draw.choice([1, 7, 5000, READ_BYTES])]
        raw[: len(piece)] = piece
        receiver.feed(memoryview(raw)[: len(piece)])
        found += decrypted(receiver, buffer)
        raw[:] = bytes(READ_BYTES)
        read += len(piece)
    assert found == plaintext


def test_input_behind_a_handshake_is_not_left(contexts):
    """It is decrypted with what follows the handshake, also when it is more than a chunk."""
    server, client, last = before_finished(contexts)
    server.feed(memoryview(last + encrypted(client, b"x" * 3 * CHUNK_BYTES)))
    assert server.do_handshake()
    buffer = memoryview(bytearray(BUFFERS["as vn-agent"]))
    assert server.decrypt(buffer) == 3 * CHUNK_BYTES


def test_input_behind_a_close_notify_is_ignored(contexts):
    """Even if it came with the alert."""
    server, client = connected(contexts)
    record = encrypted(client, b"x" * CHUNK_BYTES)
    client.close_notify()
    buffer = memoryview(bytearray(BUFFERS["as vn-agent"]))
    server.feed(memoryview(record + client.take_output() + b"noise" * CHUNK_BYTES))
    assert (server.decrypt(buffer), server.has_ended, server.error) == (CHUNK_BYTES, True, None)


def test_one_direction_is_closed_alone(contexts):
    """A command whose input has ended still has output."""
    server, client = connected(contexts)
    buffer = memoryview(bytearray(CHUNK_BYTES))
    client.close_notify()
    server.feed(memoryview(client.take_output()))
    assert (server.decrypt(buffer), server.has_ended) == (0, True)
    record = encrypted(server, b"the output of a command")
    server.close_notify()
    client.feed(memoryview(record + server.take_output()))
    assert buffer[: client.decrypt(buffer)] == b"the output of a command"
    assert client.has_ended


def test_an_error_comes_behind_the_plaintext_before_it(contexts):
    """There is no traceback, which would keep the engine until the collector of cycles runs."""
    server, client = connected(contexts)
    no_record = b"\x17\x03\x03\x00\x20" + b"x" * 32
    server.feed(memoryview(encrypted(client, b"the last words") + no_record))
    buffer = memoryview(bytearray(CHUNK_BYTES))
    assert buffer[: server.decrypt(buffer)] == b"the last words"
    assert isinstance(server.error, ssl.SSLError)
    assert server.error.__traceback__ is None
    assert not server.has_ended


def test_a_flight_of_more_than_a_chunk_is_read_whole():
    """Otherwise a peer with a long certificate would be waited for in vain."""
    authority = trustme.CA()
    names = [f"name-{number}.of-many.invalid" for number in range(1200)]
    server = TlsEngine(server_context(authority, "127.0.0.1", *names), server_name=None)
    client = TlsEngine(client_context(authority), server_name="127.0.0.1")
    assert not client.do_handshake()
    server.feed(memoryview(client.take_output()))
    assert not server.do_handshake()
    flight = server.take_output()
    assert len(flight) > CHUNK_BYTES
    client.feed(memoryview(flight))
    assert client.do_handshake()


def test_a_server_under_another_name_is_refused(contexts):
    """The engine leaves that to the context, and must hand the name over."""
    server = TlsEngine(contexts[0], server_name=None)
    client = TlsEngine(contexts[1], server_name="127.0.0.2")
    assert not client.do_handshake()
    server.feed(memoryview(client.take_output()))
    assert not server.do_handshake()
    client.feed(memoryview(server.take_output()))
    with pytest.raises(ssl.SSLCertVerificationError):
        client.do_handshake()
    assert client.take_output()  # the alert


def test_a_bio_gets_one_chunk_at_a_time(contexts):
    """It would keep the room of a megabyte for as long as the connection lives."""
    server, client = connected(contexts)
    pieces = client.encrypt(b"x" * 2**20)
    assert max(map(len, pieces)) <= CHUNK_BYTES + RECORD_OVERHEAD
    assert len(pieces) == 2**20 // CHUNK_BYTES
    server.feed(memoryview(b"".join(pieces)))
    assert server._incoming.pending <= CHUNK_BYTES


def test_nothing_is_made_of_nothing(contexts):
    """An empty greeting is written like any other."""
    _, client = connected(contexts)
    assert client.encrypt(b"") == []
    assert client.take_output() == b""


class ShortRecords:
    """OpenSSL with a peer that negotiated records of 512 bytes: a write encrypts only the first."""

    def __init__(self) -> None:
        self.written = bytearray()

    def write(self, plaintext: bytes | memoryview) -> int:
        self.written += plaintext[:512]
        return min(len(plaintext), 512)


@pytest.mark.parametrize("size", [256, 512, 513, CHUNK_BYTES, CHUNK_BYTES + 1, 2**18])
def test_plaintext_is_encrypted_whole_in_short_records(contexts, size):
    _, client = connected(contexts)
    client._tls = short = ShortRecords()
    plaintext = random.Random(size).randbytes(size)  # noqa: S311 - no secret
    client.encrypt(plaintext)
    assert short.written == plaintext
