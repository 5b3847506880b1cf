"""Twins that vanished from the cache of the super cluster.

Owns how the bound twin of each tenant pod ended, and where twins were that vanished without our
doing. Must not decide. Hazard: the memory must be bounded. Otherwise a tenant fills it.
"""

from collections import OrderedDict
from enum import Enum, auto

from kubeio.cache.store import Key as Place
from syncer.model.keys import Key

MAX_LOST_TWINS = 16_384
MAX_OUT_OF_SIGHT = 16_384


class _End(Enum):
    """What is known of a twin that is gone."""

    ABSENT = auto()
    DELETED = auto()
    """It was seen to be on its way out."""
    SEEN = auto()
    """So it was, and an event showed the very end."""


class LostTwins:
    """The vanished twins of one session."""

    def __init__(self) -> None:
        """No twin has vanished."""
        self._lost_twins: OrderedDict[str, _End] = OrderedDict()
        self._out_of_sight: OrderedDict[Key, Place] = OrderedDict()

    def saw_bound_twin_end(self, uid: str, *, was_deleting: bool, is_certain: bool) -> None:
        """Take note that the bound twin of a tenant pod with this UID is gone."""
        end = _End.SEEN if is_certain else _End.DELETED
        self._lost_twins[uid] = end if was_deleting else _End.ABSENT
        if len(self._lost_twins) > MAX_LOST_TWINS:
            self._lost_twins.popitem(last=False)

    def had_bound_twin(self, uid: str) -> bool:
        """Tell whether a tenant pod's twin was seen bound, and is gone."""
        return uid in self._lost_twins

    def saw_twin_deleted(self, uid: str) -> bool:
        """Tell whether that twin was seen to be on its way out before it was gone."""
        return self._lost_twins.get(uid, _End.ABSENT) is not _End.ABSENT

    def saw_twin_end(self, uid: str) -> bool:
        """Tell whether a running watch showed the end of that twin, its containers' with it."""
        return self._lost_twins.get(uid) is _End.SEEN

    def lost_sight_of(self, key: Key, place: Place) -> None:
        """Take note that a twin vanished without our doing: deleted, or without its labels."""
        self._out_of_sight[key] = place
        if len(self._out_of_sight) > MAX_OUT_OF_SIGHT:
            self._out_of_sight.popitem(last=False)

    def is_in_sight(self, key: Key) -> None:
        """Take note that what a key has below is known again."""
        self._out_of_sight.pop(key, None)

    def lost_from_sight(self, key: Key) -> Place | None:
        """Return where the vanished twin of a key was; None when there is none."""
        return self._out_of_sight.get(key)

    def out_of_sight(self) -> list[Key]:
        """Return the keys whose twins vanished."""
        return list(self._out_of_sight)
