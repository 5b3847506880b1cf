"""Keys of one session that are in work, and twins that are being deleted.

Must not know the queue. Hazard: a session may end only when no key is in work. vc-manager deletes
the super namespaces after that, and a later write would stay for good.
"""

import asyncio


class KeysInWork:
    """Number of keys in work."""

    def __init__(self) -> None:
        self._count = 0
        self._idle = asyncio.Event()
        self._idle.set()

    def start(self) -> None:
        """Count one more key in work. `finish` must follow."""
        self._count += 1
        self._idle.clear()

    def finish(self) -> None:
        """Count one key less in work."""
        self._count -= 1
        if not self._count:
            self._idle.set()

    async def wait_idle(self) -> None:
        """Wait until no key is in work. Several may wait at once."""
        await self._idle.wait()
