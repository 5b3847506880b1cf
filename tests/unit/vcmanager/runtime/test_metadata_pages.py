"""A list from a tenant ends, whatever its server answers."""

from typing import Any, cast

import pytest

from kubeio.api.client import Client
from tenancy.resources import NAMESPACES
from vcmanager.runtime import metadata_pages
from vcmanager.runtime.metadata_pages import TooManyPagesError


class PagingServer:
    """Answers with pages of one object. `pages` None: without end."""

    def __init__(self, pages: int | None) -> None:
        self.pages = pages
        self.tokens: list[str] = []

    async def list(self, _: Any, *, continue_token: str, **__: Any) -> dict[str, Any]:
        """Return one page."""
        self.tokens.append(continue_token)
        number = len(self.tokens)
        more = {} if number == self.pages else {"continue": str(number)}
        return {"items": [{"metadata": {"name": f"n{number}"}}], "metadata": more}


async def read(server: PagingServer) -> list[str]:
    listed = metadata_pages.iterate_metadata(
        cast("Client", server), NAMESPACES, page_size=1, max_pages=3
    )
    return [metadata["name"] async for metadata in listed]


async def test_all_pages_are_read():
    server = PagingServer(3)
    assert await read(server) == ["n1", "n2", "n3"]
    assert server.tokens == ["", "1", "2"]


async def test_a_server_without_end_is_left():
    server = PagingServer(None)
    with pytest.raises(TooManyPagesError, match="more than 3 namespaces"):
        await read(server)
    assert len(server.tokens) == 3
