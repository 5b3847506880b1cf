"""A TLS context whose next connections go on with the session of one that proved its server.

Owns which session is offered to whom, and for how long. Hazard: a resumed handshake looks at no
certificate: the server shows that it holds the secret of a connection on which its chain and its
name were verified, not that they still would be; and it knows us by what we showed there. So a
session serves only the context that made it, which has one set of authorities and one client
certificate; only under the name that was verified; only for minutes, where a watch lives longer on
one handshake; and none that was itself resumed is kept, so that every chain of trust has one link.
What was shown before somebody had reason to forget serves nobody after it.
Before TLS 1.3 a resumed connection has no fresh keys; such sessions are not kept.
"""

import ssl
import time
from typing import NamedTuple

KEPT_SECONDS = 300.0
"""How long after its handshake a session is offered; watches live for up to twice as long."""


class _Kept(NamedTuple):
    name: str
    until: float
    session: ssl.SSLSession


class Context(ssl.SSLContext):
    """A client context; it verifies like any other, until a session of its own is remembered."""

    _kept: _Kept | None = None
    _forgotten_at = float("-inf")

    def remember(self, connection: ssl.SSLObject | None, name: str | None, proved: float) -> None:
        """Keep the session of a connection whose first answer has come, as its ticket has then.

        `name` is what the server proved to be, and `proved` when, by the monotonic clock.
        """
        if connection is None or name is None or connection.context is not self:
            return
        if connection.session_reused or connection.version() != "TLSv1.3":
            return
        if proved <= self._forgotten_at:
            return  # its answer came late, and would bring back what is no longer believed
        if self._kept is not None and proved + KEPT_SECONDS <= self._kept.until:
            return
        session = connection.session
        if session is not None and session.has_ticket:
            self._kept = _Kept(name, proved + KEPT_SECONDS, session)

    def forget(self) -> None:
        """Have the next handshake be a whole one: a server may not get on with what we kept."""
        self._kept, self._forgotten_at = None, time.monotonic()

    def wrap_bio(
        self,
        incoming: ssl.MemoryBIO,
        outgoing: ssl.MemoryBIO,
        server_side: bool = False,
        server_hostname: str | bytes | None = None,
        session: ssl.SSLSession | None = None,
    ) -> ssl.SSLObject:
        """Begin a connection, with the session that is kept for a server of that name."""
        return super().wrap_bio(
            incoming,
            outgoing,
            server_side,
            server_hostname,
            session or self._offered(server_hostname),
        )

    def _offered(self, name: str | bytes | None) -> ssl.SSLSession | None:
        kept = self._kept
        if kept is None or kept.name != name:
            return None
        if time.monotonic() >= kept.until:
            self._kept = None
            return None
        return kept.session
