"""The server over a real socket: the guard, the cookie, the headers, and errors as pages."""

import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import pytest

from kubectl_vc.client.connection import SuperConnection
from kubectl_vc.ui.request_guard import SECURITY_HEADERS
from kubectl_vc.ui.server import STATIC_FILES, describe_page_error, serve_pages
from kubectl_vc.ui.tenant_clients import TenantApiClients
from kubectl_vc.ui.verb import listen
from kubeio import errors
from tests.support.kubectl_vc.page_client import PageClient
from tests.support.kubeio.described_requests import REQUEST

EMPTY: dict[str, Any] = {"items": [], "metadata": {}}


class FakeConnection:
    """A super cluster that answers each request with the next answer. The last one stays."""

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)
        self.reconnects = 0
        self.tenants = TenantApiClients()
        self.connection = SuperConnection(self, "d", is_explicit=True)  # type: ignore[arg-type]

    async def reconnect(self) -> None:
        self.reconnects += 1

    async def list(self, *_: Any, **__: Any) -> Any:
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def get(self, *words: Any, **options: Any) -> Any:
        return await self.list(*words, **options)


@asynccontextmanager
async def pages(*answers: Any, logged_in: bool = True) -> AsyncIterator[PageClient]:
    """Serve pages of a super cluster with these answers."""
    jar = aiohttp.CookieJar(unsafe=True)
    renewed: Any = FakeConnection(*(answers or (EMPTY,)))
    with listen(0) as listening:
        async with (
            serve_pages(renewed, listening) as secret,
            aiohttp.ClientSession(cookie_jar=jar) as session,
        ):
            client = PageClient(secret, session)
            client.renewed = renewed  # type: ignore[attr-defined]
            if logged_in:
                assert (await client.log_in()).status == 200
            yield client


async def test_the_secret_becomes_a_cookie_of_the_path():
    """SEC-260."""
    async with pages(logged_in=False) as client:
        start = client.urls.build_tenants()
        assert (await client.fetch(start)).status == 403
        assert (await client.fetch(f"{start}?key=wrong")).status == 403
        welcome = await client.log_in()
        cookie = welcome.headers["Set-Cookie"]
        assert client.secret.cookie in cookie
        assert client.secret.key not in cookie + welcome.text
        for word in ("HttpOnly", "SameSite=Strict", f"Path={client.secret.prefix}"):
            assert word in cookie
        assert (await client.fetch(start)).status == 200


async def test_each_answer_has_the_headers():
    """SEC-260."""
    async with pages() as client:
        start = client.urls.build_tenants()
        refused = await client.fetch(start, headers={"Host": "evil.example"})
        found = [
            await client.fetch(start),
            await client.fetch(client.urls.build_static("ui.css")),
            await client.fetch("/nope"),
            await client.fetch(start, method="POST"),
            refused,
        ]
        assert [each.status for each in found] == [200, 200, 403, 405, 421]
        for page in found:
            assert {key: page.headers.get(key) for key in SECURITY_HEADERS} == SECURITY_HEADERS
            assert "Access-Control-Allow-Origin" not in page.headers


async def test_without_the_cookie_there_is_not_even_a_file():
    async with pages(logged_in=False) as client:
        for name in STATIC_FILES:
            path = client.urls.build_static(name)
            assert (await client.fetch(path)).status == 403
            assert (await client.fetch(f"{path}?key={client.secret.key}")).status == 403


async def test_only_the_named_files_are_served():
    async with pages() as client:
        for name, kind in STATIC_FILES.items():
            found = await client.fetch(client.urls.build_static(name))
            assert (found.status, found.headers["Content-Type"].split(";")[0]) == (200, kind)
        for name in ("htmx.LICENSE", "../server.py", "..%2fserver.py", "%2e%2e/verb.py"):
            found = await client.fetch(f"{client.secret.prefix}static/{name}")
            assert found.status in (403, 404), name


@pytest.mark.parametrize(
    "path",
    [
        "t/A/web",
        "t/d/we b",
        "t/d/web/n/..%2f..",
        "t/d/web/n/shop/pods/A_b",
        "x",
        "t/d/web/n/a?kind=x",
    ],
)
async def test_names_that_no_object_has_are_not_found(path: str):
    async with pages() as client:
        assert (await client.fetch(client.secret.prefix + path)).status == 404


@pytest.mark.parametrize(
    ("problem", "status", "text"),
    [
        (errors.Unavailable("<b>down</b>"), 502, "The API server cannot be reached: &lt;b&gt;"),
        (errors.ServerError("etcd", request=REQUEST, status=500), 502, "failed: etcd"),
        (
            errors.Unauthorized("ended", request=REQUEST, status=401),
            502,
            "logged in to the server (ended)",
        ),
    ],
)
async def test_an_error_is_a_page_with_a_sentence(problem: Exception, status: int, text: str):
    async with pages(problem) as client:
        page = await client.fetch(client.urls.build_tenants())
        assert (page.status, text in page.text) == (status, True), page.text


async def test_a_credential_that_ended_is_renewed_once():
    async with pages(errors.Unauthorized("no", status=401), EMPTY) as client:
        assert (await client.fetch(client.urls.build_tenants())).status == 200
        assert client.renewed.reconnects == 1  # type: ignore[attr-defined]


async def test_a_right_that_is_missing_is_a_note():
    async with pages(errors.Forbidden("you may not", request=REQUEST, status=403)) as client:
        page = await client.fetch(client.urls.build_tenants())
        assert (page.status, "you may not" in page.text) == (200, True)


def test_a_refused_page_is_403():
    assert describe_page_error(errors.Forbidden("no", status=403)).status == 403


def test_the_socket_is_on_loopback_alone():
    with listen(0) as listening:
        assert listening.getsockname()[0] == "127.0.0.1"
        assert listening.family == socket.AF_INET
