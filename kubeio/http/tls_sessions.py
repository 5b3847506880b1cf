"""TLS context that resumes the session of an earlier verified connection.

Owns the offered session, its server and its lifetime. Before TLS 1.3 a resumed connection has no
fresh keys, so such sessions are not kept.

Hazard: a resumed handshake checks no certificate, so a session must be limited. The server only
proves that it has the secret of a connection whose chain and name were verified. It does not prove
that they would still be valid, and it identifies the client by that earlier connection.

- A session serves only the context that made it, with one set of authorities and one client
  certificate.
- It serves only the server name that was verified.
- It serves for minutes, while a watch lives longer on one handshake.
- A resumed session is not kept, so every chain of trust has one link.
- A session from before a call of `forget_session` is not used after it.
"""

import ssl
import time
from typing import NamedTuple

SESSION_SECONDS = 300.0
"""Lifetime of a session in seconds from its handshake. Watches live for up to twice as long."""


class _CachedSession(NamedTuple):
    name: str
    until: float
    session: ssl.SSLSession


class ResumingContext(ssl.SSLContext):
    """A client context. It verifies each connection until a session of its own is remembered."""

    _session_entry: _CachedSession | None = None
    _forgotten_at = float("-inf")

    def remember_session(
        self, connection: ssl.SSLObject | None, name: str | None, proved: float
    ) -> None:
        """Keep the session of a connection after its first answer, when its ticket has arrived.

        `name` is the verified server name, and `proved` the time of verification by the monotonic
        clock.
        """
        if connection is None or name is None or connection.context is not self:
            return
        if connection.session_reused or connection.version() != "TLSv1.3":
            return
        if proved <= self._forgotten_at:
            return  # a late answer would restore a session that is no longer trusted
        if (
            self._session_entry is not None
            and proved + SESSION_SECONDS <= self._session_entry.until
        ):
            return
        session = connection.session
        if session is not None and session.has_ticket:
            self._session_entry = _CachedSession(name, proved + SESSION_SECONDS, session)

    def forget_session(self) -> None:
        """Make the next handshake a full one, as the server may not accept the kept session."""
        self._session_entry, self._forgotten_at = None, time.monotonic()

    def wrap_bio(
        self,
        incoming: ssl.MemoryBIO,
        outgoing: ssl.MemoryBIO,
        server_side: bool = False,
        server_hostname: str | bytes | None = None,
        session: ssl.SSLSession | None = None,
    ) -> ssl.SSLObject:
        """Begin a connection, with the kept session if there is one for this server name."""
        return super().wrap_bio(
            incoming,
            outgoing,
            server_side,
            server_hostname,
            session or self._get_session(server_hostname),
        )

    def _get_session(self, name: str | bytes | None) -> ssl.SSLSession | None:
        kept = self._session_entry
        if kept is None or kept.name != name:
            return None
        if time.monotonic() >= kept.until:
            self._session_entry = None
            return None
        return kept.session
