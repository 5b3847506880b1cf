"""URLs of the pages, all below the path that only the user's browser knows. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import quote, urlencode


@dataclass(frozen=True, slots=True)
class Urls:
    """Builder of URLs. Every part is quoted."""

    prefix: str
    """Path of all pages, with a slash at both ends."""

    def build_static(self, name: str) -> str:
        """Return the URL of a file of the page."""
        return f"{self.prefix}static/{quote(name, safe='')}"

    def build_tenants(self, **parameters: str) -> str:
        """Return the URL of the list of tenants."""
        return self.prefix + _format_query(parameters)

    def build_tenant(self, namespace: str, name: str, **parameters: str) -> str:
        """Return the URL of one tenant."""
        return self._build_path("t", namespace, name) + _format_query(parameters)

    def build_namespace(self, namespace: str, name: str, space: str, **parameters: str) -> str:
        """Return the URL of a namespace of a tenant."""
        return self._build_path("t", namespace, name, "n", space) + _format_query(parameters)

    def build_pod(self, namespace: str, name: str, space: str, pod: str, **parameters: str) -> str:
        """Return the URL of a pod of a tenant."""
        path = self._build_path("t", namespace, name, "n", space, "pods", pod)
        return path + _format_query(parameters)

    def _build_path(self, *parts: str) -> str:
        return self.prefix + "/".join(quote(part, safe="") for part in parts)


def _format_query(parameters: Mapping[str, str]) -> str:
    given = {key: value for key, value in parameters.items() if value}
    return f"?{urlencode(given)}" if given else ""
