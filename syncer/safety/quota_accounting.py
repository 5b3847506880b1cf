"""Accountant of one tenant's quota over all of its super namespaces and super clusters.

Pure. Owns the charges by key, and the keys that wait for a release. A write is reserved before it
is sent, so parallel writes never exceed a limit. Each operation costs the number of resources of
one object. Must not know how usage is computed (`syncer.rules.quota.usage`).

A charge has two parts. `observed` is what the cache of the super cluster shows. `reserved` is what
a write asked for, until the cache shows that write. The larger one counts, for each resource.

Hazard: a reservation must stay while it is unknown whether its write arrived. Otherwise two objects
share one place.

Hazard: each release must wake waiting keys. No timer tries them again before the resync.
"""

import math
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any, NamedTuple

from kubeio import Object, errors
from kubeio.resource_version import parse_revision
from syncer.model.keys import Key
from syncer.rules.quota import quota_objects, usage
from syncer.rules.quota.pod_usage import NO_DEFAULTS
from syncer.rules.quota.usage import NOTHING, Usage
from tenancy.policy.quotas import Hard, format_amount, get_kind

QUOTA_EXCEEDED = "QuotaExceeded"
"""Reason of the Event about an object that is not written, because it exceeds the quota."""
_MAX_EXAMINED = 64
"""Number of waiting keys that one release examines. A key that needs more than is free goes to the
end, so that large objects do not block small ones."""
_UNKNOWN = 0


class Excess(NamedTuple):
    """One resource that a write would exceed. Amounts are in thousandths."""

    resource: str
    requested: int
    used: int
    limit: int

    def __str__(self) -> str:
        """Return the resource with its amounts, for the tenant."""
        requested, used, limit = (
            format_amount(self.resource, amount)
            for amount in (self.requested, self.used, self.limit)
        )
        return f"{self.resource}: requested {requested}, used {used}, limit {limit}"


class QuotaExceededError(errors.Forbidden):
    """Refusal of a write before it is sent, as the admission of a ResourceQuota refuses it."""

    def __init__(self, excesses: tuple[Excess, ...]) -> None:
        super().__init__(
            "; ".join(str(excess) for excess in excesses), status=403, reason="Forbidden"
        )
        self.excesses = excesses


@dataclass(frozen=True, slots=True)
class _Charge:
    observed: Usage = field(default_factory=lambda: NOTHING)
    observed_version: int = 0
    reserved: Usage | None = None
    reserved_version: int = _UNKNOWN
    is_fresh: bool = False
    """Whether the reconcile that made the reservation has not ended."""

    def get_amounts(self) -> Usage:
        """Return what counts."""
        reserved, observed = self.reserved, self.observed
        if reserved is None:
            return observed
        if not observed:
            return reserved
        names = reserved.keys() | observed.keys()
        return {name: max(reserved.get(name, 0), observed.get(name, 0)) for name in names}


class WriteCharge:
    """One write that was reserved."""

    def __init__(self) -> None:
        self.written: Mapping[str, Any] | None = None

    def settle(self, written: Mapping[str, Any]) -> None:
        """Record the server's answer."""
        self.written = written


class QuotaAccountant:
    """Charges of one tenant."""

    def __init__(
        self,
        *,
        wake: Callable[[Key], None] = lambda _: None,
        on_changed: Callable[[], None] = lambda: None,
    ) -> None:
        """`wake` queues a key that waits. `on_changed` is called when an amount changes."""
        self.hard: Hard = {}
        self.kinds: frozenset[str] = frozenset()
        """Kinds that are counted, because they use a limited resource."""
        self._wake = wake
        self.on_changed = on_changed
        self._charges: dict[Key, _Charge] = {}
        self._used: dict[str, int] = {}
        self._waiting: dict[Key, QuotaExceededError] = {}
        self._queues: dict[str, dict[Key, None]] = {}
        self._woken: dict[Key, str] = {}
        self._defaults = NO_DEFAULTS
        self._get_overhead: Callable[[str], Object] = lambda _: {}

    def use_overheads(self, get_overhead: Callable[[str], Object]) -> None:
        """Add the overhead of RuntimeClasses before a create, as the super cluster does.

        `get_overhead` returns the amounts of a RuntimeClass by its name.
        """
        self._get_overhead = get_overhead

    def set_hard(self, hard: Hard) -> None:
        """Change the limits. Waiting keys are tried again."""
        self.hard = hard
        self.kinds = frozenset(get_kind(name) for name in hard)
        self._defaults = quota_objects.build_defaults(hard)
        for key in list(self._charges):
            if _get_charged_kind(key) not in self.kinds:
                self._change(key, None)
        for resource in list(self._queues):
            self._wake_waiters(resource)
        self.on_changed()

    def get_used(self, resource: str) -> int:
        """Return what all objects of the tenant use of a resource, in thousandths."""
        return self._used.get(resource, 0)

    def retain(self, super_cluster: str, keys: Collection[Key]) -> None:
        """Release the objects of a super cluster that complete caches do not have.

        They were deleted while the super cluster was not connected.
        """
        for key, charge in list(self._charges.items()):
            if key.super_cluster == super_cluster and key not in keys and charge.reserved is None:
                self._change(key, None)

    def count_used(self) -> Mapping[str, int]:
        """Return what all objects of the tenant use, in thousandths by resource."""
        return dict(self._used)

    @property
    def waiting_count(self) -> int:
        """Number of keys that wait for a release."""
        return len(self._waiting)

    # Charges from the caches.

    def observe(self, key: Key, amounts: Usage | None, resource_version: str = "") -> None:
        """Record what the cache shows of a super object. None: it no longer exists."""
        if not amounts:
            self._change(key, None)
            return
        old = self._charges.get(key)
        version = parse_revision(resource_version)
        if old is not None and old.reserved is not None and not 0 < old.reserved_version <= version:
            charge = replace(old, observed=amounts, observed_version=version)
        else:
            charge = _Charge(amounts, version)
        self._change(key, charge)

    def observe_version(self, key: Key, resource_version: str) -> bool:
        """Record a newer version of an object with the same usage.

        Returns False if no earlier version was recorded.
        """
        charge = self._charges.get(key)
        if charge is None or not charge.observed:
            return False
        self.observe(key, charge.observed, resource_version)
        return True

    # Charges of writes.

    @contextmanager
    def charge(self, key: Key, kind: str, body: Mapping[str, Any] | None) -> Iterator[WriteCharge]:
        """Reserve an object for the write in the block. `body` None: its usage does not change.

        Raises QuotaExceededError before the block.
        """
        write = WriteCharge()
        if body is None or kind not in self.kinds:
            yield write
            return
        if kind == "Pod":
            body = usage.add_overhead(body, self._get_overhead)
        self.reserve(key, usage.compute_usage(kind, body, self._defaults))
        try:
            yield write
        except errors.AlreadyExists:
            raise  # perhaps by an earlier write of this key
        except errors.KubeError as problem:
            if _is_certainly_refused(problem):
                self.cancel(key)
            raise
        if write.written is not None:
            version = str(write.written["metadata"].get("resourceVersion") or "")
            self.commit(key, usage.compute_usage(kind, write.written), version)

    def reserve(self, key: Key, amounts: Usage) -> None:
        """Reserve what an object will use. Raises QuotaExceededError, and then reserves nothing.

        An object that uses less than before is never refused.
        """
        charge = self._charges.get(key) or _Charge()
        before = charge.get_amounts()
        excesses = tuple(
            Excess(name, amount - before.get(name, 0), self.get_used(name), self.hard[name])
            for name, amount in amounts.items()
            if name in self.hard
            and amount > before.get(name, 0)
            and self.get_used(name) + amount - before.get(name, 0) > self.hard[name]
        )
        if excesses:
            raise QuotaExceededError(excesses)
        self._change(
            key, _Charge(charge.observed, charge.observed_version, amounts, _UNKNOWN, is_fresh=True)
        )

    def commit(self, key: Key, amounts: Usage, resource_version: str) -> None:
        """Record the answer to a write. The reservation ends when the cache shows its version."""
        charge = self._charges.get(key)
        if charge is None or charge.reserved is None:
            return  # the object was deleted meanwhile
        version = parse_revision(resource_version)
        if 0 < version <= charge.observed_version:
            self._change(key, _Charge(charge.observed, charge.observed_version))
        else:
            self._change(
                key,
                _Charge(charge.observed, charge.observed_version, amounts, version, is_fresh=True),
            )

    def cancel(self, key: Key) -> None:
        """End a reservation whose write was refused."""
        charge = self._charges.get(key)
        if charge is not None and charge.reserved is not None:
            self._change(
                key, _Charge(charge.observed, charge.observed_version) if charge.observed else None
            )

    def finish_key(self, key: Key, *, is_done: bool) -> None:
        """Record the end of a reconcile. `is_done`: nothing is left to do for the key.

        A reservation ends with the first later reconcile that leaves nothing to do, because a
        reconcile does so only when the caches show all writes of its key.
        """
        charge = self._charges.get(key)
        if charge is not None and charge.reserved is not None:
            if charge.is_fresh:
                self._charges[key] = replace(charge, is_fresh=False)
            elif is_done:
                self.cancel(key)
        if is_done:
            self.forget_waiter(key)
        resource = self._woken.pop(key, "")
        if resource:
            self._wake_waiters(resource)  # the key may have left its place to the next one

    # Waiting keys.

    def hold(self, key: Key, problem: QuotaExceededError) -> None:
        """Record that a key waits until enough is released."""
        self.forget_waiter(key)
        self._waiting[key] = problem
        self._queues.setdefault(problem.excesses[0].resource, {})[key] = None
        resource = self._woken.pop(key, "")
        if resource and resource != problem.excesses[0].resource:
            self._wake_waiters(resource)
        self.on_changed()

    def get_refusal(self, key: Key) -> QuotaExceededError | None:
        """Return why a key waits, or None if it does not wait or enough was released since."""
        problem = self._waiting.get(key)
        if problem is None:
            return None
        first = problem.excesses[0]
        return problem if first.requested > self._get_free(first.resource) else None

    def check_not_waiting(self, key: Key) -> None:
        """Raise the earlier QuotaExceededError of a key, unless enough was released since.

        Callers save the reads that precede a write.
        """
        problem = self.get_refusal(key)
        if problem is not None:
            raise problem
        self.forget_waiter(key)

    def forget_waiter(self, key: Key) -> None:
        """Forget that a key waits, because its object changed or needs nothing."""
        problem = self._waiting.pop(key, None)
        if problem is None:
            return
        queue = self._queues.get(problem.excesses[0].resource)
        if queue is not None:
            queue.pop(key, None)
            if not queue:
                del self._queues[problem.excesses[0].resource]
        self.on_changed()

    def list_waiting(self, limit: int) -> list[tuple[Key, QuotaExceededError]]:
        """Return some of the waiting keys with their refusals, the longest waiting first."""
        return list(islice(self._waiting.items(), limit))

    def _get_free(self, resource: str) -> float:
        limit = self.hard.get(resource)
        return math.inf if limit is None else limit - self.get_used(resource)

    def _wake_waiters(self, resource: str) -> None:
        queue, free = self._queues.get(resource), self._get_free(resource)
        for key in list(islice(queue or (), _MAX_EXAMINED)):
            needed = self._waiting[key].excesses[0].requested
            if needed <= free:
                free -= needed
                self.forget_waiter(key)
                self._woken[key] = resource
                self._wake(key)
            elif queue is not None and len(queue) > _MAX_EXAMINED:
                queue[key] = queue.pop(key)

    def _change(self, key: Key, charge: _Charge | None) -> None:
        old = self._charges.pop(key, None)
        before = old.get_amounts() if old is not None else NOTHING
        after = charge.get_amounts() if charge is not None else NOTHING
        if charge is not None:
            self._charges[key] = charge
        if before == after:
            return
        released = []
        for name in before.keys() | after.keys():
            change = after.get(name, 0) - before.get(name, 0)
            if change:
                self._used[name] = self.get_used(name) + change
                if not self._used[name]:
                    del self._used[name]
            if change < 0:
                released.append(name)
        for name in released:
            if name in self._queues:
                self._wake_waiters(name)
        self.on_changed()


def _get_charged_kind(key: Key) -> str:
    return quota_objects.KINDS_OF_KEYS.get(key.kind, key.kind)


def _is_certainly_refused(problem: errors.KubeError) -> bool:
    """Return whether the server has certainly not written."""
    if isinstance(problem, errors.NotSent | errors.Fenced):
        return True
    return isinstance(problem, errors.ApiError) and not isinstance(problem, errors.Unavailable)
