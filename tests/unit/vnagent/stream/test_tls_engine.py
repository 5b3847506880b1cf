"""TLS in memory: all that arrived is decrypted, in whatever amounts it comes."""

import ssl

import pytest
import trustme

from tests.support.vnagent import tls_sockets
from vnagent.stream.tls_engine import PIECE_BYTES, Engine
from vnagent.stream.tls_stream import PLAIN_BYTES, READ_BYTES


@pytest.fixture(scope="module")
def contexts() -> tuple[ssl.SSLContext, ssl.SSLContext]:
    authority = trustme.CA()
    return tls_sockets.server_context(authority, "127.0.0.1"), tls_sockets.client_context(authority)


def shaking(contexts) -> tuple[Engine, Engine, bytes]:
    """Return a server before the last of a handshake, its client behind it, and that last."""
    server = Engine(contexts[0], server_name=None)
    client = Engine(contexts[1], server_name="127.0.0.1")
    assert not client.shake_hands()
    server.feed(memoryview(b"".join(client.take())))
    assert not server.shake_hands()
    client.feed(memoryview(b"".join(server.take())))
    assert client.shake_hands()
    return server, client, b"".join(client.take())


def heard(server: Engine, arrived: bytes) -> bytes:
    """Feed as a channel does; return what was said."""
    room, said = memoryview(bytearray(PLAIN_BYTES)), bytearray()
    for start in range(0, len(arrived), READ_BYTES):
        server.feed(memoryview(arrived)[start : start + READ_BYTES])
        said += room[: server.decrypt(room).size]
    return bytes(said)


@pytest.mark.parametrize("size", [1, 128, PIECE_BYTES - 1, PIECE_BYTES, 3 * READ_BYTES + 7])
def test_all_that_arrived_is_decrypted(contexts, size):
    """Also what is more than one piece, and ends in the middle of a record."""
    server, client, last = shaking(contexts)
    server.feed(memoryview(last))
    assert server.shake_hands()
    plain = bytes(range(256)) * (300_000 // 256)
    for start in range(0, len(plain), size):
        client.encrypt(plain[start : start + size])
    assert heard(server, b"".join(client.take())) == plain


def test_what_comes_right_behind_a_handshake_is_not_left(contexts):
    """It is decrypted with what follows the handshake, be it more than a piece."""
    server, client, last = shaking(contexts)
    client.encrypt(b"x" * 3 * PIECE_BYTES)
    server.feed(memoryview(last + b"".join(client.take())))
    assert server.shake_hands()
    room = memoryview(bytearray(PLAIN_BYTES))
    assert server.decrypt(room).size == 3 * PIECE_BYTES


def test_nothing_behind_a_goodbye_is_heard(contexts):
    """Though it came with it."""
    server, client, last = shaking(contexts)
    server.feed(memoryview(last))
    assert server.shake_hands()
    client.encrypt(b"x" * PIECE_BYTES)
    client.say_goodbye()
    room = memoryview(bytearray(PLAIN_BYTES))
    server.feed(memoryview(b"".join(client.take()) + b"noise" * PIECE_BYTES))
    received = server.decrypt(room)
    assert (received.size, received.has_ended, received.trouble) == (PIECE_BYTES, True, "")


def test_a_flight_of_more_than_a_piece_is_taken_in_whole():
    """Or who has a long certificate would be waited for in vain."""
    authority = trustme.CA()
    names = [f"name-{number}.of-many.invalid" for number in range(1200)]
    server = Engine(tls_sockets.server_context(authority, "127.0.0.1", *names), server_name=None)
    client = Engine(tls_sockets.client_context(authority), server_name="127.0.0.1")
    assert not client.shake_hands()
    server.feed(memoryview(b"".join(client.take())))
    assert not server.shake_hands()
    flight = b"".join(server.take())
    assert len(flight) > PIECE_BYTES
    client.feed(memoryview(flight))
    assert client.shake_hands()
