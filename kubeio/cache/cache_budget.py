"""Budget of the memory that the caches of one API server may use.

Owns the limits, the sums over all caches of the server, and the record of the limit that was
exceeded. A reflector charges its account after each object, also while a list is read, and for each
unfinished event. Must not know what follows from an exceeded limit.

Hazard: a server may be hostile. Each byte that a reflector keeps, or reads before it keeps an
object, must be charged before the next byte is read. Otherwise one server fills the memory that
the connections to all servers share.
"""

import asyncio
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import msgspec

from kubeio import errors
from kubeio.cache.store import Entry, Store, measure_entry

MIB = 1024 * 1024
_MAX_NAME = 253
"""Longest name of an object in characters."""
CONCURRENT_PAGES = 2
"""Number of pages of paged lists that are in memory at the same time, per server."""


class BudgetExceededError(errors.KubeError):
    """The caches of a server would use more memory than the budget allows."""


class CacheLimit(msgspec.Struct, frozen=True, kw_only=True):
    """Limit of the cache of one kind, or of all caches together."""

    max_bytes: int
    max_objects: int
    max_listed_bytes: int = 0
    """Limit of the bytes of one list as received, before it is reduced. 0: twice `max_bytes`."""

    @property
    def listed_bytes(self) -> int:
        """Limit of the bytes of one list as received."""
        return self.max_listed_bytes or 2 * self.max_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheLimits:
    """Limits of all caches of one server."""

    total: CacheLimit
    each_kind: CacheLimit
    kinds: Mapping[str, CacheLimit] = field(default_factory=dict)
    """Limits of the kinds that differ from `each_kind`."""
    max_object_bytes: int
    """Limit of the bytes of one object that is kept."""


class CacheOverflow(msgspec.Struct, frozen=True, kw_only=True):
    """An exceeded limit: the kind and the namespace that use most of it."""

    kind: str
    namespace: str
    """Empty for cluster-scoped kinds, and if no object was read."""
    size: int
    """Bytes that the caches of the kind would use, with the unfinished event of its watch."""
    reason: str

    def describe(self) -> str:
        """Return the overflow as a sentence."""
        where = f" in namespace {_clean_name(self.namespace)}" if self.namespace else ""
        return f"{self.kind}{where}: {self.reason}. This kind uses {self.size} bytes"


class CacheBudget:
    """The memory that all caches of one server use, with its limits."""

    def __init__(self, limits: CacheLimits) -> None:
        self.limits = limits
        self.size = 0
        """Bytes that all caches use, and the unfinished events of their watches."""
        self.objects = 0
        self.overflow: CacheOverflow | None = None
        """The first exceeded limit."""
        self.exceeded = asyncio.Event()
        """Set with `overflow`."""
        self.page_turns = asyncio.Semaphore(CONCURRENT_PAGES)
        self._accounts: list[CacheAccount] = []

    def open_account(self, kind: str, store: Store) -> "CacheAccount":
        """Return the account of one cache."""
        limit = self.limits.kinds.get(kind, self.limits.each_kind)
        account = CacheAccount(self, kind, store, limit)
        self._accounts.append(account)
        return account

    def exceed(self, reason: str) -> None:
        """Record that the caches must go for a reason outside of this budget."""
        largest = max(self._accounts, key=lambda each: each.size, default=None)
        if largest is not None:
            self.record(largest, (), reason)

    def record(self, account: "CacheAccount", listed: Iterable[Entry], reason: str) -> None:
        """Record the first exceeded limit. `listed` are the objects of an unfinished list."""
        if self.overflow is None:
            self.overflow = CacheOverflow(
                kind=account.kind,
                namespace=_find_largest_namespace((*account.store.list(), *listed)),
                size=account.size,
                reason=reason,
            )
            self.exceeded.set()

    def find_largest(self) -> "CacheAccount":
        """Return the account that uses most."""
        return max(self._accounts, key=lambda each: each.size)

    def release(self) -> None:
        """Empty all caches without an event, because their connection has ended.

        Sessions and caches refer to each other, so the garbage collector would find them late.
        """
        for account in self._accounts:
            account.store.clear()
            account.forget()


class CacheAccount:
    """The memory that one cache uses, and the unfinished event of its watch."""

    def __init__(self, budget: CacheBudget, kind: str, store: Store, limit: CacheLimit) -> None:
        self.kind = kind
        self.store = store
        self.size = 0
        """Bytes of the cache and of the unfinished event."""
        self.objects = 0
        self._pending = 0
        self._budget = budget
        self._limit = limit
        self._max_object_bytes = budget.limits.max_object_bytes

    @property
    def page_turns(self) -> asyncio.Semaphore:
        """Turns in which a page of a list is read."""
        return self._budget.page_turns

    def check_object(self, entry: Entry) -> None:
        """Raise BudgetExceededError if one object is too large."""
        if len(entry.body) > self._max_object_bytes:
            reason = (
                f"the object {_clean_name(entry.name)} has {len(entry.body)} bytes, more than"
                f" the limit of {self._max_object_bytes}"
            )
            raise self._exceed((entry,), reason)

    def charge(self, listed: "ListedObjects | None" = None) -> None:
        """Charge what the cache uses now. Raises BudgetExceededError.

        A list that is not complete replaces the cache later, so the larger of both counts.
        """
        budget, store, limit = self._budget, self.store, self._limit
        if budget.overflow is not None:  # another cache, or the process, is at its limit
            raise BudgetExceededError(f"{self.kind}: {budget.overflow.reason}")
        size, objects = store.size, len(store)
        if listed is not None:
            if listed.received > limit.listed_bytes:
                self._set(max(size, listed.size), max(objects, len(listed.found)))
                reason = f"a list has more than {limit.listed_bytes} bytes"
                raise self._exceed(listed.found.values(), reason)
            size, objects = max(size, listed.size), max(objects, len(listed.found))
        self._set(size, objects)
        total = budget.limits.total
        if (
            size <= limit.max_bytes
            and objects <= limit.max_objects
            and budget.size <= total.max_bytes
            and budget.objects <= total.max_objects
        ):
            return
        is_own = size > limit.max_bytes or objects > limit.max_objects
        largest = self if is_own else budget.find_largest()
        scope = f"the kind {self.kind}" if is_own else "all kinds together"
        exceeded = limit if is_own else total
        reason = (
            f"more than {exceeded.max_bytes} bytes or {exceeded.max_objects} objects of {scope}"
        )
        raise largest._exceed(listed.found.values() if largest is self and listed else (), reason)  # noqa: SLF001 - same class

    def charge_pending(self, size: int) -> None:
        """Charge the bytes of an unfinished event. Raises BudgetExceededError, except for less.

        The limit of the kind does not apply, because the bytes of the event are charged again once
        it is an object.
        """
        budget, grows = self._budget, size > self._pending
        budget.size += size - self._pending
        self.size += size - self._pending
        self._pending = size
        most = budget.limits.total.max_bytes
        if grows and budget.size > most:
            reason = f"more than {most} bytes of objects and unfinished events"
            raise budget.find_largest()._exceed((), reason)  # noqa: SLF001 - same class

    def exceed_response(self, problem: errors.KubeError) -> BudgetExceededError:
        """Return the error for one answer of the server that is too large."""
        return self._exceed((), str(problem))

    def forget(self) -> None:
        """Charge nothing any longer."""
        self._pending = 0
        self._set(0, 0)

    def _set(self, size: int, objects: int) -> None:
        size += self._pending
        self._budget.size += size - self.size
        self._budget.objects += objects - self.objects
        self.size, self.objects = size, objects

    def _exceed(self, listed: Iterable[Entry], reason: str) -> BudgetExceededError:
        self._budget.record(self, listed, reason)
        return BudgetExceededError(f"{self.kind}: {reason}")


class ListedObjects:
    """The objects of a list that is being read."""

    def __init__(self) -> None:
        self.found: dict[tuple[str, str], Entry] = {}
        self.size = 0
        """Bytes that a cache with these objects uses."""
        self.kept = 0
        """Bytes of the bodies that were kept, repeated ones included."""
        self.received = 0
        """Bytes of the objects as received, repeated ones included."""

    def put(self, entry: Entry, received: int) -> None:
        """Add an object that had `received` bytes."""
        old = self.found.get(entry.key)
        self.size += measure_entry(entry) - (measure_entry(old) if old is not None else 0)
        self.kept += len(entry.body)
        self.received += received
        self.found[entry.key] = entry

    def discard(self, entry: Entry, received: int) -> None:
        """Remove an object that was deleted while the list was streamed."""
        self.received += received
        old = self.found.pop(entry.key, None)
        if old is not None:
            self.size -= measure_entry(old)

    def clear(self) -> None:
        """Forget all objects."""
        self.found.clear()
        self.size = 0


def _clean_name(name: str) -> str:
    """Return a name as an API server would allow it, because a hostile one writes any text."""
    return "".join(each if each.isprintable() else "?" for each in name[:_MAX_NAME])


def _find_largest_namespace(entries: Iterable[Entry]) -> str:
    """Return the namespace whose objects have the most bytes."""
    sizes: Counter[str] = Counter()
    for entry in entries:
        sizes[entry.namespace] += measure_entry(entry)
    return max(sizes, key=sizes.__getitem__, default="")
