"""Work of one session: which of its keys are queued, wait for other keys, and are in work.

Must not know what a key means. Hazard: no key may be queued before the caches of the session are
complete. Until then objects would be deleted by mistake.
"""

from collections.abc import Iterable

from kubeio.controller.fair_queue import FairQueue
from syncer.model.keys import EVENT, Key
from syncer.tenants.memory.keys_in_work import KeysInWork
from syncer.tenants.memory.waiters import Waiters


class SessionWork:
    """The keys of one session."""

    def __init__(self, queue: FairQueue[Key], group: str) -> None:
        """`group` is the name of the session's group in the queue."""
        self.group = group
        self.is_ready = False
        self.waiters = Waiters()
        self.keys_in_work = KeysInWork()
        self._queue = queue

    def start(self, keys: Iterable[Key]) -> None:
        """Accept work, beginning with these keys."""
        self.is_ready = True
        for key in keys:
            self._queue.add(key, low=True)

    def stop(self) -> None:
        """Stop accepting work."""
        self.is_ready = False

    async def drain(self) -> None:
        """Stop accepting work and wait until no key is in work."""
        self.stop()
        self._queue.drop_group(self.group)
        await self.keys_in_work.wait_idle()

    def enqueue(self, key: Key, *, low: bool = False) -> None:
        """Queue a key if the session is ready. `start` queues all keys later."""
        if self.is_ready:
            self._queue.add(key, low=low)

    def add_waiter(self, dependency: Key, key: Key) -> None:
        """Queue a key again when another key changes."""
        self.waiters.add_waiter(dependency, key)

    def wake_waiters(self, dependency: Key) -> None:
        """Queue every key that waits for another key."""
        for key in self.waiters.pop_waiters(dependency):
            self._queue.add(key, low=key.kind == EVENT)
