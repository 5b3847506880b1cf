"""Files that change under a running process: trust bundles and the bound token.

Must not know what a file means. Hazard: the kubelet swaps projected files behind a symbolic link,
so modification times lie; contents are compared. A file that is missing or unreadable for a moment
keeps its last content, because the alternative is to serve nobody.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

import structlog

INTERVAL_SECONDS = 10.0

_log = structlog.get_logger(__name__)


class WatchedFile:
    """The last content of a file that could be read."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.content = b""
        """Empty until the file has been read."""

    async def refresh(self) -> bool:
        """Read the file again; tell whether its content is another."""
        try:
            content = await asyncio.to_thread(self.path.read_bytes)
        except OSError as error:
            _log.warning("file cannot be read", path=str(self.path), error=error.strerror)
            return False
        has_changed = bool(content) and content != self.content
        if has_changed:
            self.content = content
        return has_changed


async def watch(
    files: Sequence[WatchedFile],
    changed: Callable[[WatchedFile], Awaitable[None]],
    *,
    interval_seconds: float = INTERVAL_SECONDS,
) -> None:
    """Tell of every new content, for ever."""
    while True:
        await asyncio.sleep(interval_seconds)
        for file in files:
            if await file.refresh():
                await changed(file)
