"""Refused reads become sentences, and a list that changed starts again."""

from typing import Any

import pytest

from kubectl_vc.ui.page_reader import (
    PageReader,
    TenantReader,
    TenantUnavailableError,
    get_continue_token,
    get_items,
)
from kubeio import errors
from tenancy.resources import PODS, SERVICES
from tests.support.kubeio.described_requests import REQUEST


class FakeClient:
    """An API server that raises these errors in turn, and then answers."""

    def __init__(self, *problems: Exception) -> None:
        self.problems = list(problems)
        self.tokens: list[str] = []

    async def list(self, *_: Any, continue_token: str = "", **__: Any) -> Any:
        self.tokens.append(continue_token)
        if self.problems:
            raise self.problems.pop(0)
        return {"items": [{}], "metadata": {"continue": "next"}}

    async def get(self, *words: Any, **options: Any) -> Any:
        return await self.list(*words, **options)


def reader(*problems: Exception) -> tuple[PageReader, FakeClient]:
    client = FakeClient(*problems)
    return PageReader(client), client  # type: ignore[arg-type]


FORBIDDEN = errors.Forbidden("you may not", request=REQUEST, status=403)


async def test_a_refused_read_is_a_sentence_once():
    found, _ = reader(FORBIDDEN, FORBIDDEN)
    assert await found.get(PODS, "a", namespace="n") is None
    assert await found.list(PODS, namespace="n", limit=1) is None
    assert found.notes == ["The API server rejected the request: you may not."]
    assert not found.is_known(PODS, "n")
    assert found.is_known(PODS, "m")
    assert found.is_known(SERVICES, "n")


async def test_what_does_not_exist_is_none_without_a_sentence():
    missing = errors.NotFound("no", status=404)
    found, _ = reader(missing, missing)
    assert await found.get(PODS, "a") is None
    assert await found.list(PODS, limit=1) is None
    assert found.notes == []


async def test_an_old_token_starts_at_the_first_page():
    found, client = reader(errors.Gone("old", status=410))
    page = await found.list(PODS, limit=1, continue_token="old")
    assert client.tokens == ["old", ""]
    assert (get_items(page), get_continue_token(page)) == ([{}], "next")
    assert found.notes == ["The list changed meanwhile. This is its first page again."]


def test_no_list_has_no_items():
    assert (get_items(None), get_continue_token(None)) == ([], "")


@pytest.mark.parametrize(
    "problem",
    [
        errors.Unavailable("x", request=REQUEST),
        errors.Unauthorized("x", request=REQUEST, status=401),
    ],
)
async def test_the_failure_of_a_tenant_is_an_error_of_its_own(problem: Exception):
    tenant = TenantReader(FakeClient(problem, problem))  # type: ignore[arg-type]
    with pytest.raises(TenantUnavailableError, match=r"^https://super: x$"):
        await tenant.list(PODS, limit=1)
    with pytest.raises(TenantUnavailableError, match=r"^https://super: x$"):
        await tenant.get(PODS, "a")
