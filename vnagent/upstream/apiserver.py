"""An API server as the way to pods: the list of a node's, and pods' subresources.

Owns what is asked of it and what becomes of its errors, which come as Status objects. Hazard: it
serves a whole super cluster, so what tenants do is paced here; and its own errors name addresses
and accounts, so of those only what a kubelet or a check of the API says to a caller passes.
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
"""Between two lists for long: as often as a node that is used asks, whoever hammers."""
CALLS_AT_ONCE = 100
CALL_SECONDS = 0.05
"""Between two calls of one tenant for long."""

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
    """Opens streams to pods by their subresources, for each tenant at a pace."""

    def __init__(self, origin: Origin, words: Words) -> None:
        super().__init__(origin, words)
        self._calls = Buckets(CALLS_AT_ONCE, CALL_SECONDS)

    def pace(self, vc_uid: str) -> None:
        """Count a call of a tenant; raises RefusedError when it makes too many."""
        if not self._calls.take(vc_uid, asyncio.get_running_loop().time()):
            raise RefusedError(
                429,
                Reason.TENANT_FAST,
                f"this cluster makes more calls to the node than {self.words.name} is given; try"
                " again",
            )

    async def explain(self, opened: Opened) -> bytes:
        """Return the sentence of an answer that opens no stream, and close; raises RefusedError."""
        text = await super().explain(opened)
        kinds = opened.head.values(b"content-type")
        if not any(kind.startswith(b"application/json") for kind in kinds):
            return text  # the kubelet's own, handed on
        try:
            found = orjson.loads(text)
            message = str(found["message"])
        except (orjson.JSONDecodeError, LookupError, TypeError) as error:
            raise self._trouble(ResponseProblemError("the error is no Status")) from error
        if opened.head.status >= HTTPStatus.INTERNAL_SERVER_ERROR:
            # It may tell of addresses, and a target may hold a command, which is nobody's to read.
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
    """The super API server: lists the pods of one node as well."""

    def __init__(self, origin: Origin, node: str) -> None:
        super().__init__(origin, WORDS)
        self._target = subresources.pods_on(node)
        self._lists = Turns(LISTS_AT_ONCE, LIST_SECONDS)

    async def turn(self) -> None:
        """Wait until the pods may be listed again; for one caller at a time."""
        await self._lists.wait()

    async def fetch_pods(self) -> bytes:
        """Return the list of this node's pods as the store has it; raises RefusedError."""
        self._lists.take()
        return await self.fetch(self._target)
