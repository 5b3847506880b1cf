"""API server as upstream: the list of a node's pods, and pods' subresources.

The module owns the requests to it and the handling of its errors, which are Status objects. Hazard:
calls of tenants must be rate-limited here, because the API server serves a whole super cluster.
Otherwise one tenant could slow it for all. Hazard: its own errors name addresses and accounts, so
they must not pass to tenants. Only messages of a kubelet or of an API check for the caller pass.
"""

import asyncio
import re
from http import HTTPStatus

import orjson
import structlog

from vnagent.client.https_client import Origin
from vnagent.client.upstream_server import Opened, Peer, Words
from vnagent.limits.rate_limiter import Turns
from vnagent.limits.token_bucket import Buckets
from vnagent.protocol import subresources
from vnagent.protocol.errors import Reason, RefusedError
from vnagent.protocol.http_heads import ResponseProblemError

LISTS_AT_ONCE = 5
LIST_SECONDS = 5.0
"""Sustained interval in seconds between two lists. It equals the rate of a node in use, whatever
the load.
"""
CALLS_AT_ONCE = 100
CALL_SECONDS = 0.05
"""Sustained interval in seconds between two calls of one tenant."""

WORDS = Words(
    name="the super cluster's API server",
    down=Reason.API_DOWN,
    untrusted=Reason.API_UNTRUSTED,
    denies=Reason.API_DENIES,
    odd=Reason.API_ODD,
    large=Reason.API_LARGE,
)

_QUERY = re.compile(r"\?[^\s\"]+")
_log = structlog.get_logger(__name__)


class Subresources(Peer):
    """Opener of streams to pods by their subresources, with a rate limit for each tenant."""

    def __init__(self, origin: Origin, words: Words) -> None:
        super().__init__(origin, words)
        self._calls = Buckets(CALLS_AT_ONCE, CALL_SECONDS)

    def pace(self, vc_uid: str) -> None:
        """Count a call of a tenant. Raises RefusedError above its rate."""
        if not self._calls.take(vc_uid, asyncio.get_running_loop().time()):
            raise RefusedError(
                429,
                Reason.TENANT_FAST,
                f"this cluster makes more calls to the node than {self.words.name} is given; try"
                " again",
            )

    async def explain(self, opened: Opened) -> bytes:
        """Return the message of an answer that opens no stream, and close. Raises RefusedError."""
        text = await super().explain(opened)
        kinds = opened.head.values(b"content-type")
        if not any(kind.startswith(b"application/json") for kind in kinds):
            return text  # the kubelet's own message passes
        try:
            found = orjson.loads(text)
            message = str(found["message"])
        except (orjson.JSONDecodeError, LookupError, TypeError) as error:
            raise self._trouble(ResponseProblemError("the error is no Status")) from error
        if opened.head.status >= HTTPStatus.INTERNAL_SERVER_ERROR:
            # The message may contain addresses, and a request target may contain a command that
            # must not be logged.
            told = _QUERY.sub("?...", message)
            name = self.words.name
            _log.warning("call failed", by=name, status=opened.head.status, error=told)
            raise RefusedError(
                502, Reason.API_ODD, f"{name} could not pass the call on to the node"
            )
        return message.encode()

    def _refusal(self, status: int) -> RefusedError | None:
        if status == HTTPStatus.TOO_MANY_REQUESTS:
            _log.warning("call failed", by=self.words.name, status=status)
            return RefusedError(503, Reason.API_BUSY, f"{self.words.name} is busy; try again")
        return super()._refusal(status)


class ApiServer(Subresources):
    """The super API server, which lists the pods of one node as well."""

    def __init__(self, origin: Origin, node: str) -> None:
        super().__init__(origin, WORDS)
        self._target = subresources.pods_on(node)
        self._lists = Turns(LISTS_AT_ONCE, LIST_SECONDS)

    async def turn(self) -> None:
        """Wait until the pods may be listed again. Only one caller may wait."""
        await self._lists.wait()

    async def fetch_pods(self) -> bytes:
        """Return the list of this node's pods as etcd has it. Raises RefusedError."""
        self._lists.take()
        return await self.fetch(self._target)
