"""One TLS server that we call with our bound token: the kubelet, or the super API server.

Owns dialling, the credential, and small requests whose answer fits into memory. Must not know what
is asked. Hazard: the credential reaches every pod of the node, so it is written into a request only
after the server's certificate was verified, on that connection or on one of the last minutes whose
session it goes on with (docs/adr/0021), and never logged.
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
"""Room for the 110 pods of a kubelet that is not told otherwise, of 1.5 MB each: none has more."""
MAX_LINE_BYTES = 4 * 1024 * 1024
"""Above what an API server takes as one object."""

_TOKEN = re.compile(rb"[A-Za-z0-9._~+/-]+=*")


class NoTokenError(TrustProblemError):
    """We have nothing to show to the server; says where it should be."""


@dataclass(frozen=True, slots=True)
class Address:
    """Where a server listens, and what its certificate has to name."""

    host: str
    port: int
    server_name: str
    prefix: str = ""
    """What stands before each path, for an API server behind a proxy; no slash at its end."""

    @property
    def authority(self) -> str:
        """What a Host header says."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class Answer:
    """A whole answer."""

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

    Raises OSError when the server cannot be reached, ChannelLostError when it cannot be trusted.
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
    """One server, its trust and our credential for it, both read again when they change."""

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
        """Hears how attempts to connect have ended; None: well, by a certificate that was shown."""
        self._authorities = authorities
        self._token = token
        self._buffer = buffer
        self._trusted = b""
        self._context: Context | None = None

    async def dial(self, *, is_look: bool = False) -> Channel:
        """Return an open channel; raises OSError, TrustProblemError.

        To look at the server's certificate, its handshake is a whole one; none but such tells
        `dialled` that all is well.
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
            self._forget_session()  # a server may hang over a session of before
            if isinstance(error, OSError | TrustProblemError):
                self.dialled(error)
            raise
        if not channel.has_resumed:
            self.dialled(None)
        return channel

    def remember(self, channel: Channel) -> None:
        """Have the next connections go on with the session of one whose answer has begun."""
        if self._context is not None:
            channel.leave_session(self._context)

    def write_request(self, method: str, target: str, headers: list[tuple[bytes, bytes]]) -> bytes:
        """Write a request head with the current credential; raises NoTokenError."""
        token = self._token.content.strip()
        if _TOKEN.fullmatch(token) is None:
            raise NoTokenError(f"{self._token.path} holds no token")
        target = f"{self.address.prefix}{target}"
        return http_heads.write_request(method, target, self.address.authority, headers, token)

    @property
    def has_credential(self) -> bool:
        """Tell whether there is a token to show, and an authority to know the server by."""
        return bool(self._token.content.strip() and self._authorities.content.strip())

    async def renew_credential(self) -> bool:
        """Read the token again because it was refused; tell whether there is another."""
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
        """Hand over each line of an answer that goes on, until the server ends it.

        Raises OSError, TrustProblemError, ResponseProblemError, and what `hear` raises.
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
        """Return a context that has no session of anybody."""
        return client_context(self._authorities.content)
