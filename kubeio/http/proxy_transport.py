"""Wire through a user's HTTP proxy, with aiohttp.

Owns an aiohttp session for requests and one for streams. Only people's kubeconfigs name proxies, so
its cost per request does not matter. It is imported only if there is a proxy.
"""

import asyncio
import contextlib
import io
import ssl
import sys
from collections.abc import Iterator
from urllib.parse import urlsplit

import aiohttp
from aiohttp.abc import AbstractStreamWriter
from aiohttp.connector import Connection
from multidict import CIMultiDict
from yarl import URL

from kubeio import errors
from kubeio.http import transport_protocol
from kubeio.http.transport_protocol import Fence, HttpRequest, HttpResponse

_NEEDS_TLS_CLOSE_FIX = sys.version_info < (3, 12, 8)
"""Whether Python waits 30 s for the peer's part of the TLS shutdown. aiohttp can avoid that."""


class ProxyTransport:
    """A wire for one server behind a proxy. It also works without one."""

    def __init__(
        self,
        server: str,
        *,
        context: ssl.SSLContext | None,
        server_name: str | None,
        connections: int,
        proxy: str,
        fence: Fence | None = None,
        max_response_bytes: int | None = None,
    ) -> None:
        """Set up the sessions, without a connection. Requires a running loop.

        `most` limits the bytes of an answer, if it is less than the usual limit.
        """
        self._max_response_bytes = max_response_bytes
        url = urlsplit(server)
        self._base = f"{url.scheme}://{url.netloc}"
        self._proxy = proxy or None
        self._server_name = server_name
        self._requests = _create_session(connections, context, fence)
        self._streams = _create_session(0, context, fence)

    async def close(self) -> None:
        """Close every connection."""
        await self._requests.close()
        await self._streams.close()
        await asyncio.sleep(0)  # aborted sockets are closed in the next iteration of the loop

    async def exchange(self, request: HttpRequest, *, timeout_seconds: float) -> HttpResponse:
        """Send one request and return its answer, within `timeout_seconds` seconds in total."""
        body = request.body
        with _translate_errors(request.where, timeout_seconds):
            async with self._requests.request(
                request.method,
                self._build_url(request.target),
                # Each attempt needs a new stream.
                data=io.BytesIO(body)
                if body is not None and len(body) > transport_protocol.SINGLE_WRITE_BYTES
                else body,
                headers=CIMultiDict(request.headers),
                timeout=aiohttp.ClientTimeout(total=timeout_seconds),
                server_hostname=self._server_name,
                proxy=self._proxy,
                allow_redirects=False,
            ) as answer:
                content = await _read_body(answer, request.where, self._max_response_bytes)
                return HttpResponse(answer.status, _get_retry_after(answer), content)

    async def stream(
        self, request: HttpRequest, *, connect: float, idle_timeout: float
    ) -> "_ProxiedStream":
        """Send a request on a new connection and return after the head of its answer."""
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=connect, sock_read=idle_timeout)
        with _translate_errors(request.where, idle_timeout):
            answer = await self._streams.request(
                request.method,
                self._build_url(request.target),
                headers=CIMultiDict(request.headers),
                timeout=timeout,
                server_hostname=self._server_name,
                proxy=self._proxy,
                allow_redirects=False,
            )
        return _ProxiedStream(answer, request.where, idle_timeout)

    def _build_url(self, target: str) -> URL:
        return URL(self._base + target, encoded=True)


class _ProxiedStream:
    """A stream on its own connection."""

    def __init__(
        self, answer: aiohttp.ClientResponse, where: errors.RequestDescription, silence: float
    ) -> None:
        self.status = answer.status
        self.retry_after = _get_retry_after(answer)
        self._answer = answer
        self._where = where
        self._silence = silence

    async def read(self) -> bytes:
        """Return received bytes, empty at the end."""
        with _translate_errors(self._where, self._silence):
            return await self._answer.content.readany()

    def abort(self) -> None:
        """Close the connection."""
        connection = self._answer.connection
        if connection is not None and connection.transport is not None:
            connection.transport.abort()
        self._answer.close()


def _create_session(
    limit: int, context: ssl.SSLContext | None, fence: Fence | None
) -> aiohttp.ClientSession:
    connector = aiohttp.TCPConnector(
        enable_cleanup_closed=_NEEDS_TLS_CLOSE_FIX,
        limit=limit,
        ssl=context or True,
        keepalive_timeout=transport_protocol.IDLE_CONNECTION_SECONDS,
        ttl_dns_cache=30,
    )
    return aiohttp.ClientSession(
        connector=connector,
        request_class=_build_request_class(fence),
        # Compression costs both sides more than the saved bytes.
        skip_auto_headers=("Accept-Encoding", "Content-Type"),
        cookie_jar=aiohttp.DummyCookieJar(),
        trust_env=False,  # never use a proxy or a netrc of the environment
    )


def _build_request_class(fence: Fence | None) -> type[aiohttp.ClientRequest]:
    """Return the request class of a session. The fence is not called for reads."""
    if fence is None:
        return aiohttp.ClientRequest
    ask = fence

    class FencedRequest(aiohttp.ClientRequest):
        async def send(self, conn: Connection) -> aiohttp.ClientResponse:
            if self.method != "GET":
                ask()
            return await super().send(conn)

        async def write_bytes(
            self, writer: AbstractStreamWriter, conn: Connection, content_length: int | None = None
        ) -> None:
            try:
                ask()  # the head waits for the body, and the body for an iteration of the loop
            except errors.Fenced as problem:
                if conn.protocol is not None:
                    conn.protocol.set_exception(problem)
                return
            await super().write_bytes(writer, conn, content_length)

    return FencedRequest


async def _read_body(
    answer: aiohttp.ClientResponse, where: errors.RequestDescription, most: int | None
) -> bytes:
    chunks: list[bytes] = []
    size = 0
    while chunk := await answer.content.readany():
        size += len(chunk)
        if size > (most or transport_protocol.MAX_RESPONSE_BYTES):
            answer.close()
            raise errors.ResponseTooLarge(
                transport_protocol.response_too_large(most), request=where
            )
        chunks.append(chunk)
    return b"".join(chunks)


def _get_retry_after(answer: aiohttp.ClientResponse) -> str:
    return answer.headers.get("Retry-After", "")


@contextlib.contextmanager
def _translate_errors(where: errors.RequestDescription, seconds: float) -> Iterator[None]:
    """Convert aiohttp's errors to those of this package."""
    try:
        yield
    except aiohttp.ConnectionTimeoutError as problem:
        raise transport_protocol.no_connection_in_time(where) from problem
    except TimeoutError as problem:
        raise transport_protocol.request_timed_out(where, seconds) from problem
    except aiohttp.ClientConnectorCertificateError as problem:
        raise transport_protocol.server_untrusted(where, problem.certificate_error) from problem
    except aiohttp.ClientConnectorSSLError as problem:
        raise transport_protocol.server_untrusted(where, problem.os_error) from problem
    except aiohttp.ClientConnectorError as problem:
        raise transport_protocol.connect_failed(
            where, problem.host, problem.port, problem.os_error
        ) from problem
    except (aiohttp.ClientError, OSError) as problem:
        detail = str(problem) or type(problem).__name__
        raise errors.Unavailable(f"the connection broke: {detail}", request=where) from problem
