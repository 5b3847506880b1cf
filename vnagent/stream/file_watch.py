"""Watch on files that change at run time: trust bundles and the bound token.

The module must not know the meaning of a file. Hazard: contents must be compared and not
modification times, because kubelet swaps projected files behind a symbolic link. Otherwise a change
would be missed. A file that is missing or unreadable for a moment keeps its last content, because
otherwise no tenant could be served.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

import structlog

INTERVAL_SECONDS = 10.0

_log = structlog.get_logger(__name__)


class WatchedFile:
    """The last readable content of a file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.content = b""
        """Content, empty until the file has been read."""

    async def refresh(self) -> bool:
        """Read the file again. Return whether its content has changed."""
        try:
            content = await asyncio.to_thread(self.path.read_bytes)
        except OSError as error:
            _log.warning("file cannot be read", path=str(self.path), error=error.strerror)
            return False
        has_changed = bool(content) and content != self.content
        if has_changed:
            self.content = content
        return has_changed


async def watch_files(
    files: Sequence[WatchedFile],
    on_changed: Callable[[WatchedFile], Awaitable[None]],
    *,
    interval_seconds: float = INTERVAL_SECONDS,
) -> None:
    """Call `on_changed` for every new content, for ever."""
    while True:
        await asyncio.sleep(interval_seconds)
        for file in files:
            if await file.refresh():
                await on_changed(file)
