"""Last states that the syncer wrote into a tenant or found there, for the detection of edits.

Owns one small record for each part of a tenant object that the super cluster determines. If that
part should be as before and the tenant's object is not, then another writer in the tenant changed
it. Must not know kinds. Hazard: a record may only decide about an Event. It is lost at a
restart. Afterwards the field managers of an object show whether it was edited.
"""

import hashlib
from collections.abc import Mapping
from typing import Any, NamedTuple

import orjson

from kubeio.cache.store import Entry
from kubeio.resource_version import parse_revision
from syncer.model.keys import Key

_DIGEST_BYTES = 8
_SUBRESOURCES = ("", "status")


class SyncedState(NamedTuple):
    """One part of a tenant object as the super cluster determines it."""

    digest: bytes
    revision: int
    """Revision of the tenant object that had this state. Older ones are no edits."""


class SyncedStates:
    """The records of one session. Each ends with its tenant object."""

    def __init__(self) -> None:
        self._states: dict[tuple[Key, str], SyncedState] = {}
        self._types: dict[Key, frozenset[str]] = {}
        self._deleted: set[Key] = set()
        self._reclaim_policies: dict[Key, str] = {}

    def has(self, key: Key, subresource: str = "") -> bool:
        """Return whether a state is recorded."""
        return (key, subresource) in self._states

    def record(
        self, key: Key, wanted: Mapping[str, Any], resource_version: str, subresource: str = ""
    ) -> None:
        """Record that the tenant object of this version is as the super cluster determines."""
        revision = parse_revision(resource_version)
        self._states[key, subresource] = SyncedState(_compute_digest(wanted), revision)

    def is_edit(
        self, key: Key, wanted: Mapping[str, Any], tenant_x: Entry, subresource: str = ""
    ) -> bool:
        """Return whether a difference is an edit in the tenant.

        It is one if the recorded state is still wanted, and the object has changed since.
        """
        found = self._states.get((key, subresource))
        return (
            found is not None
            and found.digest == _compute_digest(wanted)
            and parse_revision(tenant_x.resource_version) > found.revision
        )

    def is_replaced(self, key: Key, found: Mapping[str, Any], tenant_x: Entry) -> bool:
        """Return whether an object that only the syncer writes has another state than recorded."""
        state = self._states.get((key, ""))
        return (
            state is not None
            and state.digest != _compute_digest(found)
            and parse_revision(tenant_x.resource_version) > state.revision
        )

    def forget_part(self, key: Key, subresource: str = "") -> SyncedState | None:
        """Forget one part of an object, because another state is written. Returns the record."""
        return self._states.pop((key, subresource), None)

    def restore_part(self, key: Key, state: SyncedState | None, subresource: str = "") -> None:
        """Restore the record of a part, because the write had no effect."""
        if state is not None:
            self._states[key, subresource] = state

    def forget(self, key: Key) -> None:
        """Forget an object that was deleted."""
        for subresource in _SUBRESOURCES:
            self._states.pop((key, subresource), None)
        self._types.pop(key, None)
        self._reclaim_policies.pop(key, None)

    # Reclaim policies that were synced to the super cluster.

    def get_reclaim_policy(self, key: Key) -> str:
        """Return the reclaim policy that was last synced to a super volume. Empty if none was."""
        return self._reclaim_policies.get(key, "")

    def record_reclaim_policy(self, key: Key, policy: str) -> None:
        """Record a reclaim policy that is synced to a super volume."""
        self._reclaim_policies[key] = policy

    def forget_reclaim_policy(self, key: Key) -> None:
        """Forget the reclaim policy, because the mirror records it or the super volume changed."""
        self._reclaim_policies.pop(key, None)

    # Condition types that were synced back.

    def get_condition_types(self, key: Key) -> frozenset[str]:
        """Return the recorded condition types of an object."""
        return self._types.get(key, frozenset())

    def record_condition_types(self, key: Key, types: frozenset[str]) -> None:
        """Record the condition types of an object that were synced back. Most objects have none."""
        if types:
            self._types[key] = types
        else:
            self._types.pop(key, None)

    # Shown objects that the tenant deleted.

    def record_deletion(self, key: Key) -> None:
        """Record that the tenant deleted a shown object."""
        self._deleted.add(key)

    def pop_deletion(self, key: Key) -> bool:
        """Return whether the tenant deleted a shown object, and forget that."""
        if key not in self._deleted:
            return False
        self._deleted.discard(key)
        return True


def _compute_digest(wanted: Mapping[str, Any]) -> bytes:
    text = orjson.dumps(wanted, option=orjson.OPT_SORT_KEYS)
    return hashlib.blake2b(text, digest_size=_DIGEST_BYTES).digest()
