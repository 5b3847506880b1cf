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

from vnagent.client.https_client import HttpsClient
from vnagent.client.upstream_server import OpenedStream, UpstreamLabels, UpstreamServer
from vnagent.limits.rate_limiter import RateLimiter
from vnagent.limits.token_bucket import TenantBuckets
from vnagent.protocol import subresources
from vnagent.protocol.errors import RefusalReason, RequestRefusedError
from vnagent.protocol.http_heads import InvalidResponseError

LIST_BURST = 5
LIST_INTERVAL_SECONDS = 5.0
"""Sustained interval in seconds between two lists. It equals the rate of a node in use, whatever
the load.
"""
CALL_BURST = 100
CALL_INTERVAL_SECONDS = 0.05
"""Sustained interval in seconds between two calls of one tenant."""

API_SERVER_LABELS = UpstreamLabels(
    name="the super cluster's API server",
    unreachable=RefusalReason.API_DOWN,
    untrusted=RefusalReason.API_UNTRUSTED,
    denied=RefusalReason.API_DENIES,
    invalid=RefusalReason.API_ODD,
    too_large=RefusalReason.API_LARGE,
)

_QUERY_PATTERN = re.compile(r"\?[^\s\"]+")
_log = structlog.get_logger(__name__)


class SubresourceUpstream(UpstreamServer):
    """Opener of streams to pods by their subresources, with a rate limit for each tenant."""

    def __init__(self, origin: HttpsClient, words: UpstreamLabels) -> None:
        super().__init__(origin, words)
        self._calls = TenantBuckets(CALL_BURST, CALL_INTERVAL_SECONDS)

    def check_rate(self, vc_uid: str) -> None:
        """Count a call of a tenant. Raises RefusedError above its rate."""
        if not self._calls.take(vc_uid, asyncio.get_running_loop().time()):
            raise RequestRefusedError(
                429,
                RefusalReason.TENANT_FAST,
                f"this cluster makes more calls to the node than {self.labels.name} allows. Try"
                " again",
            )

    async def read_refusal(self, opened: OpenedStream) -> bytes:
        """Return the message of an answer that opens no stream, and close. Raises RefusedError."""
        text = await super().read_refusal(opened)
        kinds = opened.head.values(b"content-type")
        if not any(kind.startswith(b"application/json") for kind in kinds):
            return text  # the kubelet's own message passes
        try:
            found = orjson.loads(text)
            message = str(found["message"])
        except (orjson.JSONDecodeError, LookupError, TypeError) as error:
            raise self._map_error(InvalidResponseError("the error is not a Status")) from error
        if opened.head.status >= HTTPStatus.INTERNAL_SERVER_ERROR:
            # The message may contain addresses, and a request target may contain a command that
            # must not be logged.
            told = _QUERY_PATTERN.sub("?...", message)
            name = self.labels.name
            _log.warning("call failed", by=name, status=opened.head.status, error=told)
            raise RequestRefusedError(
                502, RefusalReason.API_ODD, f"{name} could not pass the call on to the node"
            )
        return message.encode()

    def _map_status(self, status: int) -> RequestRefusedError | None:
        if status == HTTPStatus.TOO_MANY_REQUESTS:
            _log.warning("call failed", by=self.labels.name, status=status)
            return RequestRefusedError(
                503, RefusalReason.API_BUSY, f"{self.labels.name} is busy. Try again"
            )
        return super()._map_status(status)


class ApiServerUpstream(SubresourceUpstream):
    """The super API server, which lists the pods of one node as well."""

    def __init__(self, origin: HttpsClient, node: str) -> None:
        super().__init__(origin, API_SERVER_LABELS)
        self._target = subresources.build_node_pods_target(node)
        self._lists = RateLimiter(LIST_BURST, LIST_INTERVAL_SECONDS)

    async def wait_for_list(self) -> None:
        """Wait until the pods may be listed again. Only one caller may wait."""
        await self._lists.wait()

    async def fetch_pods(self) -> bytes:
        """Return the list of this node's pods as etcd has it. Raises RefusedError."""
        self._lists.take()
        return await self.fetch(self._target)
