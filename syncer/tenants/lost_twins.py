"""Twins that vanished from the cache of the super cluster.

Owns how the bound twin of each tenant pod ended. Owns also the place of each twin that vanished
without a write of the syncer. Must not decide. Hazard: the memory must be bounded. Otherwise a
tenant fills it.
"""

from collections import OrderedDict
from enum import Enum, auto

from kubeio.cache.store import Key as Place
from syncer.model.keys import Key

MAX_LOST_TWINS = 16_384
MAX_OUT_OF_SIGHT = 16_384


class _End(Enum):
    """Knowledge about a twin that no longer exists."""

    ABSENT = auto()
    DELETED = auto()
    """The twin was seen with a deletionTimestamp."""
    SEEN = auto()
    """The same, and an event showed its end."""


class LostTwins:
    """The vanished twins of one session."""

    def __init__(self) -> None:
        """No twin has vanished."""
        self._lost_twins: OrderedDict[str, _End] = OrderedDict()
        self._out_of_sight: OrderedDict[Key, Place] = OrderedDict()

    def saw_bound_twin_end(self, uid: str, *, was_deleting: bool, is_certain: bool) -> None:
        """Record that the bound twin of the tenant pod with this UID no longer exists."""
        end = _End.SEEN if is_certain else _End.DELETED
        self._lost_twins[uid] = end if was_deleting else _End.ABSENT
        if len(self._lost_twins) > MAX_LOST_TWINS:
            self._lost_twins.popitem(last=False)

    def had_bound_twin(self, uid: str) -> bool:
        """Return True if a tenant pod's twin was seen bound and no longer exists."""
        return uid in self._lost_twins

    def saw_twin_deleted(self, uid: str) -> bool:
        """Return True if that twin was seen with a deletionTimestamp before it vanished."""
        return self._lost_twins.get(uid, _End.ABSENT) is not _End.ABSENT

    def saw_twin_end(self, uid: str) -> bool:
        """Return True if a running watch showed the end of that twin and so of its containers."""
        return self._lost_twins.get(uid) is _End.SEEN

    def lost_sight_of(self, key: Key, place: Place) -> None:
        """Record a twin that vanished without a write of the syncer.

        It was deleted, or lost its labels.
        """
        self._out_of_sight[key] = place
        if len(self._out_of_sight) > MAX_OUT_OF_SIGHT:
            self._out_of_sight.popitem(last=False)

    def is_in_sight(self, key: Key) -> None:
        """Forget that a key's twin vanished, because its super object is known again."""
        self._out_of_sight.pop(key, None)

    def lost_from_sight(self, key: Key) -> Place | None:
        """Return the place of a key's vanished twin, or None."""
        return self._out_of_sight.get(key)

    def out_of_sight(self) -> list[Key]:
        """Return the keys whose twins vanished."""
        return list(self._out_of_sight)
