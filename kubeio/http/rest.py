"""HTTP requests to one API server: deadlines, authorisation, retries and error responses.

Owns the wire, which has the connections. Knows paths, not kinds.

Hazard: only repeatable requests may be repeated. A request without an answer may have taken effect.
"""

import asyncio
import contextlib
import math
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import quote, urlsplit

import orjson

from kubeio import errors
from kubeio.config.credentials import Credentials
from kubeio.config.endpoint import Endpoint
from kubeio.http import connection_pool, retry, tls_contexts, watch_decoder
from kubeio.http.tls_sessions import ResumingContext
from kubeio.http.transport_protocol import (
    Fence,
    HttpRequest,
    HttpResponse,
    HttpTransport,
    ResponseStream,
    request_timed_out,
)

if TYPE_CHECKING:
    from prometheus_client import Counter

RequestBody = Mapping[str, Any] | bytes
"""An object: a dict, or JSON that is already encoded."""
JsonPatchOperations = Sequence[Mapping[str, Any]]
"""The body of a JSON patch."""
QueryParams = Mapping[str, str]

JSON = "application/json"
DEFAULT_DEADLINE_SECONDS = 15.0
"""Default deadline in seconds of one request with its retries."""
WATCH_IDLE_SECONDS = 75.0
"""Seconds without a byte after which a watch is dead. Servers send bookmarks each minute.

One event may take as long, from its first byte to its last.
"""
_MAX_REFUSAL_BYTES = 2**20
"""Bytes of the answer that refuses a watch. It is a Status, or the page of a proxy."""


@cache
def _get_request_counter(method: str, status: str) -> "Counter":
    from telemetry import metrics  # noqa: PLC0415 - a sixth of a call of the command line, which counts nothing

    return metrics.REQUESTS.labels(method, status)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientOptions:
    """Options of the connections to one API server."""

    user_agent: str = "virtual-cluster"
    connections: int = 32
    """Maximum number of connections for requests. Each watch has one more of its own."""
    deadline: float = DEFAULT_DEADLINE_SECONDS
    """Seconds for one request with its retries, unless the request sets its own deadline."""
    fence: Fence | None = None
    """Called before each write. Raises errors.Fenced when writes are forbidden."""
    max_response_bytes: int | None = None
    """Limit of the bytes of one answer, if it is lower than the limit of every client."""
    max_line_bytes: int | None = None
    """Limit of the bytes of one event of a watch, if it is lower than that of every client."""
    counts_requests: bool = True
    """Whether the metric of requests counts them. A program without metrics need not load any."""


DEFAULT_CLIENT_OPTIONS = ClientOptions()


class RestClient:
    """The connections to one API server. Use as `async with`."""

    def __init__(self, endpoint: Endpoint, options: ClientOptions = DEFAULT_CLIENT_OPTIONS) -> None:
        """Create only the SSL context."""
        self.endpoint = endpoint
        self.options = options
        self._headers = (("User-Agent", options.user_agent), *_impersonation_headers(endpoint))
        self._base = urlsplit(endpoint.server).path.rstrip("/")
        self._credentials = Credentials(endpoint)
        self._context = tls_contexts.create_context(endpoint) if endpoint.is_encrypted else None
        self._transport: HttpTransport | None = None

    async def __aenter__(self) -> Self:
        """Create the wire. No connection is made yet."""
        self._transport = _create_transport(self.endpoint, self._context, self.options)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        problem: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Close every connection."""
        opened, self._transport = self._transport, None
        if opened is not None:
            await opened.close()

    async def request(
        self,
        method: str,
        path: str,
        *,
        params: QueryParams | None = None,
        body: RequestBody | JsonPatchOperations | None = None,
        content: str = JSON,
        accept: str = JSON,
        repeatable: bool | None = None,
        deadline: float | None = None,
    ) -> bytes:
        """Send a request, retry it if that is safe, and return the body of the answer."""
        encoded = body if body is None or isinstance(body, bytes) else orjson.dumps(body)
        headers = [*self._headers, ("Accept", accept)]
        if encoded is not None:
            headers.append(("Content-Type", content))
        where, target = self.describe_request(method, path), self._build_target(path, params)
        return await retry.call_with_retries(
            partial(self._send_once, HttpRequest(method, target, headers, encoded, where)),
            idempotent=method != "POST" if repeatable is None else repeatable,
            deadline=deadline or self.options.deadline,
            clock=asyncio.get_running_loop().time,
            sleep=asyncio.sleep,
        )

    @contextlib.asynccontextmanager
    async def watch(
        self,
        path: str,
        *,
        params: QueryParams,
        accept: str = JSON,
        idle_timeout: float = WATCH_IDLE_SECONDS,
        max_seconds: float = math.inf,
        on_pending: Callable[[int], None] | None = None,
    ) -> AsyncIterator[AsyncIterator[watch_decoder.WatchEvent]]:
        """Open a watch. Leaving the block closes its connection.

        The iterator raises Timeout after `max_seconds`, and when one event takes longer than
        `idle_timeout`. `on_pending` is called with the bytes of an unfinished event when they
        change. It may raise, except for 0.
        """
        headers = [*self._headers, ("Accept", accept)]
        where, target = self.describe_request("WATCH", path), self._build_target(path, params)
        answer = await self._open_stream(
            HttpRequest("GET", target, headers, None, where), idle_timeout
        )
        events = _read_events(
            answer,
            where,
            watch_decoder.LineDecoder(self.options.max_line_bytes),
            ends_at=asyncio.get_running_loop().time() + max_seconds,
            idle_timeout=idle_timeout,
            on_pending=on_pending or _ignore_pending,
        )
        try:
            yield events
        finally:
            await events.aclose()
            answer.abort()

    async def find_lines(self, path: str, *, start: bytes, max_bytes: int) -> list[bytes]:
        """Return the lines of an answer that begin with `start`. The rest is not stored.

        Raises ResponseTooLarge if the answer has more than `max_bytes`.
        """
        where = self.describe_request("GET", path)
        headers = [*self._headers, ("Accept", "text/plain")]
        request = HttpRequest("GET", self._build_target(path, None), headers, None, where)
        found: list[bytes] = []
        size, lines = 0, watch_decoder.LineDecoder(self.options.max_line_bytes)
        async with asyncio.timeout(self.options.deadline):
            answer = await self._open_stream(request, self.options.deadline)
            try:
                while chunk := await answer.read():
                    size += len(chunk)
                    if size > max_bytes:
                        raise errors.ResponseTooLarge(
                            f"an answer of more than {max_bytes} bytes", request=where
                        )
                    found += [line for line in lines.feed(chunk, where) if line.startswith(start)]
            finally:
                answer.abort()
        return found

    def describe_request(self, method: str, path: str) -> errors.RequestDescription:
        """Return the description of a request for messages, without the query."""
        return errors.RequestDescription(self.endpoint.title, method, path)

    async def _send_once(self, request: HttpRequest, left: float) -> bytes:
        renewed = False
        while True:
            answer = await self._get_transport().exchange(
                self._authorize(request), timeout_seconds=left
            )
            if self.options.counts_requests:
                _get_request_counter(request.method, str(answer.status)).inc()
            if 200 <= answer.status < 300:
                return answer.content
            if answer.status == 401 and not renewed and self._credentials.refresh():
                renewed = True
                continue
            raise _build_error(answer, request.where)

    async def _open_stream(self, request: HttpRequest, silence: float) -> ResponseStream:
        renewed = False
        while True:
            answer = await self._get_transport().stream(
                self._authorize(request), connect=self.options.deadline, idle_timeout=silence
            )
            if self.options.counts_requests:
                _get_request_counter("WATCH", str(answer.status)).inc()
            if answer.status == 200:
                return answer
            try:
                async with asyncio.timeout(self.options.deadline):
                    content = await _read_rest(answer, request.where)
            except TimeoutError as problem:
                raise request_timed_out(request.where, self.options.deadline) from problem
            finally:
                answer.abort()
            if answer.status == 401 and not renewed and self._credentials.refresh():
                renewed = True
                continue
            raise _build_error(
                HttpResponse(answer.status, answer.retry_after, content), request.where
            )

    def _get_transport(self) -> HttpTransport:
        if self._transport is None:
            raise RuntimeError("the client is not open. Use it in an `async with`")
        return self._transport

    def _build_target(self, path: str, params: QueryParams | None) -> str:
        if not params:
            return f"{self._base}{path}"
        query = "&".join(f"{key}={quote(value, safe='')}" for key, value in params.items())
        return f"{self._base}{path}?{query}"

    def _authorize(self, request: HttpRequest) -> HttpRequest:
        found = self._credentials.get_header()
        if not found:
            return request
        return request._replace(headers=[*request.headers, ("Authorization", found)])


def _create_transport(
    endpoint: Endpoint, context: ResumingContext | None, options: ClientOptions
) -> HttpTransport:
    name = endpoint.tls_server_name or None
    if not endpoint.proxy:
        return connection_pool.ConnectionPool(
            endpoint.server,
            context=context,
            server_name=name,
            connections=options.connections,
            fence=options.fence,
            max_response_bytes=options.max_response_bytes,
        )
    from kubeio.http.proxy_transport import ProxyTransport  # noqa: PLC0415 - ten MiB that few need

    return ProxyTransport(
        endpoint.server,
        context=context,
        server_name=name,
        connections=options.connections,
        proxy=endpoint.proxy,
        fence=options.fence,
        max_response_bytes=options.max_response_bytes,
    )


def _impersonation_headers(endpoint: Endpoint) -> list[tuple[str, str]]:
    if not endpoint.impersonate:
        return []
    groups = [("Impersonate-Group", group) for group in endpoint.impersonate_groups]
    return [("Impersonate-User", endpoint.impersonate), *groups]


def _build_error(answer: HttpResponse, where: errors.RequestDescription) -> errors.ApiError:
    return errors.from_response(
        answer.status, answer.content, request=where, retry_after=answer.retry_after
    )


async def _read_rest(answer: ResponseStream, where: errors.RequestDescription) -> bytes:
    """Return the body of a refused watch."""
    content = b""
    while chunk := await answer.read():
        content += chunk
        if len(content) > _MAX_REFUSAL_BYTES:
            raise errors.ResponseTooLarge(
                f"an answer of more than {_MAX_REFUSAL_BYTES} bytes", request=where
            )
    return content


def _ignore_pending(_: int) -> None:
    """Charge nothing."""


async def _read_events(
    answer: ResponseStream,
    where: errors.RequestDescription,
    lines: watch_decoder.LineDecoder,
    *,
    ends_at: float,
    idle_timeout: float,
    on_pending: Callable[[int], None],
) -> AsyncGenerator[watch_decoder.WatchEvent, None]:
    """Yield the events until the server or a limit of time ends the watch.

    The limits are checked at each chunk. The transport ends a watch that gets none.
    """
    now = asyncio.get_running_loop().time
    began, pending = 0.0, 0
    try:
        while chunk := await answer.read():
            complete = lines.feed(chunk, where)
            for line in complete:
                yield watch_decoder.parse_event(line, where)
            read_at = now()
            if read_at >= ends_at:
                raise errors.Timeout("the server did not end the watch in time", request=where)
            if complete or not pending:
                began = read_at  # the next event begins with this chunk
            elif read_at - began >= idle_timeout:
                raise errors.Timeout(
                    f"an event was not complete within {idle_timeout:.3g} s", request=where
                )
            if lines.pending_bytes != pending:
                pending = lines.pending_bytes
                on_pending(pending)
    finally:
        if pending:
            on_pending(0)
    lines.finish(where)
