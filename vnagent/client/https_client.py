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

from kubeio.http.tls_sessions import ResumingContext
from vnagent.protocol import http_heads
from vnagent.stream.file_watch import WatchedFile
from vnagent.stream.receive_buffer import ReceiveBuffer
from vnagent.stream.tls_contexts import InvalidTrustError, create_client_context
from vnagent.stream.tls_stream import TlsStream

CONNECT_SECONDS = 5.0
RESPONSE_SECONDS = 30.0
MAX_RESPONSE_BYTES = 160 * 1024 * 1024
"""Limit of an answer in bytes. A kubelet has 110 pods by default, and no pod has more than 1.5 MB.
"""
MAX_LINE_BYTES = 4 * 1024 * 1024
"""Limit of a line in bytes. It is above an API server's limit of one object."""

_TOKEN = re.compile(rb"[A-Za-z0-9._~+/-]+=*")


class MissingTokenError(InvalidTrustError):
    """There is no token for the server. The message names the file."""


@dataclass(frozen=True, slots=True)
class ServerAddress:
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
class BufferedResponse:
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
) -> TlsStream:
    """Return an open channel to a server whose certificate names `server_name`.

    Raises OSError if the server cannot be reached, ChannelLostError if it cannot be trusted.
    """
    loop = asyncio.get_running_loop()
    _, channel = await loop.create_connection(
        lambda: TlsStream(context, buffer, server_name=server_name), host, port
    )
    try:
        await channel.wait_opened()
    except BaseException:
        channel.abort()
        raise
    return channel


class HttpsClient:
    """One server, its authorities and the agent's credential for it. Both are reread on change."""

    def __init__(
        self,
        address: ServerAddress,
        *,
        authorities: WatchedFile,
        token: WatchedFile,
        buffer: ReceiveBuffer,
    ) -> None:
        self.address = address
        self.on_dialed: Callable[[Exception | None], None] = lambda _: None
        """Callback for the result of each attempt to connect. None means that a certificate
        verified.
        """
        self._authorities = authorities
        self._token = token
        self._buffer = buffer
        self._trusted = b""
        self._context: ResumingContext | None = None

    async def connect(self, *, is_probe: bool = False) -> TlsStream:
        """Return an open channel. Raises OSError, TrustProblemError.

        With `is_probe` the handshake is a full one, which verifies the server's certificate. Only
        full handshakes report success to `on_dialed`.
        """
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                channel = await connect(
                    self.address.host,
                    self.address.port,
                    context=self._create_context() if is_probe else self._current_context(),
                    buffer=self._buffer,
                    server_name=self.address.server_name,
                )
        except BaseException as error:
            self._forget_session()  # a server may hang because of an older session
            if isinstance(error, OSError | InvalidTrustError):
                self.on_dialed(error)
            raise
        if not channel.has_resumed:
            self.on_dialed(None)
        return channel

    def remember_session(self, channel: TlsStream) -> None:
        """Keep the session of a channel whose answer has begun, for the next connections."""
        if self._context is not None:
            channel.remember_session(self._context)

    def write_request(self, method: str, target: str, headers: list[tuple[bytes, bytes]]) -> bytes:
        """Return a request head with the current credential. Raises NoTokenError."""
        token = self._token.content.strip()
        if _TOKEN.fullmatch(token) is None:
            raise MissingTokenError(f"{self._token.path} has no token")
        target = f"{self.address.prefix}{target}"
        return http_heads.write_request(method, target, self.address.authority, headers, token)

    @property
    def has_credential(self) -> bool:
        """Return whether there is a token, and an authority to verify the server."""
        return bool(self._token.content.strip() and self._authorities.content.strip())

    async def renew_credential(self) -> bool:
        """Read the token again after it was refused. Return whether it has changed."""
        return await self._token.refresh()

    async def request(
        self,
        method: str,
        target: str,
        body: bytes = b"",
        *,
        accept: bytes = b"application/json",
        limit: int = MAX_RESPONSE_BYTES,
    ) -> BufferedResponse:
        """Send a small request and return the whole answer, of at most `limit` bytes.

        Raises OSError, TrustProblemError, ResponseProblemError.
        """
        headers = [(b"Accept", accept), (b"Connection", b"close")]
        if body:
            length = b"%d" % len(body)
            headers += [(b"Content-Type", b"application/json"), (b"Content-Length", length)]
        answer = await self._request_once(method, target, headers, body, limit)
        if answer.status == 401 and await self.renew_credential():
            return await self._request_once(method, target, headers, body, limit)
        return answer

    async def stream_lines(self, target: str, on_line: Callable[[bytes], None]) -> None:
        """Pass each line of a streamed answer to `on_line`, until the server ends it.

        Raises OSError, TrustProblemError, ResponseProblemError, and the errors of `on_line`.
        """
        channel = await self.connect()
        headers = [(b"Accept", b"application/json"), (b"Connection", b"close")]
        reader = http_heads.LineReader(MAX_LINE_BYTES)
        try:
            channel.write(self.write_request("GET", target, headers))
            while not reader.has_ended:
                for line in reader.feed(await channel.read()):
                    on_line(line)
        finally:
            channel.abort()

    async def _request_once(
        self,
        method: str,
        target: str,
        headers: list[tuple[bytes, bytes]],
        body: bytes,
        limit: int,
    ) -> BufferedResponse:
        channel = await self.connect()
        reader = http_heads.ResponseReader(limit)
        try:
            async with asyncio.timeout(RESPONSE_SECONDS):
                channel.write(self.write_request(method, target, headers) + body)
                while (found := reader.feed(await channel.read())) is None:
                    pass
            self.remember_session(channel)
        finally:
            channel.close()
        return BufferedResponse(*found)

    def _forget_session(self) -> None:
        if self._context is not None:
            self._context.forget_session()

    def _current_context(self) -> ResumingContext:
        if self._context is None or self._trusted != self._authorities.content:
            self._context = self._create_context()
            self._trusted = self._authorities.content
        return self._context

    def _create_context(self) -> ResumingContext:
        """Return a context without any session."""
        return create_client_context(self._authorities.content)
