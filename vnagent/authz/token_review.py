"""Authorization of readers of the agent's metrics by TokenReview and SubjectAccessReview.

The module owns both requests, the time for which an answer is valid, and the rate of new ones. It
must not know connections. Hazard: a token is a credential, so it must go to the super API server
only, and only its digest may be kept in memory. Otherwise a breach of the agent exposes tokens.
Hazard: unknown tokens must be rate-limited, because each makes the API server work. Tokens that
were valid before are not limited.
"""

import asyncio
import hashlib
import re
from collections import OrderedDict
from enum import Enum
from typing import Any

import orjson
import structlog

from vnagent.client.https_client import HttpsClient
from vnagent.limits.token_bucket import TokenBucket
from vnagent.protocol.http_heads import InvalidResponseError
from vnagent.stream.tls_contexts import InvalidTrustError

METRICS_PATH = "/metrics"
"""The nonResourceURL that a role must allow, with the verb `get`."""
ALLOWED_CACHE_SECONDS = 60.0
"""Time in seconds for which a valid token is accepted without another review."""
REFUSED_CACHE_SECONDS = 10.0
MAX_CACHED_TOKENS = 256
REVIEW_BURST = 10
REVIEW_INTERVAL_SECONDS = 0.5
REVIEW_SECONDS = 5.0

_TOKEN_PATTERN = re.compile(rb"[A-Za-z0-9._~+/-]{1,16384}=*")
_REVIEWS_PATH = "/apis/authentication.k8s.io/v1/tokenreviews"
_ACCESS_REVIEWS_PATH = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
_log = structlog.get_logger(__name__)


class ReviewResult(Enum):
    """Result of a review. The value is its HTTP status."""

    ALLOWED = 200
    UNKNOWN = 401
    FORBIDDEN = 403
    BUSY = 429
    UNDECIDED = 503


class TokenReviewError(Exception):
    """The API server returned no review. The message has the reason."""


class TokenReviewer:
    """Token reviewer with a cache."""

    def __init__(self, api: HttpsClient) -> None:
        self._api = api
        self._cached_results: OrderedDict[bytes, tuple[ReviewResult, float]] = OrderedDict()
        self._rate_limit = TokenBucket(REVIEW_BURST, REVIEW_INTERVAL_SECONDS)
        self._lock = asyncio.Lock()

    async def review(self, token: bytes) -> ReviewResult:
        """Return whether the holder of a token may read the metrics."""
        if _TOKEN_PATTERN.fullmatch(token) is None:
            return ReviewResult.UNKNOWN
        digest = hashlib.sha256(token).digest()
        if (known := self._get_cached(digest)) is not None:
            return known
        async with self._lock:
            if (known := self._get_cached(digest)) is not None:
                return known
            now = asyncio.get_running_loop().time()
            was_good = self._cached_results.get(digest, (None, 0.0))[0] is ReviewResult.ALLOWED
            if not was_good:
                if self._rate_limit.get_wait(now):
                    return ReviewResult.BUSY
                self._rate_limit.take(now)
            try:
                async with asyncio.timeout(REVIEW_SECONDS):
                    verdict = await self._review_live(token.decode("ascii"))
            except (OSError, InvalidTrustError, InvalidResponseError, TokenReviewError) as error:
                _log.warning("reader of metrics not reviewed", error=str(error) or "too slow")
                return ReviewResult.UNDECIDED
            self._cache_result(digest, verdict)
        return verdict

    async def _review_live(self, token: str) -> ReviewResult:
        review = await self._post(_REVIEWS_PATH, "TokenReview", {"token": token})
        user = review.get("user")
        if review.get("authenticated") is not True or not isinstance(user, dict):
            return ReviewResult.UNKNOWN
        asked = {key: user[key] for key in ("uid", "groups", "extra") if key in user}
        attributes = {"path": METRICS_PATH, "verb": "get"}
        spec = {**asked, "user": user.get("username", ""), "nonResourceAttributes": attributes}
        review = await self._post(_ACCESS_REVIEWS_PATH, "SubjectAccessReview", spec)
        is_allowed = review.get("allowed") is True and not review.get("denied")
        return ReviewResult.ALLOWED if is_allowed else ReviewResult.FORBIDDEN

    async def _post(self, path: str, kind: str, spec: dict[str, Any]) -> dict[str, Any]:
        version = path.removeprefix("/apis/").rpartition("/")[0]
        wanted = {"apiVersion": version, "kind": kind, "spec": spec}
        answer = await self._api.request("POST", path, orjson.dumps(wanted))
        if answer.status != 201:
            raise TokenReviewError(f"the API server answered a {kind} with {answer.status}")
        try:
            status = orjson.loads(answer.body)["status"]
        except (orjson.JSONDecodeError, LookupError, TypeError) as error:
            raise TokenReviewError(f"the API server returned no {kind}") from error
        if not isinstance(status, dict):
            raise TokenReviewError(f"the API server returned no {kind}")
        return status

    def _get_cached(self, digest: bytes) -> ReviewResult | None:
        verdict, until = self._cached_results.get(digest, (None, 0.0))
        return verdict if asyncio.get_running_loop().time() < until else None

    def _cache_result(self, digest: bytes, verdict: ReviewResult) -> None:
        seconds = (
            ALLOWED_CACHE_SECONDS if verdict is ReviewResult.ALLOWED else REFUSED_CACHE_SECONDS
        )
        self._cached_results[digest] = verdict, asyncio.get_running_loop().time() + seconds
        self._cached_results.move_to_end(digest)
        if len(self._cached_results) > MAX_CACHED_TOKENS:
            self._cached_results.popitem(last=False)
