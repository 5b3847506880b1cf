"""HTTPS client of one server that gets the agent's token: the kubelet or an API server.

The module owns dialling, the credential, and small requests with answers that fit into memory. It
must not know the purpose of a request. Hazard: the credential must be written only after the
server's certificate was verified, and it must never be logged. Otherwise another server gets a
credential that reaches every pod of the node. The verification may be that of this connection, or
of a connection of the last minutes whose session it resumes (docs/adr/0021).
"""

import asyncio
import re
import ssl
from collections.abc import Callable
from dataclasses import dataclass

from kubeio.http.tls_sessions import Context
from vnagent.protocol import http_heads
from vnagent.stream.file_watch import WatchedFile
from vnagent.stream.tls_contexts import TrustProblemError, client_context
from vnagent.stream.tls_stream import Channel, ReceiveBuffer

CONNECT_SECONDS = 5.0
ANSWER_SECONDS = 30.0
MAX_ANSWER_BYTES = 160 * 1024 * 1024
"""Limit of an answer in bytes. A kubelet has 110 pods by default, and no pod has more than 1.5 MB.
"""
MAX_LINE_BYTES = 4 * 1024 * 1024
"""Limit of a line in bytes. It is above an API server's limit of one object."""

_TOKEN = re.compile(rb"[A-Za-z0-9._~+/-]+=*")


class NoTokenError(TrustProblemError):
    """There is no token for the server. The message names the file."""


@dataclass(frozen=True, slots=True)
class Address:
    """Address of a server, and the name that its certificate must contain."""

    host: str
    port: int
    server_name: str
    prefix: str = ""
    """Prefix of each path, for an API server behind a proxy. It has no slash at its end."""

    @property
    def authority(self) -> str:
        """The value of the Host header."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class Answer:
    """A whole response."""

    status: int
    body: bytes


async def connect(
    host: str,
    port: int,
    *,
    context: ssl.SSLContext,
    buffer: ReceiveBuffer,
    server_name: str,
) -> Channel:
    """Return an open channel to a server whose certificate names `server_name`.

    Raises OSError if the server cannot be reached, ChannelLostError if it cannot be trusted.
    """
    loop = asyncio.get_running_loop()
    _, channel = await loop.create_connection(
        lambda: Channel(context, buffer, server_name=server_name), host, port
    )
    try:
        await channel.opened()
    except BaseException:
        channel.abort()
        raise
    return channel


class Origin:
    """One server, its authorities and the agent's credential for it. Both are reread on change."""

    def __init__(
        self,
        address: Address,
        *,
        authorities: WatchedFile,
        token: WatchedFile,
        buffer: ReceiveBuffer,
    ) -> None:
        self.address = address
        self.dialled: Callable[[Exception | None], None] = lambda _: None
        """Callback for the result of each attempt to connect. None means that a certificate
        verified.
        """
        self._authorities = authorities
        self._token = token
        self._buffer = buffer
        self._trusted = b""
        self._context: Context | None = None

    async def dial(self, *, is_look: bool = False) -> Channel:
        """Return an open channel. Raises OSError, TrustProblemError.

        With `is_look` the handshake is a full one, which verifies the server's certificate. Only
        full handshakes report success to `dialled`.
        """
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                channel = await connect(
                    self.address.host,
                    self.address.port,
                    context=self._own_context() if is_look else self._current_context(),
                    buffer=self._buffer,
                    server_name=self.address.server_name,
                )
        except BaseException as error:
            self._forget_session()  # a server may hang because of an older session
            if isinstance(error, OSError | TrustProblemError):
                self.dialled(error)
            raise
        if not channel.has_resumed:
            self.dialled(None)
        return channel

    def remember(self, channel: Channel) -> None:
        """Keep the session of a channel whose answer has begun, for the next connections."""
        if self._context is not None:
            channel.leave_session(self._context)

    def write_request(self, method: str, target: str, headers: list[tuple[bytes, bytes]]) -> bytes:
        """Return a request head with the current credential. Raises NoTokenError."""
        token = self._token.content.strip()
        if _TOKEN.fullmatch(token) is None:
            raise NoTokenError(f"{self._token.path} holds no token")
        target = f"{self.address.prefix}{target}"
        return http_heads.write_request(method, target, self.address.authority, headers, token)

    @property
    def has_credential(self) -> bool:
        """Return whether there is a token, and an authority to verify the server."""
        return bool(self._token.content.strip() and self._authorities.content.strip())

    async def renew_credential(self) -> bool:
        """Read the token again after it was refused. Return whether it has changed."""
        return await self._token.refresh()

    async def ask(
        self,
        method: str,
        target: str,
        body: bytes = b"",
        *,
        accept: bytes = b"application/json",
        limit: int = MAX_ANSWER_BYTES,
    ) -> Answer:
        """Send a small request and return the whole answer, of at most `limit` bytes.

        Raises OSError, TrustProblemError, ResponseProblemError.
        """
        headers = [(b"Accept", accept), (b"Connection", b"close")]
        if body:
            length = b"%d" % len(body)
            headers += [(b"Content-Type", b"application/json"), (b"Content-Length", length)]
        answer = await self._ask_once(method, target, headers, body, limit)
        if answer.status == 401 and await self.renew_credential():
            return await self._ask_once(method, target, headers, body, limit)
        return answer

    async def follow(self, target: str, hear: Callable[[bytes], None]) -> None:
        """Pass each line of a streamed answer to `hear`, until the server ends it.

        Raises OSError, TrustProblemError, ResponseProblemError, and the errors of `hear`.
        """
        channel = await self.dial()
        headers = [(b"Accept", b"application/json"), (b"Connection", b"close")]
        reader = http_heads.LineReader(MAX_LINE_BYTES)
        try:
            channel.write(self.write_request("GET", target, headers))
            while not reader.has_ended:
                for line in reader.feed(await channel.read()):
                    hear(line)
        finally:
            channel.abort()

    async def _ask_once(
        self,
        method: str,
        target: str,
        headers: list[tuple[bytes, bytes]],
        body: bytes,
        limit: int,
    ) -> Answer:
        channel = await self.dial()
        reader = http_heads.AnswerReader(limit)
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                channel.write(self.write_request(method, target, headers) + body)
                while (found := reader.feed(await channel.read())) is None:
                    pass
            self.remember(channel)
        finally:
            channel.close()
        return Answer(*found)

    def _forget_session(self) -> None:
        if self._context is not None:
            self._context.forget()

    def _current_context(self) -> Context:
        if self._context is None or self._trusted != self._authorities.content:
            self._context = self._own_context()
            self._trusted = self._authorities.content
        return self._context

    def _own_context(self) -> Context:
        """Return a context without any session."""
        return client_context(self._authorities.content)
