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

from vnagent.client.https_client import Origin
from vnagent.limits.token_bucket import Bucket
from vnagent.protocol.http_heads import ResponseProblemError
from vnagent.stream.tls_contexts import TrustProblemError

PATH = "/metrics"
"""The nonResourceURL that a role must allow, with the verb `get`."""
GOOD_SECONDS = 60.0
"""Time in seconds for which a valid token is accepted without another review."""
BAD_SECONDS = 10.0
REMEMBERED = 256
NEW_AT_ONCE = 10
NEW_SECONDS = 0.5
ANSWER_SECONDS = 5.0

_TOKEN = re.compile(rb"[A-Za-z0-9._~+/-]{1,16384}=*")
_TOKENS = "/apis/authentication.k8s.io/v1/tokenreviews"
_RIGHTS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
_log = structlog.get_logger(__name__)


class Verdict(Enum):
    """Result of a review. The value is its HTTP status."""

    ALLOWED = 200
    UNKNOWN = 401
    FORBIDDEN = 403
    BUSY = 429
    UNDECIDED = 503


class ReviewProblemError(Exception):
    """The API server returned no review. The message has the reason."""


class Reviews:
    """Token reviewer with a cache."""

    def __init__(self, api: Origin) -> None:
        self._api = api
        self._known: OrderedDict[bytes, tuple[Verdict, float]] = OrderedDict()
        self._new = Bucket(NEW_AT_ONCE, NEW_SECONDS)
        self._one_at_a_time = asyncio.Lock()

    async def of(self, token: bytes) -> Verdict:
        """Return whether the holder of a token may read the metrics."""
        if _TOKEN.fullmatch(token) is None:
            return Verdict.UNKNOWN
        digest = hashlib.sha256(token).digest()
        if (known := self._fresh(digest)) is not None:
            return known
        async with self._one_at_a_time:
            if (known := self._fresh(digest)) is not None:
                return known
            now = asyncio.get_running_loop().time()
            was_good = self._known.get(digest, (None, 0.0))[0] is Verdict.ALLOWED
            if not was_good:
                if self._new.pause(now):
                    return Verdict.BUSY
                self._new.take(now)
            try:
                async with asyncio.timeout(ANSWER_SECONDS):
                    verdict = await self._ask(token.decode("ascii"))
            except (OSError, TrustProblemError, ResponseProblemError, ReviewProblemError) as error:
                _log.warning("reader of metrics not reviewed", error=str(error) or "too slow")
                return Verdict.UNDECIDED
            self._remember(digest, verdict)
        return verdict

    async def _ask(self, token: str) -> Verdict:
        review = await self._post(_TOKENS, "TokenReview", {"token": token})
        user = review.get("user")
        if review.get("authenticated") is not True or not isinstance(user, dict):
            return Verdict.UNKNOWN
        asked = {key: user[key] for key in ("uid", "groups", "extra") if key in user}
        attributes = {"path": PATH, "verb": "get"}
        spec = {**asked, "user": user.get("username", ""), "nonResourceAttributes": attributes}
        review = await self._post(_RIGHTS, "SubjectAccessReview", spec)
        is_allowed = review.get("allowed") is True and not review.get("denied")
        return Verdict.ALLOWED if is_allowed else Verdict.FORBIDDEN

    async def _post(self, path: str, kind: str, spec: dict[str, Any]) -> dict[str, Any]:
        version = path.removeprefix("/apis/").rpartition("/")[0]
        wanted = {"apiVersion": version, "kind": kind, "spec": spec}
        answer = await self._api.ask("POST", path, orjson.dumps(wanted))
        if answer.status != 201:
            raise ReviewProblemError(f"the API server answered a {kind} with {answer.status}")
        try:
            status = orjson.loads(answer.body)["status"]
        except (orjson.JSONDecodeError, LookupError, TypeError) as error:
            raise ReviewProblemError(f"the API server gave no {kind}") from error
        if not isinstance(status, dict):
            raise ReviewProblemError(f"the API server gave no {kind}")
        return status

    def _fresh(self, digest: bytes) -> Verdict | None:
        verdict, until = self._known.get(digest, (None, 0.0))
        return verdict if asyncio.get_running_loop().time() < until else None

    def _remember(self, digest: bytes, verdict: Verdict) -> None:
        seconds = GOOD_SECONDS if verdict is Verdict.ALLOWED else BAD_SECONDS
        self._known[digest] = verdict, asyncio.get_running_loop().time() + seconds
        self._known.move_to_end(digest)
        if len(self._known) > REMEMBERED:
            self._known.popitem(last=False)
