"""Keys that wait for other keys of the same session.

Owns which key waits for which. Must not queue. The key's own growing delay retries it if the
dependency never changes. Hazard: every change of a dependency must wake its waiting keys, and the
memory must be bounded. Otherwise keys wait long, or a tenant fills the memory.
"""

from collections import OrderedDict

from syncer.model.keys import Key

MAX_WAITERS = 16_384
"""Maximum number of waiting keys. A key that is dropped is retried by its own growing delay."""


class Waiters:
    """The waiting keys of one session."""

    def __init__(self) -> None:
        """No key waits."""
        self._waiting_by_dependency: OrderedDict[Key, set[Key]] = OrderedDict()
        self._waiters = 0

    def add_waiter(self, dependency: Key, key: Key) -> None:
        """Record that a key is queued again when another key changes."""
        waiters = self._waiting_by_dependency.setdefault(dependency, set())
        self._waiting_by_dependency.move_to_end(dependency)
        self._waiters += key not in waiters
        waiters.add(key)
        while self._waiters > MAX_WAITERS and len(self._waiting_by_dependency) > 1:
            self._waiters -= len(self._waiting_by_dependency.popitem(last=False)[1])
        if self._waiters > MAX_WAITERS:
            waiters.pop()
            self._waiters -= 1

    def list_waiters(self, dependency: Key) -> frozenset[Key]:
        """Return the keys that wait for a dependency, which go on waiting."""
        return frozenset(self._waiting_by_dependency.get(dependency, ()))

    def pop_waiters(self, dependency: Key) -> set[Key]:
        """Return and forget the keys that wait for a dependency."""
        waiters = self._waiting_by_dependency.pop(dependency, set())
        self._waiters -= len(waiters)
        return waiters
