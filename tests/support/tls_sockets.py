"""Blocking TLS peers for tests: the standard library's sockets, so that our own TLS is not judged
by itself.
"""

import contextlib
import socket
import ssl
import struct
import threading
from collections.abc import Callable, Iterator

import trustme

PATIENCE_SECONDS = 20.0


def server_context(authority: trustme.CA, *names: str) -> ssl.SSLContext:
    """Return a context that serves a certificate for the names."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert(*names).configure_cert(context)
    return context


def client_context(authority: trustme.CA) -> ssl.SSLContext:
    """Return a context that trusts the authority."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    authority.configure_trust(context)
    return context


def half_close(peer: ssl.SSLSocket) -> None:
    """Close the sending direction: a TLS goodbye, then a FIN."""
    peer.settimeout(0)
    with contextlib.suppress(ssl.SSLWantReadError, ssl.SSLEOFError):  # not there yet, or closed
        peer.unwrap()
    with contextlib.suppress(OSError):  # ENOTCONN: who has both goodbyes may have let go already
        socket.socket.shutdown(peer, socket.SHUT_WR)
    peer.settimeout(PATIENCE_SECONDS)


def reset(peer: socket.socket) -> None:
    """Close at once, so that the other side reads a reset."""
    peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    socket.socket.close(peer)


def read_all(peer: ssl.SSLSocket) -> bytes:
    """Return everything up to the peer's TLS goodbye."""
    peer.settimeout(PATIENCE_SECONDS)
    parts = []
    while True:
        try:
            part = peer.recv(65536)
        except ssl.SSLZeroReturnError:  # both directions are closed
            part = b""
        if not part:
            return b"".join(parts)
        parts.append(part)


def read_until(peer: ssl.SSLSocket, mark: bytes) -> bytes:
    """Return what arrives up to a mark and beyond."""
    peer.settimeout(PATIENCE_SECONDS)
    found = b""
    while mark not in found:
        part = peer.recv(65536)
        if not part:
            break
        found += part
    return found


@contextlib.contextmanager
def serving(
    context: ssl.SSLContext, behave: Callable[[ssl.SSLSocket], None], host: str = "127.0.0.1"
) -> Iterator[tuple[int, list[BaseException]]]:
    """Serve each connection in a thread. Yields the port and the errors there."""
    listener = socket.create_server((host, 0))
    troubles: list[BaseException] = []
    open_peers: list[ssl.SSLSocket] = []

    def attend(peer: ssl.SSLSocket) -> None:
        with peer:
            try:
                peer.do_handshake()
                behave(peer)
            except (OSError, AssertionError) as trouble:
                troubles.append(trouble)

    def accept() -> None:
        while True:
            try:
                plain, _ = listener.accept()
            except OSError:
                return
            plain.settimeout(PATIENCE_SECONDS)
            try:
                peer = context.wrap_socket(plain, server_side=True, do_handshake_on_connect=False)
            except OSError:  # it is closed already
                plain.close()
                continue
            open_peers.append(peer)
            threads.append(threading.Thread(target=attend, args=(peer,), daemon=True))
            threads[-1].start()

    threads = [threading.Thread(target=accept, daemon=True)]
    threads[0].start()
    try:
        yield listener.getsockname()[1], troubles
    finally:
        # Only a shutdown wakes a thread that waits in accept or recv.
        listener.shutdown(socket.SHUT_RDWR)
        threads[0].join(PATIENCE_SECONDS)
        listener.close()
        for peer in open_peers:
            with contextlib.suppress(OSError):
                socket.socket.shutdown(peer, socket.SHUT_RDWR)
        for thread in threads:
            thread.join(PATIENCE_SECONDS)


def dial(
    port: int, context: ssl.SSLContext, *, server_name: str = "127.0.0.1", receive_buffer: int = 0
) -> ssl.SSLSocket:
    """Connect to loopback."""
    plain = socket.socket()
    plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # as Go does
    if receive_buffer:
        plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
    plain.settimeout(PATIENCE_SECONDS)
    try:
        plain.connect(("127.0.0.1", port))
        return context.wrap_socket(plain, server_hostname=server_name)
    except BaseException:
        plain.close()
        raise
