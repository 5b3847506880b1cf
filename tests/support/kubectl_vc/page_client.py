"""A browser without JavaScript for the pages of `kubectl vc ui`, and a server of them."""

from __future__ import annotations

import html
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import aiohttp

from kubectl_vc.client.config_flags import ConfigFlags
from kubectl_vc.ui.connection_renewal import RenewedConnection
from kubectl_vc.ui.request_guard import AccessSecrets
from kubectl_vc.ui.server import serve_pages
from kubectl_vc.ui.urls import Urls
from kubectl_vc.ui.verb import listen


@dataclass(frozen=True)
class FetchedPage:
    """One answer."""

    status: int
    text: str
    headers: dict[str, str]

    def table(self, name: str) -> list[list[str]]:
        """Return the text of each cell of a table, by rows without the head."""
        found = re.search(rf'<table id="{name}">.*?</table>', self.text, re.DOTALL)
        assert found is not None, f"no table {name}: {self.text}"
        body = found[0].partition("<tbody>")[2]
        return [
            [_text(cell) for cell in re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row, re.DOTALL)]
            for row in re.findall(r"<tr>(.*?)</tr>", body, re.DOTALL)
        ]

    def link(self, name: str) -> str:
        """Return the target of the link with this id."""
        found = re.search(rf'<a id="{re.escape(name)}" href="([^"]*)"', self.text)
        assert found is not None, f"no link {name}: {self.text}"
        return html.unescape(found[1])


def _text(cell: str) -> str:
    return html.unescape(re.sub(r"<[^>]*>", " ", cell)).strip()


@dataclass
class PageClient:
    """The session of one user."""

    secret: AccessSecrets
    session: aiohttp.ClientSession

    @property
    def urls(self) -> Urls:
        """Return the builder of URLs of the server."""
        return Urls(self.secret.prefix)

    @property
    def origin(self) -> str:
        """Return the URL without a path."""
        return f"http://127.0.0.1:{self.secret.port}"

    async def fetch(
        self, path: str, *, method: str = "GET", headers: dict[str, str] | None = None
    ) -> FetchedPage:
        """Fetch one page."""
        async with self.session.request(method, self.origin + path, headers=headers) as response:
            return FetchedPage(response.status, await response.text(), dict(response.headers))

    async def log_in(self) -> FetchedPage:
        """Open the printed URL."""
        return await self.fetch(self.secret.url.removeprefix(self.origin))


@asynccontextmanager
async def serving(access: ConfigFlags, *, logged_in: bool = True) -> AsyncIterator[PageClient]:
    """Serve the pages and open them."""
    jar = aiohttp.CookieJar(unsafe=True)  # cookies of an IP address, as browsers keep them
    with listen(0) as listening:
        async with (
            RenewedConnection(access) as renewed,
            serve_pages(renewed, listening) as secret,
            aiohttp.ClientSession(cookie_jar=jar) as session,
        ):
            client = PageClient(secret, session)
            if logged_in:
                assert (await client.log_in()).status == 200
            yield client
