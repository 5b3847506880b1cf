"""Text exposition of this process's metrics, shared by simultaneous scrapes.

Must not know the caller. Hazard: the text must be shared, because rendering it takes milliseconds
of the event loop. Many scrapes would otherwise block the loop.
"""

import time
from collections.abc import Callable

from prometheus_client import REGISTRY, CollectorRegistry
from prometheus_client.exposition import choose_encoder

_CACHE_SECONDS = 1.0  # seconds for which one text is shared


class Exposition:
    """Cached text of a registry's metrics."""

    def __init__(self, registry: CollectorRegistry = REGISTRY) -> None:
        """Set the registry."""
        self._registry = registry
        self._cached_text: tuple[float, str, str, bytes] | None = None

    def render(self, accept: str) -> tuple[str, bytes]:
        """Return the content type and the text, in the form that an Accept header asks for."""
        now = time.monotonic()
        if self._cached_text is not None:
            made, asked, content_type, body = self._cached_text
            if accept == asked and now - made < _CACHE_SECONDS:
                return content_type, body
        encode, content_type = _choose_encoder(accept)
        body = encode(self._registry)
        self._cached_text = now, accept, content_type, body
        return content_type, body


def _choose_encoder(accept: str) -> tuple[Callable[[CollectorRegistry], bytes], str]:
    try:
        return choose_encoder(accept)
    except (TypeError, ValueError):  # the library fails on invalid versions
        return choose_encoder("")
