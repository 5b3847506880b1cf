"""Readers of the metrics: users that the super API server accepts. Its answer is cached."""

import asyncio
import secrets

import pytest

from tests.support.vnagent.token_review_api import (
    GOOD,
    NOBODY,
    OTHER,
    READER,
    ReviewApi,
    asking,
)
from vnagent.authz import token_review
from vnagent.authz.token_review import ReviewResult, TokenReviewer


@pytest.mark.parametrize(
    ("token", "verdict"),
    [(GOOD, ReviewResult.ALLOWED), (OTHER, ReviewResult.FORBIDDEN), (NOBODY, ReviewResult.UNKNOWN)],
)
async def test_both_questions_decide(tmp_path, token, verdict):
    """SEC-13: the user of a token and its rights are read with our own credential."""
    api = ReviewApi()
    async with asking(tmp_path, api) as origin:
        assert await TokenReviewer(origin).review(token.encode()) is verdict
    assert api.asked[0]["spec"] == {"token": token}
    assert all(b"Authorization: Bearer agents-own-token" in head for head in api.heads)
    assert (
        api.kinds
        == ["TokenReview", "SubjectAccessReview"][: 1 + (verdict is not ReviewResult.UNKNOWN)]
    )
    if verdict is ReviewResult.ALLOWED:
        spec = {key: value for key, value in READER.items() if key != "username"}
        assert api.asked[1]["spec"] == {
            **spec,
            "user": READER["username"],
            "nonResourceAttributes": {"path": "/metrics", "verb": "get"},
        }


async def test_an_answer_counts_for_a_while(tmp_path, monkeypatch):
    """Whatever it was. Those who come together ask once."""
    api = ReviewApi()
    async with asking(tmp_path, api) as origin:
        found = TokenReviewer(origin)
        for token in (GOOD, NOBODY):
            verdicts = await asyncio.gather(*(found.review(token.encode()) for _ in range(5)))
            assert len(set(verdicts)) == 1
        assert api.kinds == ["TokenReview", "SubjectAccessReview", "TokenReview"]
        monkeypatch.setattr(token_review, "ALLOWED_CACHE_SECONDS", -1.0)
        again = TokenReviewer(origin)
        await again.review(GOOD.encode())
        api.users.clear()
        assert await again.review(GOOD.encode()) is ReviewResult.UNKNOWN  # it was taken back


@pytest.mark.parametrize("token", [b"", b"two words", b"a\nb", b"\xff", b"x" * 20_000, b"a;b"])
async def test_what_is_no_token_is_not_reviewed(tmp_path, token):
    """Neither the API server's nor a line in a header."""
    api = ReviewApi()
    async with asking(tmp_path, api) as origin:
        assert await TokenReviewer(origin).review(token) is ReviewResult.UNKNOWN
    assert api.asked == []


@pytest.mark.parametrize(
    "odd",
    [
        b"HTTP/1.1 201 Created\r\nContent-Length: 2\r\n\r\n{}",
        b"HTTP/1.1 201 Created\r\nContent-Length: 1\r\n\r\n{",
        b"HTTP/1.1 201 Created\r\nContent-Length: 15\r\n\r\n" + b'{"status":true}',
        b'HTTP/1.1 403 Forbidden\r\nContent-Length: 34\r\n\r\n{"status":{"authenticated":true}}\n',
        b"HTTP/1.1 500 Oh\r\nContent-Length: 0\r\n\r\n",
        b"not HTTP\r\n\r\n",
    ],
)
async def test_an_api_server_that_does_not_report_admits_no_client(tmp_path, odd, capsys):
    """The next request asks again. No token is logged."""
    api = ReviewApi(odd=odd)
    async with asking(tmp_path, api) as origin:
        found = TokenReviewer(origin)
        assert await found.review(GOOD.encode()) is ReviewResult.UNDECIDED
        api.odd = b""
        assert await found.review(GOOD.encode()) is ReviewResult.ALLOWED
    assert GOOD not in capsys.readouterr().out


@pytest.mark.parametrize(
    "status",
    [
        {"authenticated": False, "user": READER},
        {"authenticated": "true", "user": READER},
        {"authenticated": True},
        {"user": READER},
    ],
)
async def test_half_a_yes_is_a_no(tmp_path, monkeypatch, status):
    """Default closed."""
    api = ReviewApi()
    monkeypatch.setattr(api, "_status", lambda *_: status)
    async with asking(tmp_path, api) as origin:
        assert await TokenReviewer(origin).review(GOOD.encode()) is ReviewResult.UNKNOWN


@pytest.mark.parametrize("right", [{}, {"allowed": "true"}, {"allowed": True, "denied": True}])
async def test_a_right_is_reported_in_full(tmp_path, monkeypatch, right):
    """Denied is denied, whatever else is said."""
    api = ReviewApi()
    real = api._status
    monkeypatch.setattr(
        api, "_status", lambda kind, spec: right if "Sub" in kind else real(kind, spec)
    )
    async with asking(tmp_path, api) as origin:
        assert await TokenReviewer(origin).review(GOOD.encode()) is ReviewResult.FORBIDDEN


async def test_a_flood_of_new_tokens_is_paced(tmp_path, monkeypatch):
    """SEC-13: the API server does not feel it, and the one that was let in still is."""
    monkeypatch.setattr(token_review, "REVIEW_BURST", 4)
    monkeypatch.setattr(token_review, "REVIEW_INTERVAL_SECONDS", 600.0)
    monkeypatch.setattr(token_review, "ALLOWED_CACHE_SECONDS", -1.0)
    api = ReviewApi()
    async with asking(tmp_path, api) as origin:
        found = TokenReviewer(origin)
        assert await found.review(GOOD.encode()) is ReviewResult.ALLOWED
        verdicts = [await found.review(secrets.token_hex(8).encode()) for _ in range(10)]
        assert verdicts == [ReviewResult.UNKNOWN] * 3 + [ReviewResult.BUSY] * 7
        assert await found.review(GOOD.encode()) is ReviewResult.ALLOWED
        assert api.kinds.count("TokenReview") == 5


async def test_what_is_remembered_is_bounded_and_no_token(tmp_path, monkeypatch):
    """SEC-13: digests of the last few."""
    monkeypatch.setattr(token_review, "REVIEW_INTERVAL_SECONDS", 0.0)
    monkeypatch.setattr(token_review, "MAX_CACHED_TOKENS", 3)
    async with asking(tmp_path, ReviewApi()) as origin:
        found = TokenReviewer(origin)
        for token in (*(f"token-{number}" for number in range(10)), GOOD):
            await found.review(token.encode())
        assert len(found._cached_results) == 3
        assert GOOD not in str(vars(found))
