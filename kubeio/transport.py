"""HTTP to one API server: pool, deadlines, authorisation, and answers turned into errors.

Owns the two connection pools, one for requests and one for watches. Knows paths, not kinds. Hazard:
a request whose answer was lost may have taken effect; only what may be repeated is.
"""

import asyncio
import contextlib
import os
import sys
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any, Self
from urllib.parse import quote

import aiohttp
import orjson
from yarl import URL

from kubeio import errors, retry, stream, tls
from kubeio.credentials import Credentials
from kubeio.endpoint import Endpoint
from telemetry import metrics

Body = Mapping[str, Any] | bytes
"""An object: a dict, or JSON that is already encoded."""
Operations = Sequence[Mapping[str, Any]]
"""The body of a JSON patch."""
Params = Mapping[str, str]

JSON = "application/json"
DEADLINE = 15.0
"""Seconds for one request with its repetitions, unless the call says otherwise."""
SILENCE = 75.0
"""Seconds without a byte after which a watch is dead: servers send bookmarks each minute."""
_LEAVES_TLS_OPEN = sys.version_info < (3, 12, 8)
"""Older Pythons wait half a minute for the other side's part in ending TLS; aiohttp can help it."""
_KEEP_IDLE = 60.0  # seconds; the server's own limit is 90, and who closes last is surprised


class Transport:
    """The connections to one API server. Use as `async with`."""

    def __init__(
        self, endpoint: Endpoint, *, user_agent: str, connections: int, deadline: float
    ) -> None:
        """Make nothing but the SSL context; `connections` is for requests, watches are apart."""
        self.endpoint = endpoint
        self.deadline = deadline
        self._connections = connections
        self._headers = [("User-Agent", user_agent), *_impersonation(endpoint)]
        self._base = endpoint.server.rstrip("/")
        self._credentials = Credentials(endpoint)
        self._ssl = tls.context(endpoint) if endpoint.is_encrypted else None
        self._server_name = endpoint.tls_server_name or None
        self._requests: aiohttp.ClientSession | None = None
        self._watches: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        """Open the pools; no connection is made yet."""
        self._requests = self._session(self._connections)
        self._watches = self._session(0)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        problem: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Close every connection."""
        for session in (self._requests, self._watches):
            if session is not None:
                await session.close()
        self._requests = self._watches = None
        await asyncio.sleep(0)  # aborted sockets are closed by the loop's next turn

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
        """Send a request, repeat it where that is safe, and return the body of the answer."""
        encoded = body if body is None or isinstance(body, bytes) else orjson.dumps(body)
        headers = {"Accept": accept}
        if encoded is not None:
            headers["Content-Type"] = content
        url = self._url(path, params)

        async def attempt(seconds: float) -> bytes:
            return await self._once(
                method,
                url,
                where=self.where(method, path),
                headers=headers,
                body=encoded,
                left=seconds,
            )

        return await retry.call(
            attempt,
            idempotent=method != "POST" if repeatable is None else repeatable,
            deadline=deadline or self.deadline,
            clock=asyncio.get_running_loop().time,
            sleep=asyncio.sleep,
        )

    @contextlib.asynccontextmanager
    async def watch(
        self, path: str, *, params: Params, accept: str = JSON, silence: float = SILENCE
    ) -> AsyncIterator[AsyncIterator[stream.Event]]:
        """Open a watch; leaving the block closes its connection."""
        where = self.where("WATCH", path)
        answer = await self._open(
            self._url(path, params), where=where, accept=accept, silence=silence
        )
        events = _events(answer, where, silence)
        try:
            yield events
        finally:
            await events.aclose()
            # A polite end would wait for the server's part in it, which a dead one never says.
            if answer.connection is not None and answer.connection.transport is not None:
                answer.connection.transport.abort()
            answer.close()

    def where(self, method: str, path: str) -> str:
        """Say in a message which request it was; the query stays out of it."""
        return f"{self.endpoint.title}: {method} {path}"

    async def _once(
        self,
        method: str,
        url: URL,
        *,
        where: str,
        headers: Mapping[str, str],
        body: bytes | None,
        left: float,
    ) -> bytes:
        timeout = aiohttp.ClientTimeout(total=left)
        session = _opened(self._requests)
        renewed = False
        while True:
            with _translated(where, left):
                async with session.request(
                    method,
                    url,
                    data=body,
                    headers=self._authorised(headers),
                    timeout=timeout,
                    server_hostname=self._server_name,
                    proxy=self.endpoint.proxy or None,
                    allow_redirects=False,
                ) as answer:
                    content = await answer.read()
            metrics.REQUESTS.labels(method, str(answer.status)).inc()
            if 200 <= answer.status < 300:
                return content
            if answer.status == 401 and not renewed and self._credentials.refresh():
                renewed = True
                continue
            raise _refused(answer, content, where)

    async def _open(
        self, url: URL, *, where: str, accept: str, silence: float
    ) -> aiohttp.ClientResponse:
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=self.deadline, sock_read=silence)
        session = _opened(self._watches)
        renewed = False
        while True:
            with _translated(where, silence):
                answer = await session.get(
                    url,
                    headers=self._authorised({"Accept": accept}),
                    timeout=timeout,
                    server_hostname=self._server_name,
                    proxy=self.endpoint.proxy or None,
                    allow_redirects=False,
                )
                metrics.REQUESTS.labels("WATCH", str(answer.status)).inc()
                if answer.status == 200:
                    return answer
                content = await answer.read()
            if answer.status == 401 and not renewed and self._credentials.refresh():
                renewed = True
                continue
            raise _refused(answer, content, where)

    def _session(self, limit: int) -> aiohttp.ClientSession:
        connector = aiohttp.TCPConnector(
            enable_cleanup_closed=_LEAVES_TLS_OPEN,
            limit=limit,
            ssl=self._ssl or True,
            keepalive_timeout=_KEEP_IDLE,
            ttl_dns_cache=30,
        )
        return aiohttp.ClientSession(
            connector=connector,
            headers=self._headers,
            # Compressed answers cost both sides more than the wire saves.
            skip_auto_headers=("Accept-Encoding", "Content-Type"),
            cookie_jar=aiohttp.DummyCookieJar(),
            trust_env=False,  # a proxy or a netrc of the environment is never meant for us
        )

    def _url(self, path: str, params: Params | None) -> URL:
        query = "&".join(f"{key}={quote(value, safe='')}" for key, value in (params or {}).items())
        return URL(f"{self._base}{path}" + (f"?{query}" if query else ""), encoded=True)

    def _authorised(self, headers: Mapping[str, str]) -> Mapping[str, str]:
        found = self._credentials.header()
        return {**headers, "Authorization": found} if found else headers


def _impersonation(endpoint: Endpoint) -> list[tuple[str, str]]:
    if not endpoint.impersonate:
        return []
    groups = [("Impersonate-Group", group) for group in endpoint.impersonate_groups]
    return [("Impersonate-User", endpoint.impersonate), *groups]


def _opened(session: aiohttp.ClientSession | None) -> aiohttp.ClientSession:
    if session is None:
        raise RuntimeError("the client is not open; use it in an `async with`")
    return session


def _refused(answer: aiohttp.ClientResponse, content: bytes, where: str) -> errors.ApiError:
    told = answer.headers.get("Retry-After", "")
    return errors.from_answer(answer.status, content, where=where, told=told)


async def _events(
    answer: aiohttp.ClientResponse, where: str, silence: float
) -> AsyncGenerator[stream.Event, None]:
    lines = stream.Lines()
    while True:
        with _translated(where, silence):
            chunk = await answer.content.readany()
        if not chunk:
            break
        for line in lines.feed(chunk):
            yield stream.event(line, where)
    lines.end(where)


@contextlib.contextmanager
def _translated(where: str, seconds: float) -> Iterator[None]:
    """Turn the transport's errors into ours."""
    try:
        yield
    except aiohttp.ConnectionTimeoutError as problem:
        raise errors.NotSent(f"{where}: no connection came about in time") from problem
    except TimeoutError as problem:
        raise errors.Timeout(f"{where}: no answer within {seconds:.3g} s") from problem
    except aiohttp.ClientConnectorCertificateError as problem:
        cause = problem.certificate_error
        detail = getattr(cause, "verify_message", "") or str(cause)
        raise errors.Untrusted(f"{where}: TLS failed: {detail}") from problem
    except aiohttp.ClientConnectorSSLError as problem:
        raise errors.Untrusted(f"{where}: TLS failed: {problem.os_error}") from problem
    except aiohttp.ClientConnectorError as problem:
        number = problem.os_error.errno or 0
        # Numbers of name resolution are negative and have words of their own.
        detail = os.strerror(number) if number > 0 else str(problem.os_error)
        raise errors.NotSent(
            f"{where}: cannot connect to {problem.host}:{problem.port}: {detail}"
        ) from problem
    except (aiohttp.ClientError, OSError) as problem:
        detail = str(problem) or type(problem).__name__
        raise errors.Unavailable(f"{where}: the connection broke: {detail}") from problem
