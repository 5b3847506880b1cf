"""Reads for one page with the user's rights. A refused read becomes a sentence on the page."""

from collections.abc import Awaitable

from kubectl_vc.output.cli_errors import describe_error, describe_server_problem
from kubeio import Object, errors
from kubeio.api.client import Client
from tenancy.resources import Resource


class TenantUnavailableError(Exception):
    """The tenant's API does not answer, or does not accept its kubeconfig."""


class PageReader:
    """Reader of one API server that collects sentences about what it may not read."""

    def __init__(self, client: Client) -> None:
        """Create it without a request."""
        self._client = client
        self.notes: list[str] = []
        self._refused: set[tuple[str, str]] = set()

    async def get(
        self, resource: Resource, name: str, *, namespace: str = "", metadata_only: bool = False
    ) -> Object | None:
        """Return an object. None if it does not exist or must not be read."""
        try:
            return await self._request(
                self._client.get(resource, name, namespace=namespace, metadata_only=metadata_only)
            )
        except errors.NotFound:
            return None
        except errors.Forbidden as problem:
            self._refuse(resource, namespace, problem)
            return None

    async def list(
        self,
        resource: Resource,
        *,
        namespace: str = "",
        label_selector: str = "",
        field_selector: str = "",
        limit: int,
        continue_token: str = "",
        metadata_only: bool = False,
    ) -> Object | None:
        """Return one page of a list. None if it must not be read.

        A continue token that is too old gives the first page, and a sentence about it.
        """
        try:
            return await self._request(
                self._client.list(
                    resource,
                    namespace=namespace,
                    label_selector=label_selector,
                    field_selector=field_selector,
                    limit=limit,
                    continue_token=continue_token,
                    metadata_only=metadata_only,
                )
            )
        except errors.Forbidden as problem:
            self._refuse(resource, namespace, problem)
            return None
        except errors.NotFound:
            return None
        except errors.Gone:
            self.add_note("The list changed meanwhile. This is its first page again.")
            return await self.list(
                resource,
                namespace=namespace,
                label_selector=label_selector,
                field_selector=field_selector,
                limit=limit,
                metadata_only=metadata_only,
            )

    async def _request(self, request: Awaitable[Object]) -> Object:
        return await request

    def is_known(self, resource: Resource, namespace: str) -> bool:
        """Return whether no read of the kind in the namespace was refused."""
        return (resource.plural, namespace) not in self._refused

    def _refuse(self, resource: Resource, namespace: str, problem: errors.Forbidden) -> None:
        self._refused.add((resource.plural, namespace))
        self.add_note(describe_error(problem))

    def add_note(self, sentence: str) -> None:
        """Add a sentence for the page, once."""
        text = f"{sentence[:1].upper()}{sentence[1:]}".rstrip(".") + "."
        if text not in self.notes:
            self.notes.append(text)


class TenantReader(PageReader):
    """Reader of a tenant's API. Its failure is another error than that of the super cluster."""

    async def _request(self, request: Awaitable[Object]) -> Object:
        """Return the answer. Raises TenantUnavailableError and ApiError."""
        try:
            return await request
        except (errors.Unavailable, errors.Unauthorized) as problem:
            raise TenantUnavailableError(describe_server_problem(problem)) from problem


def get_continue_token(found: Object | None) -> str:
    """Return the token of the next page of a list. Empty on the last page."""
    return str(((found or {}).get("metadata") or {}).get("continue") or "")


def get_items(found: Object | None) -> list[Object]:
    """Return the objects of a list, or none."""
    return (found or {}).get("items") or []
