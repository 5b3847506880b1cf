"""Reads that go on without the rights to some kinds.

Owns the record of the kinds that were not readable. Must not know what is read for. Hazard: an
object that may not be read must never count as absent. A caller must check `is_known` first.
"""

from typing import Any

from kubeio import Object, errors
from kubeio.api.client import Client
from tenancy.resources import Resource


class PermissiveReader:
    """Reads objects of one cluster, and records what the user may not read."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._refused: dict[str, None] = {}

    @property
    def unknown(self) -> tuple[str, ...]:
        """Return the kinds that were not readable, in the order of the reads."""
        return tuple(self._refused)

    def is_known(self, resource: Resource, namespace: str = "") -> bool:
        """Return whether no read of a kind was refused, in this namespace."""
        return _describe(resource, namespace) not in self._refused

    async def get(self, resource: Resource, name: str, namespace: str = "") -> Object | None:
        """Return an object, or None if it does not exist or may not be read."""
        try:
            return await self._client.get(resource, name, namespace=namespace)
        except errors.NotFound:
            return None
        except errors.Forbidden:
            self._refused[_describe(resource, namespace)] = None
            return None

    async def list(self, resource: Resource, namespace: str = "", **selectors: Any) -> list[Object]:
        """Return the objects of a kind. Empty if they may not be read.

        `selectors` are `label_selector`, `field_selector` and `limit` of the client.
        """
        try:
            found = await self._client.list(resource, namespace=namespace, **selectors)
        except errors.NotFound:
            return []
        except errors.Forbidden:
            self._refused[_describe(resource, namespace)] = None
            return []
        return list(found.get("items") or ())


def _describe(resource: Resource, namespace: str) -> str:
    where = f" in {namespace}" if namespace else ""
    return f"{resource.plural}{where}"
