"""The metrics of this process as text, made once for all who ask together.

Must not know who asks or how. Hazard: making it takes milliseconds of the loop.
"""

import time
from collections.abc import Callable

from prometheus_client import REGISTRY, CollectorRegistry
from prometheus_client.exposition import choose_encoder

_FRESH = 1.0  # seconds for which one text of the metrics serves everybody


class Exposition:
    """What a registry shows."""

    def __init__(self, registry: CollectorRegistry = REGISTRY) -> None:
        """Show a registry."""
        self._registry = registry
        self._shown: tuple[float, str, str, bytes] | None = None

    def text(self, accept: str) -> tuple[str, bytes]:
        """Return the content type and the text, in the form that an Accept header asks for."""
        now = time.monotonic()
        if self._shown is not None:
            made, asked, content_type, body = self._shown
            if accept == asked and now - made < _FRESH:
                return content_type, body
        encode, content_type = _encoder(accept)
        body = encode(self._registry)
        self._shown = now, accept, content_type, body
        return content_type, body


def _encoder(accept: str) -> tuple[Callable[[CollectorRegistry], bytes], str]:
    try:
        return choose_encoder(accept)
    except (TypeError, ValueError):  # the library reads versions that are none
        return choose_encoder("")
