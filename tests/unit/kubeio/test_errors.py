"""Errors from answers of the server."""

from __future__ import annotations

import copy
import pickle

import orjson
import pytest

from kubeio import errors
from tests.support.kubeio.described_requests import REQUEST


def _status(code: int, reason: str, **details: object) -> bytes:
    body = {
        "kind": "Status",
        "code": code,
        "reason": reason,
        "message": "words",
        "details": details,
    }
    return orjson.dumps(body)


@pytest.mark.parametrize(
    ("code", "reason", "kind"),
    [
        (400, "BadRequest", errors.BadRequest),
        (401, "Unauthorized", errors.Unauthorized),
        (403, "Forbidden", errors.Forbidden),
        (404, "NotFound", errors.NotFound),
        (405, "MethodNotAllowed", errors.MethodNotAllowed),
        (409, "AlreadyExists", errors.AlreadyExists),
        (409, "Conflict", errors.Conflict),
        (410, "Expired", errors.Gone),
        (413, "RequestEntityTooLarge", errors.TooLarge),
        (415, "UnsupportedMediaType", errors.UnsupportedMediaType),
        (422, "Invalid", errors.Invalid),
        (429, "TooManyRequests", errors.TooManyRequests),
        (500, "InternalError", errors.ServerError),
        (503, "ServiceUnavailable", errors.ServerError),
        (504, "Timeout", errors.ServerTimeout),
    ],
)
def test_each_code_has_its_class(code, reason, kind):
    found = errors.from_response(code, _status(code, reason), request=REQUEST)
    assert type(found) is kind
    assert str(found) == f"https://super: POST /apis/x: words ({code} {reason})"


def test_5xx_are_transient_and_4xx_are_not():
    assert issubclass(errors.ServerError, errors.Unavailable)
    assert issubclass(errors.ServerTimeout, errors.Timeout)
    assert not issubclass(errors.Conflict, errors.Unavailable)


def test_a_name_that_exists_is_no_conflict():
    assert not issubclass(errors.AlreadyExists, errors.Conflict)


def test_a_patch_with_the_uid_of_an_earlier_object_is_a_conflict():
    """As API servers answer it. An apply or a PUT of the same is a 409."""
    causes = [
        {"reason": "FieldValueInvalid", "field": "metadata.uid", "message": "field is immutable"},
        {"reason": "FieldValueForbidden", "field": "spec", "message": "may not change"},
    ]
    found = errors.from_response(422, _status(422, "Invalid", causes=causes), request=REQUEST)
    assert isinstance(found, errors.Conflict)
    found = errors.from_response(422, _status(422, "Invalid", causes=causes[1:]), request=REQUEST)
    assert isinstance(found, errors.Invalid)


def test_the_header_wins_over_the_body():
    body = _status(429, "TooManyRequests", retryAfterSeconds=7)
    assert errors.from_response(429, body, request=REQUEST).retry_after == 7.0
    assert errors.from_response(429, body, request=REQUEST, retry_after="3").retry_after == 3.0


@pytest.mark.parametrize("seconds", ["nan", "7", float("inf"), -1, 0, True, None, [7], {}])
def test_a_wait_that_is_no_number_of_seconds_is_none(seconds):
    """It comes from a tenant's server and would be in the queue of all."""
    status = {"code": 500, "details": {"retryAfterSeconds": seconds}}
    assert errors.from_status(500, status, request=REQUEST).retry_after is None


@pytest.mark.parametrize(
    "details", [[], "odd", 7, {"causes": ["x"]}, {"causes": "metadata.uid"}, {"causes": {}}]
)
def test_details_of_any_shape_are_an_answer(details):
    found = errors.from_status(422, {"code": 422, "details": details}, request=REQUEST)
    assert type(found) is errors.Invalid


@pytest.mark.parametrize("told", ["", "soon", "-1", "Wed, 21 Oct 2026 07:28:00 GMT", "٣"])
def test_a_delay_that_is_no_number_of_seconds_is_none(told):
    assert errors.from_response(503, b"", request=REQUEST, retry_after=told).retry_after is None


def test_a_page_of_a_proxy_is_shown_short():
    found = errors.from_response(502, b"<html>\n" + b"x" * 9000, request=REQUEST)
    assert isinstance(found, errors.ServerError)
    assert str(found).startswith(f"{REQUEST}: <html> xxx")
    assert len(str(found)) < 300


@pytest.mark.parametrize("body", [b"", b"null", b"[1]", b"{}", b"\xff\xfe"])
def test_any_body_gives_an_error(body):
    assert errors.from_response(404, body, request=REQUEST).status == 404


def test_causes_can_be_asked_for():
    body = _status(403, "Forbidden", causes=[{"reason": "NamespaceTerminating"}])
    found = errors.from_response(403, body, request=REQUEST)
    assert found.has_cause("NamespaceTerminating")
    assert not found.has_cause("Other")


@pytest.mark.parametrize(
    "found",
    [
        errors.CredentialsError("why"),
        errors.Fenced("why"),
        errors.Unavailable("why", request=REQUEST, retry_after=1.0),
        errors.NotConnected("why", request=REQUEST),
        errors.ServerError("why", request=REQUEST, status=503, reason="X", details={"name": "n"}),
        errors.Conflict("why"),
    ],
    ids=lambda each: type(each).__name__,
)
def test_an_error_has_its_parts_as_fields_and_a_copy_has_them_too(found):
    assert found.problem == "why"
    for copied in (pickle.loads(pickle.dumps(found)), copy.copy(found)):  # noqa: S301 - its own
        assert (type(copied), vars(copied)) == (type(found), vars(found))
        assert (str(copied), repr(copied)) == (str(found), repr(found))
    assert found != copy.copy(found)


def test_a_message_is_composed_of_the_parts():
    found = errors.Timeout("no answer", request=REQUEST)
    assert str(found) == "https://super: POST /apis/x: no answer"
    assert repr(found) == "Timeout('https://super: POST /apis/x: no answer')"
    assert (found.request, found.problem) == (REQUEST, "no answer")
    assert str(errors.Timeout("no answer")) == "no answer"
    assert str(errors.Gone("old", request=REQUEST)).endswith(": old (0 no reason)")
    assert str(errors.Gone("old", status=410)) == "old"
