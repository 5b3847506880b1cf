"""Watch on the manager's objects in one tenant, which triggers a reconcile on a change.

Owns a few watches by label, and the pace. Must not write: a reconcile restores missing objects.
Hazard: a tenant admin may change the objects as fast as a script can, and a webhook of the tenant
may change each write again. The pauses therefore grow until the objects stay unchanged for a while.
"""

import asyncio
from collections.abc import Callable, Sequence

import structlog

from kubeio.api.client import Client
from kubeio.backoff import Backoff
from kubeio.cache.cache_budget import MIB, BudgetExceededError, CacheBudget, CacheLimit, CacheLimits
from kubeio.cache.reflector import Reflector, ReflectorOptions
from kubeio.cache.store import Entry, Store
from tenancy import wellknown
from tenancy.resources import Resource

BACKOFF_RESET_SECONDS = 600.0
"""Quiet time in seconds after which the pause is reset to its base of about 1 s."""
_BASE_DELAY_SECONDS, _MAX_DELAY_SECONDS = 1.0, 60.0
PAUSE_SECONDS = 300.0
"""Pause in seconds of the watches after a tenant sent more than the limits allow."""
LIMITS = CacheLimits(
    total=CacheLimit(max_bytes=2 * MIB, max_objects=1000),
    each_kind=CacheLimit(max_bytes=MIB, max_objects=500),
    max_object_bytes=MIB // 2,
)
"""Limits of the metadata of the manager's objects in a tenant, which has about ten of them."""
_SELECTOR = f"{wellknown.BOOTSTRAP}=true"

_log: structlog.stdlib.BoundLogger = structlog.get_logger(__name__)


class TenantWatch:
    """Watches the manager's objects in one tenant while it is open."""

    def __init__(
        self,
        client: Client,
        resources: Sequence[Resource],
        on_changed: Callable[[], None],
        *,
        selector: str = _SELECTOR,
        limits: CacheLimits = LIMITS,
        awaited_resources: Sequence[Resource] = (),
    ) -> None:
        """Start the watches. `on_changed` is called soon after a change or deletion.

        `resources` are watched by the label selector. `awaited_resources` are watched whole, and
        their creations count as changes.
        """
        self._on_changed = on_changed
        self._backoff = Backoff(base=_BASE_DELAY_SECONDS, ceiling=_MAX_DELAY_SECONDS)
        self._last_change_at = float("-inf")
        self._due_timer: asyncio.TimerHandle | None = None
        self._client, self._resources = client, resources
        self._selector, self._limits, self._awaited = selector, limits, awaited_resources
        self._running = asyncio.ensure_future(self._run())

    async def close(self) -> None:
        """Stop the watches."""
        if self._due_timer is not None:
            self._due_timer.cancel()
        self._running.cancel()
        await asyncio.wait([self._running])  # not awaited itself, or the caller's own end is lost
        if not self._running.cancelled():
            self._running.result()

    async def _run(self) -> None:
        """Watch until cancelled. A tenant over the limits is not watched for a while."""
        while True:
            budget = CacheBudget(self._limits)
            try:
                await self._watch(budget)
            except* BudgetExceededError as problem:
                _log.warning(
                    "tenant_watch.too_large",
                    server=self._client.endpoint.title,
                    problem=str(problem.exceptions[0]),
                )
            budget.release()
            await asyncio.sleep(PAUSE_SECONDS)
            self._on_changed()  # no watch has reported the changes meanwhile

    async def _watch(self, budget: CacheBudget) -> None:
        async with asyncio.TaskGroup() as group:
            for resource in (*self._resources, *self._awaited):
                store, is_awaited = Store(), resource in self._awaited
                store.subscribe(self._handle_awaited if is_awaited else self._handle_event)
                options = ReflectorOptions(
                    label_selector="" if is_awaited else self._selector,
                    metadata_only=True,
                    side="tenant",
                    account=budget.open_account(resource.kind, store),
                )
                reflector = Reflector(self._client, resource, store, options)
                group.create_task(reflector.run(), name=f"tenant-watch-{resource.plural}")

    def _handle_awaited(self, old: Entry | None, new: Entry | None, live: bool) -> None:
        if live and (old is None or new is None or old.labels != new.labels):
            self._notify_later()

    def _handle_event(self, old: Entry | None, _: Entry | None, __: bool) -> None:
        if old is not None:  # else created: by the manager, or after a deletion that was reported
            self._notify_later()

    def _notify_later(self) -> None:
        now = asyncio.get_running_loop().time()
        if now - self._last_change_at > BACKOFF_RESET_SECONDS:
            self._backoff.reset()
        self._last_change_at = now
        if self._due_timer is None:
            self._due_timer = asyncio.get_running_loop().call_later(
                self._backoff.next(), self._notify
            )

    def _notify(self) -> None:
        self._due_timer = None
        self._on_changed()
