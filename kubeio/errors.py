"""The tree of errors that talking to an API server can raise, and how an answer becomes one.

Owns the mapping from a status code and a `Status` body to a class. Knows nothing of transports or
retries. Hazards: 409 means two different things; only the `reason` tells a name that exists from a
resourceVersion that is old. And a patch whose UID is another object's is answered with 422, as if
what it says were wrong.
"""

# ruff: noqa: N818 - the classes carry the words of the API's own reasons

import math
from collections.abc import Mapping, Sequence
from typing import Any

import orjson

_SHOWN_BODY = 200  # characters of an answer that is no Status, enough to recognise a proxy's page


class KubeError(Exception):
    """Whatever went wrong between us and an API server; the message is for people."""


class CredentialsProblem(KubeError):
    """A kubeconfig or a mounted credential cannot be used; the message says why and what to do."""


class Fenced(KubeError):
    """Nothing may be written: the Lease was not renewed in time, and another may have it."""


class Terminal(KubeError):
    """Raised by a reconcile: trying again changes nothing until somebody changes the object."""


class Unavailable(KubeError):
    """The server could not be reached, broke off, or answered that it cannot serve now."""

    def __init__(self, message: str, *, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class NotSent(Unavailable):
    """No connection came about: the server has certainly not seen the request."""


class Untrusted(Unavailable):
    """TLS could not be verified: another authority, another name, or an expired certificate."""


class Timeout(Unavailable):
    """No answer within the deadline; whether the request took effect is unknown."""


class ApiError(KubeError):
    """The server answered and refused."""

    def __init__(
        self,
        message: str,
        *,
        status: int = 0,
        reason: str = "",
        details: Mapping[str, Any] | None = None,
        retry_after: float | None = None,
        said: str = "",
    ) -> None:
        super().__init__(message)
        self.said = said or message
        """The server's own words, without which request it was."""
        self.status = status
        self.reason = reason
        self.details: Mapping[str, Any] = details or {}
        self.retry_after = retry_after

    @property
    def causes(self) -> Sequence[Mapping[str, Any]]:
        """`details.causes` of the Status: field, reason and message of each."""
        return self.details.get("causes") or ()

    def has_cause(self, reason: str) -> bool:
        """Tell whether the server named this cause, for example `NamespaceTerminating`."""
        return any(cause.get("reason") == reason for cause in self.causes)


class BadRequest(ApiError):
    """400: the request itself makes no sense to the server."""


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

    Also a 422 to a patch that names the UID of an object which another one has followed.
    """


class AlreadyExists(ApiError):
    """409: the name is taken."""


class Gone(ApiError):
    """410: the resourceVersion or the continue token is too old; list anew."""


class TooLarge(ApiError):
    """413: the object is larger than the server takes."""


class UnsupportedMediaType(ApiError):
    """415: the kind does not know this form of patch."""


class Invalid(ApiError):
    """422: the object breaks its schema or validation; `causes` names the fields."""


class TooManyRequests(ApiError):
    """429: wait `retry_after` seconds; without it a rule such as a disruption budget refused."""


class ServerProblem(ApiError, Unavailable):
    """5xx: the server, its store, or a webhook it depends on failed."""


class ServerTimeout(ServerProblem, Timeout):
    """504: the server gave up waiting; whether the request took effect is unknown."""


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


_MOST_SAID = 4096
"""Characters of a server's sentence that are kept: it goes into logs and conditions."""


def from_status(code: int, status: Mapping[str, Any], *, where: str, told: str = "") -> ApiError:
    """Return the error for a `Status` object; `where` says which request, `told` is Retry-After.

    A server may put anything into its fields: what is not of their type counts as not there.
    """
    said_code, reason = status.get("code"), _text(status.get("reason"))
    code = code or (said_code if isinstance(said_code, int) else 0)
    details = status.get("details")
    details = details if isinstance(details, dict) else {}
    kind = _BY_STATUS.get(code, ServerProblem if code >= 500 else ApiError)
    if code == 409 and reason == "AlreadyExists":
        kind = AlreadyExists
    elif kind is Invalid and _is_about_another(details):
        kind = Conflict
    message = _text(status.get("message")) or "no message"
    return kind(
        f"{where}: {message} ({code} {reason or 'no reason'})",
        status=code,
        reason=reason,
        details=details,
        retry_after=_seconds(told, details),
        said=message,
    )


def _text(value: object) -> str:
    return value[:_MOST_SAID] if isinstance(value, str) else ""


def _is_about_another(details: Mapping[str, Any]) -> bool:
    """Tell whether a write was refused for its UID: the name is another object's by now."""
    causes = details.get("causes")
    return isinstance(causes, list) and any(
        isinstance(cause, dict) and cause.get("field") == "metadata.uid" for cause in causes
    )


def from_answer(code: int, body: bytes, *, where: str, told: str = "") -> ApiError:
    """Return the error for an answer whose body may be a Status or anything else."""
    try:
        parsed = orjson.loads(body)
    except orjson.JSONDecodeError:
        parsed = None
    if not isinstance(parsed, dict) or parsed.get("kind") != "Status":
        text = " ".join(body.decode(errors="replace").split())[:_SHOWN_BODY]
        parsed = {"message": text or "the answer is empty"}
    return from_status(code, parsed, where=where, told=told)


def _seconds(told: str, details: Mapping[str, Any]) -> float | None:
    if told.isascii() and told.isdigit():
        return float(told)
    seconds = details.get("retryAfterSeconds")
    # A server may say anything; what is no number would be in everybody's queue.
    if not isinstance(seconds, int | float) or isinstance(seconds, bool):
        return None
    return float(seconds) if 0 < seconds < math.inf else None
