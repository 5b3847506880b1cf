"""HTTP requests to one API server: deadlines, authorisation, retries and error responses.

Owns the wire, which has the connections. Knows paths, not kinds.

Hazard: only repeatable requests may be repeated. A request without an answer may have taken effect.
"""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from functools import cache, partial
from types import TracebackType
from typing import Any, Self
from urllib.parse import quote, urlsplit

import orjson

from kubeio import errors
from kubeio.config.credentials import Credentials
from kubeio.config.endpoint import Endpoint
from kubeio.http import connection_pool, retry, tls_contexts, watch_decoder
from kubeio.http.tls_sessions import Context
from kubeio.http.transport_protocol import Answer, Fence, Request, Stream, Wire
from telemetry import metrics

Body = Mapping[str, Any] | bytes
"""An object: a dict, or JSON that is already encoded."""
Operations = Sequence[Mapping[str, Any]]
"""The body of a JSON patch."""
Params = Mapping[str, str]

JSON = "application/json"
DEADLINE = 15.0
"""Default deadline in seconds of one request with its retries."""
SILENCE = 75.0
"""Seconds without a byte after which a watch is dead. Servers send bookmarks each minute."""

_counter = cache(metrics.REQUESTS.labels)


class Transport:
    """The connections to one API server. Use as `async with`."""

    def __init__(
        self,
        endpoint: Endpoint,
        *,
        user_agent: str,
        connections: int,
        deadline: float,
        fence: Fence | None = None,
        most: int | None = None,
    ) -> None:
        """Create only the SSL context. `connections` limits requests, and watches are extra.

        `most` limits the bytes of an answer, if it is less than the usual limit.
        """
        self.endpoint = endpoint
        self._fence, self._most = fence, most
        self.deadline = deadline
        self._connections = connections
        self._headers = (("User-Agent", user_agent), *_impersonation(endpoint))
        self._base = urlsplit(endpoint.server).path.rstrip("/")
        self._credentials = Credentials(endpoint)
        self._context = tls_contexts.context(endpoint) if endpoint.is_encrypted else None
        self._wire: Wire | None = None

    async def __aenter__(self) -> Self:
        """Create the wire. No connection is made yet."""
        self._wire = _wire(self.endpoint, self._context, self._connections, self._fence, self._most)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        problem: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Close every connection."""
        opened, self._wire = self._wire, None
        if opened is not None:
            await opened.close()

    async def request(
        self,
        method: str,
        path: str,
        *,
        params: Params | None = None,
        body: Body | Operations | None = None,
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
        where, target = self.where(method, path), self._target(path, params)
        return await retry.call(
            partial(self._once, Request(method, target, headers, encoded, where)),
            idempotent=method != "POST" if repeatable is None else repeatable,
            deadline=deadline or self.deadline,
            clock=asyncio.get_running_loop().time,
            sleep=asyncio.sleep,
        )

    @contextlib.asynccontextmanager
    async def watch(
        self, path: str, *, params: Params, accept: str = JSON, silence: float = SILENCE
    ) -> AsyncIterator[AsyncIterator[watch_decoder.Event]]:
        """Open a watch. Leaving the block closes its connection."""
        headers = [*self._headers, ("Accept", accept)]
        where, target = self.where("WATCH", path), self._target(path, params)
        answer = await self._open(Request("GET", target, headers, None, where), silence)
        events = _events(answer, where)
        try:
            yield events
        finally:
            await events.aclose()
            answer.abort()

    def where(self, method: str, path: str) -> str:
        """Return the description of a request for messages, without the query."""
        return f"{self.endpoint.title}: {method} {path}"

    async def _once(self, request: Request, left: float) -> bytes:
        renewed = False
        while True:
            answer = await self._opened().exchange(self._authorised(request), left=left)
            _counter(request.method, str(answer.status)).inc()
            if 200 <= answer.status < 300:
                return answer.content
            if answer.status == 401 and not renewed and self._credentials.refresh():
                renewed = True
                continue
            raise _refused(answer, request.where)

    async def _open(self, request: Request, silence: float) -> Stream:
        renewed = False
        while True:
            answer = await self._opened().stream(
                self._authorised(request), connect=self.deadline, silence=silence
            )
            _counter("WATCH", str(answer.status)).inc()
            if answer.status == 200:
                return answer
            try:
                content = await _rest(answer, request.where)
            finally:
                answer.abort()
            if answer.status == 401 and not renewed and self._credentials.refresh():
                renewed = True
                continue
            raise _refused(Answer(answer.status, answer.retry_after, content), request.where)

    def _opened(self) -> Wire:
        if self._wire is None:
            raise RuntimeError("the client is not open; use it in an `async with`")
        return self._wire

    def _target(self, path: str, params: Params | None) -> str:
        if not params:
            return f"{self._base}{path}"
        query = "&".join(f"{key}={quote(value, safe='')}" for key, value in params.items())
        return f"{self._base}{path}?{query}"

    def _authorised(self, request: Request) -> Request:
        found = self._credentials.header()
        if not found:
            return request
        return request._replace(headers=[*request.headers, ("Authorization", found)])


def _wire(
    endpoint: Endpoint,
    context: Context | None,
    connections: int,
    fence: Fence | None,
    most: int | None,
) -> Wire:
    name = endpoint.tls_server_name or None
    if not endpoint.proxy:
        return connection_pool.Pool(
            endpoint.server,
            context=context,
            server_name=name,
            connections=connections,
            fence=fence,
            most=most,
        )
    from kubeio.http.proxy_transport import ProxiedWire  # noqa: PLC0415 - ten MiB that few need

    return ProxiedWire(
        endpoint.server,
        context=context,
        server_name=name,
        connections=connections,
        proxy=endpoint.proxy,
        fence=fence,
        most=most,
    )


def _impersonation(endpoint: Endpoint) -> list[tuple[str, str]]:
    if not endpoint.impersonate:
        return []
    groups = [("Impersonate-Group", group) for group in endpoint.impersonate_groups]
    return [("Impersonate-User", endpoint.impersonate), *groups]


def _refused(answer: Answer, where: str) -> errors.ApiError:
    return errors.from_answer(answer.status, answer.content, where=where, told=answer.retry_after)


async def _rest(answer: Stream, where: str) -> bytes:
    """Return the body of a refused watch."""
    content = b""
    while chunk := await answer.read():
        content += chunk
        if len(content) > watch_decoder.MAX_LINE_BYTES:
            raise errors.Unavailable(
                f"{where}: an answer of more than {watch_decoder.MAX_LINE_BYTES} bytes"
            )
    return content


async def _events(answer: Stream, where: str) -> AsyncGenerator[watch_decoder.Event, None]:
    lines = watch_decoder.Lines()
    while chunk := await answer.read():
        for line in lines.feed(chunk, where):
            yield watch_decoder.event(line, where)
    lines.end(where)
