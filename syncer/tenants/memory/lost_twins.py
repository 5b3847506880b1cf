"""Twins that vanished from the cache of the super cluster.

Owns how the bound twin of each tenant pod ended. Owns also the place of each twin that vanished
without a write of the syncer. Must not decide. Hazard: the memory must be bounded. Otherwise a
tenant fills it.
"""

from collections import OrderedDict
from enum import Enum, auto

from kubeio.cache.store import StoreKey as Place
from syncer.model.keys import Key

MAX_LOST_TWINS = 16_384
MAX_VANISHED_TWINS = 16_384


class _TwinEnd(Enum):
    """Knowledge about a twin that no longer exists."""

    ABSENT = auto()
    DELETED = auto()
    """The twin was seen with a deletionTimestamp."""
    OBSERVED = auto()
    """The same, and an event showed its end."""


class LostTwins:
    """The vanished twins of one session."""

    def __init__(self) -> None:
        """No twin has vanished."""
        self._lost_twins: OrderedDict[str, _TwinEnd] = OrderedDict()
        self._vanished_twins: OrderedDict[Key, Place] = OrderedDict()

    def record_bound_twin_end(self, uid: str, *, was_deleting: bool, is_certain: bool) -> None:
        """Record that the bound twin of the tenant pod with this UID no longer exists."""
        end = _TwinEnd.OBSERVED if is_certain else _TwinEnd.DELETED
        self._lost_twins[uid] = end if was_deleting else _TwinEnd.ABSENT
        if len(self._lost_twins) > MAX_LOST_TWINS:
            self._lost_twins.popitem(last=False)

    def is_bound_twin_lost(self, uid: str) -> bool:
        """Return True if a tenant pod's twin was seen bound and no longer exists."""
        return uid in self._lost_twins

    def was_twin_deleting(self, uid: str) -> bool:
        """Return True if that twin was seen with a deletionTimestamp before it vanished."""
        return self._lost_twins.get(uid, _TwinEnd.ABSENT) is not _TwinEnd.ABSENT

    def was_twin_end_observed(self, uid: str) -> bool:
        """Return True if a running watch showed the end of that twin and so of its containers."""
        return self._lost_twins.get(uid) is _TwinEnd.OBSERVED

    def record_vanished_twin(self, key: Key, place: Place) -> None:
        """Record a twin that vanished without a write of the syncer.

        It was deleted, or lost its labels.
        """
        self._vanished_twins[key] = place
        if len(self._vanished_twins) > MAX_VANISHED_TWINS:
            self._vanished_twins.popitem(last=False)

    def clear_vanished_twin(self, key: Key) -> None:
        """Forget that a key's twin vanished, because its super object is known again."""
        self._vanished_twins.pop(key, None)

    def get_vanished_twin(self, key: Key) -> Place | None:
        """Return the place of a key's vanished twin, or None."""
        return self._vanished_twins.get(key)

    def list_vanished_keys(self) -> list[Key]:
        """Return the keys whose twins vanished."""
        return list(self._vanished_twins)
