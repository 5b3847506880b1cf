"""Lists of metadata from a tenant, page by page, with a limit.

Hazard: the tenant controls the number of objects, and can control the answers. A server that pages
without end must not hold a worker, or fill the memory.
"""

from collections.abc import AsyncIterator, Mapping
from typing import Any

from kubeio import errors
from kubeio.api.client import Client
from tenancy.resources import Resource


class TooManyPagesError(errors.ResponseTooLarge):
    """The server has more objects than the caller reads."""


async def iterate_metadata(
    client: Client,
    resource: Resource,
    *,
    page_size: int,
    max_pages: int,
    label_selector: str = "",
    field_selector: str = "",
) -> AsyncIterator[Mapping[str, Any]]:
    """Yield the metadata of each object. Raises TooManyPagesError after the last page allowed."""
    token = ""
    for _ in range(max_pages):
        page = await client.list(
            resource,
            label_selector=label_selector,
            field_selector=field_selector,
            limit=page_size,
            continue_token=token,
            metadata_only=True,
        )
        for each in page.get("items") or ():
            yield each["metadata"]
        token = (page.get("metadata") or {}).get("continue") or ""
        if not token:
            return
    raise TooManyPagesError(
        f"tenant: there are more than {page_size * max_pages} {resource.plural}. Delete some."
    )
