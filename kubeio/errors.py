"""Exceptions of Kubernetes API calls, and the mapping of responses to them.

Owns the mapping from a status code and a `Status` body to a class, and the parts of a message.
Knows nothing of transports or retries.

Hazard: the `reason` must decide what a 409 means. Otherwise a name that exists is confused with a
resourceVersion that is old.

Hazard: a patch with the UID of another object is answered with 422 and must become a Conflict.
Otherwise it would be reported as if the content of the patch were invalid.
"""

# ruff: noqa: N818 - the classes carry the words of the API's own reasons

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import orjson

_MAX_SHOWN_BODY = 200  # characters, enough to recognise a proxy's page


class RequestDescription(NamedTuple):
    """A request in messages, without its query, headers and body."""

    server: str
    """Name or URL of the API server."""
    method: str
    """HTTP method, or WATCH."""
    path: str

    def __str__(self) -> str:
        """Return the server, the method and the path."""
        return f"{self.server}: {self.method} {self.path}"


class KubeError(Exception):
    """An error between this process and an API server. The message is for people.

    Hazard: the parts of the message must be fields. Otherwise, callers parse the text.
    """

    request: RequestDescription | None = None
    """The request that failed. None if the error is not of one request."""

    @property
    def problem(self) -> str:
        """Return what happened, without the request."""
        return super().__str__()

    def __str__(self) -> str:
        """Return the message: the request and the problem."""
        return self.problem if self.request is None else f"{self.request}: {self.problem}"

    def __repr__(self) -> str:
        """Return the class and the whole message."""
        return f"{type(self).__name__}({str(self)!r})"


class CredentialsError(KubeError):
    """A kubeconfig or a mounted credential cannot be used.

    The message has the reason and the remedy.
    """


class Fenced(KubeError):
    """Writes are forbidden: the Lease was not renewed in time, and another process may hold it."""


class TerminalError(KubeError):
    """A reconcile failed, and a retry cannot succeed until the object changes."""


class Unavailable(KubeError):
    """The server could not be reached, ended the connection, or cannot serve now."""

    def __init__(
        self,
        problem: str,
        *,
        request: RequestDescription | None = None,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(problem)
        self.request = request
        self.retry_after = retry_after


class NotSent(Unavailable):
    """No connection was made. The server has certainly not received the request."""


class NotConnected(NotSent):
    """The server accepts no connection. The problem names its host and port."""


class Untrusted(Unavailable):
    """TLS could not be verified: another authority, another name, or an expired certificate."""


class Timeout(Unavailable):
    """No answer arrived within the deadline. The effect of the request is unknown."""


class ResponseTooLarge(Unavailable):
    """The server's answer, or one line of a watch, has more bytes than the client accepts."""


class ApiError(KubeError):
    """The server answered and refused. The problem is the server's message."""

    def __init__(
        self,
        problem: str,
        *,
        request: RequestDescription | None = None,
        status: int = 0,
        reason: str = "",
        details: Mapping[str, Any] | None = None,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(problem)
        self.request = request
        self.status = status
        self.reason = reason
        self.details: Mapping[str, Any] = details or {}
        self.retry_after = retry_after

    def __str__(self) -> str:
        """Return the message. An answer to a request has the status and the reason as well."""
        message = super().__str__()
        if self.request is None:
            return message
        return f"{message} ({self.status} {self.reason or 'no reason'})"

    @property
    def server_message(self) -> str:
        """Return the problem, which has the server's own words."""
        return self.problem

    @property
    def causes(self) -> Sequence[Mapping[str, Any]]:
        """Return `details.causes` of the Status: field, reason and message of each."""
        return self.details.get("causes") or ()

    def has_cause(self, reason: str) -> bool:
        """Return whether the server named this cause, for example `NamespaceTerminating`."""
        return any(cause.get("reason") == reason for cause in self.causes)


class BadRequest(ApiError):
    """400: the server does not understand the request."""


class Unauthorized(ApiError):
    """401: the credential was not accepted."""


class Forbidden(ApiError):
    """403: RBAC, admission, a quota, or a namespace that is terminating."""


class NotFound(ApiError):
    """404: no such object, or no such kind."""


class MethodNotAllowed(ApiError):
    """405: the kind does not offer this verb."""


class Conflict(ApiError):
    """409: the object changed meanwhile, or a precondition (UID, resourceVersion) failed.

    Also a 422 to a patch with a UID, if the object was replaced by another of the same name.
    """


class AlreadyExists(ApiError):
    """409: the name is taken."""


class Gone(ApiError):
    """410: the resourceVersion or the continue token is too old. List again."""


class TooLarge(ApiError):
    """413: the object is larger than the server accepts."""


class UnsupportedMediaType(ApiError):
    """415: the kind does not know this form of patch."""


class Invalid(ApiError):
    """422: the object breaks its schema or validation. `causes` names the fields."""


class TooManyRequests(ApiError):
    """429: wait `retry_after` seconds. Without it a rule such as a disruption budget refused."""


class ServerError(ApiError, Unavailable):
    """5xx: the server, its store, or a webhook it depends on failed."""


class ServerTimeout(ServerError, Timeout):
    """504: the server stopped waiting. The effect of the request is unknown."""


_BY_STATUS: Mapping[int, type[ApiError]] = {
    400: BadRequest,
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    405: MethodNotAllowed,
    409: Conflict,
    410: Gone,
    413: TooLarge,
    415: UnsupportedMediaType,
    422: Invalid,
    429: TooManyRequests,
    504: ServerTimeout,
}


_MAX_SERVER_MESSAGE = 4096
"""Characters of a server's message that are kept, because it is written to logs and conditions."""


def from_status(
    code: int, status: Mapping[str, Any], *, request: RequestDescription, retry_after: str = ""
) -> ApiError:
    """Return the error for a `Status` object.

    `retry_after` is the Retry-After header. A server may send any value in the fields of the
    Status. A value of a wrong type is ignored.
    """
    said_code, reason = status.get("code"), _truncate_message(status.get("reason"))
    code = code or (said_code if isinstance(said_code, int) else 0)
    details = status.get("details")
    details = details if isinstance(details, dict) else {}
    kind = _BY_STATUS.get(code, ServerError if code >= 500 else ApiError)
    if code == 409 and reason == "AlreadyExists":
        kind = AlreadyExists
    elif kind is Invalid and _is_uid_mismatch(details):
        kind = Conflict
    return kind(
        _truncate_message(status.get("message")) or "no message",
        request=request,
        status=code,
        reason=reason,
        details=details,
        retry_after=_parse_retry_after(retry_after, details),
    )


def _truncate_message(value: object) -> str:
    return value[:_MAX_SERVER_MESSAGE] if isinstance(value, str) else ""


def _is_uid_mismatch(details: Mapping[str, Any]) -> bool:
    """Return whether a write was refused because the name belongs to another UID by now."""
    causes = details.get("causes")
    return isinstance(causes, list) and any(
        isinstance(cause, dict) and cause.get("field") == "metadata.uid" for cause in causes
    )


def from_response(
    code: int, body: bytes, *, request: RequestDescription, retry_after: str = ""
) -> ApiError:
    """Return the error for an answer with a Status or any other body."""
    try:
        parsed = orjson.loads(body)
    except orjson.JSONDecodeError:
        parsed = None
    if not isinstance(parsed, dict) or parsed.get("kind") != "Status":
        text = " ".join(body.decode(errors="replace").split())[:_MAX_SHOWN_BODY]
        parsed = {"message": text or "the answer is empty"}
    return from_status(code, parsed, request=request, retry_after=retry_after)


def _parse_retry_after(told: str, details: Mapping[str, Any]) -> float | None:
    if told.isascii() and told.isdigit():
        return float(told)
    seconds = details.get("retryAfterSeconds")
    # A server may send any value. Infinity or NaN would get into the queue of all tenants.
    if not isinstance(seconds, int | float) or isinstance(seconds, bool):
        return None
    return float(seconds) if 0 < seconds < math.inf else None
