"""Answers instead of an object: status codes and reasons as API servers send them.

Owns the words that clients read: code, reason and causes. Messages are for people and similar.
"""

from collections.abc import Sequence
from typing import Any

import orjson

Object = dict[str, Any]


class StatusError(Exception):
    """A request that is not executed."""

    def __init__(
        self,
        code: int,
        reason: str,
        message: str,
        causes: Sequence[Object] = (),
        retry_after: int = 0,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.causes = tuple(causes)
        self.retry_after = retry_after

    def body(self) -> Object:
        """Return its Status."""
        details: Object = {}
        if self.causes:
            details["causes"] = list(self.causes)
        if self.retry_after:
            details["retryAfterSeconds"] = self.retry_after
        return {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": str(self),
            **({"reason": self.reason} if self.reason else {}),
            **({"details": details} if details else {}),
            "code": self.code,
        }

    def encoded(self) -> bytes:
        """Return it as JSON."""
        return orjson.dumps(self.body())


def not_found(plural: str, name: str) -> StatusError:
    """There is no such object."""
    return StatusError(404, "NotFound", f'{plural} "{name}" not found')


def already_exists(plural: str, name: str) -> StatusError:
    """The name is taken."""
    return StatusError(409, "AlreadyExists", f'{plural} "{name}" already exists')


def modified(plural: str, name: str) -> StatusError:
    """The resourceVersion is an old one."""
    message = (
        f'Operation cannot be fulfilled on {plural} "{name}": the object has been modified;'
        " please apply your changes to the latest version and try again"
    )
    return StatusError(409, "Conflict", message)


def precondition(plural: str, name: str, field: str, told: str, there: str) -> StatusError:
    """A precondition does not hold."""
    message = (
        f'Operation cannot be fulfilled on {plural} "{name}": Precondition failed: {field} in'
        f" precondition: {told}, {field} in object meta: {there}"
    )
    return StatusError(409, "Conflict", message)


def invalid(plural: str, name: str, field: str, why: str) -> StatusError:
    """The object is not valid."""
    cause = {"reason": "FieldValueInvalid", "message": why, "field": field}
    return StatusError(422, "Invalid", f'{plural} "{name}" is invalid: {field}: {why}', [cause])


def terminating(plural: str, name: str, namespace: str) -> StatusError:
    """The namespace is on its way out."""
    why = f"namespace {namespace} is being terminated"
    cause = {"reason": "NamespaceTerminating", "message": why, "field": "metadata.namespace"}
    message = (
        f'{plural} "{name}" is forbidden: unable to create new content in namespace {namespace}'
        " because it is being terminated"
    )
    return StatusError(403, "Forbidden", message, [cause])


def forbidden(plural: str, name: str, why: str) -> StatusError:
    """Refusal by an admission plugin."""
    return StatusError(403, "Forbidden", f'{plural} "{name}" is forbidden: {why}')


def bad(message: str) -> StatusError:
    """The request makes no sense."""
    return StatusError(400, "BadRequest", message)


def expired(message: str) -> StatusError:
    """The requested revision is compacted."""
    return StatusError(410, "Expired", message)


def from_the_future(told: int, now: int) -> StatusError:
    """The server has not come that far yet."""
    message = f"Too large resource version: {told}, current: {now}"
    cause = {"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}
    return StatusError(504, "Timeout", message, [cause], retry_after=1)
