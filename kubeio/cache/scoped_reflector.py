"""Reflector of a collection in chosen namespaces, with one watch per namespace or per object.

Owns the set of watches. For credentials with rights in some namespaces only: RBAC permits neither a
list nor a watch of all namespaces to them, and a watch of metadata needs the same rights. Knows
nothing of what the objects mean.

Hazard: a namespace that the server refuses has no entries, which means nothing. Readers must check
`is_readable` before they conclude anything from absence, or write there.
"""

import asyncio
import dataclasses
from collections.abc import Callable
from dataclasses import dataclass, field

import structlog

from kubeio.api.client import Client
from kubeio.backoff import Backoff
from kubeio.cache.reflector import DEFAULT_REFLECTOR_OPTIONS, Reflector, ReflectorOptions
from kubeio.cache.store import Store, StorePart
from kubeio.loop_budget import LoopBudget
from tenancy.resources import Resource

MAX_SCOPES = 10_000
"""Maximum number of watches. Each has a connection, and a hostile server may list any number of
namespaces.
"""
_FIRST_BACKOFF_SECONDS = 0.05
"""First retry delay in seconds. A new RoleBinding takes effect some milliseconds after its create.
"""
_MAX_BACKOFF_SECONDS = 30.0

_Scope = tuple[str, str]
"""Namespace and name. An empty name stands for all objects of the namespace."""
ScopeHandler = Callable[[str], None]
"""Called with a namespace that became readable, or that the server began to refuse."""

_log: structlog.stdlib.BoundLogger = structlog.get_logger(__name__)


@dataclass(slots=True)
class _Watch:
    reflector: Reflector
    part: StorePart
    settled: asyncio.Event = field(default_factory=asyncio.Event)
    """Set once the server has listed the scope, or refused it."""
    task: asyncio.Task[None] | None = None


class ScopedReflector:
    """Reflectors of one resource into one store."""

    def __init__(
        self,
        client: Client,
        resource: Resource,
        store: Store,
        options: ReflectorOptions = DEFAULT_REFLECTOR_OPTIONS,
        *,
        loop_budget: LoopBudget | None = None,
        is_budget_spent: Callable[[], bool] | None = None,
        max_backoff_seconds: float = _MAX_BACKOFF_SECONDS,
    ) -> None:
        """Start without scopes. `run` starts their watches."""
        self.resource = resource
        self.store = store
        self._client = client
        self._options = options
        self._loop_budget = loop_budget or LoopBudget()
        self._is_budget_spent = is_budget_spent
        self._max_backoff_seconds = max_backoff_seconds
        self._watches: dict[_Scope, _Watch] = {}
        self._handlers: list[ScopeHandler] = []
        self._group: asyncio.TaskGroup | None = None

    def subscribe(self, handler: ScopeHandler) -> None:
        """Call `handler` when a namespace becomes readable, and when the server refuses it."""
        self._handlers.append(handler)

    def start(self, namespace: str, name: str = "") -> None:
        """Watch a namespace, or one object of it. Retry now if the server refused it."""
        scope = (namespace, name)
        watch = self._watches.get(scope)
        if watch is None:
            if len(self._watches) >= MAX_SCOPES:
                _log.warning("watch.too_many_scopes", namespace=namespace, limit=MAX_SCOPES)
                return
            watch = self._watches[scope] = self._build_watch(scope)
            if self._group is not None:
                self._spawn(self._group, scope, watch)
        elif watch.reflector.is_forbidden and self._group is not None:
            watch.reflector.retry_now(asyncio.get_running_loop().time())

    def stop(self, namespace: str, name: str = "") -> None:
        """End a watch and remove its entries."""
        watch = self._watches.pop((namespace, name), None)
        if watch is None:
            return
        if watch.task is not None:
            watch.task.cancel()
        watch.settled.set()
        watch.part.retain(())

    def list_names(self, namespace: str) -> list[str]:
        """Return the names of the objects of a namespace that are watched one by one."""
        return [name for place, name in self._watches if place == namespace and name]

    def is_refused(self, namespace: str, name: str = "") -> bool:
        """Return whether the server refuses a scope."""
        watch = self._watches.get((namespace, name))
        return watch is not None and watch.reflector.is_forbidden

    def is_readable(self, namespace: str, name: str = "") -> bool:
        """Return whether the entries of a scope are complete. True before `run`."""
        if self._group is None:
            return True
        watch = self._watches.get((namespace, name))
        return watch is not None and watch.part.synced and not watch.reflector.is_forbidden

    @property
    def synced(self) -> bool:
        """Return whether the server has listed or refused every scope."""
        return all(watch.settled.is_set() for watch in self._watches.values())

    @property
    def restarts(self) -> int:
        """Return how often the watches broke."""
        return sum(watch.reflector.restarts for watch in self._watches.values())

    @property
    def revision(self) -> int:
        """Return the highest resourceVersion ever seen from this server."""
        return max((watch.reflector.revision for watch in self._watches.values()), default=0)

    @property
    def problem(self) -> str:
        """Return why a scope cannot be watched. Empty without a failure."""
        found = (watch.reflector.problem for watch in self._watches.values())
        return next((problem for problem in found if problem), "")

    async def wait_synced(self) -> None:
        """Wait until the server has listed or refused every scope."""
        while waiting := [w for w in self._watches.values() if not w.settled.is_set()]:
            await waiting[0].settled.wait()

    def relist(self) -> None:
        """End all watches and list again."""
        for watch in self._watches.values():
            watch.reflector.relist()

    def retry_now(self, server_returned_at: float) -> None:
        """Retry failed watches now."""
        for watch in self._watches.values():
            watch.reflector.retry_now(server_returned_at)

    async def run(self) -> None:
        """Watch all scopes until cancelled."""
        try:
            async with asyncio.TaskGroup() as group:
                self._group = group
                for scope, watch in self._watches.items():
                    self._spawn(group, scope, watch)
                await asyncio.Event().wait()
        finally:
            self._group = None

    def _build_watch(self, scope: _Scope) -> _Watch:
        namespace, name = scope
        fields = self._options.field_selector
        if name:
            fields = ",".join(filter(None, (f"metadata.name={name}", fields)))
        part = StorePart(self.store, namespace, name)
        reflector = Reflector(
            self._client,
            self.resource,
            part,
            dataclasses.replace(self._options, namespace=namespace, field_selector=fields),
            loop_budget=self._loop_budget,
            is_budget_spent=self._is_budget_spent,
            backoff=Backoff(base=_FIRST_BACKOFF_SECONDS, ceiling=self._max_backoff_seconds),
            on_forbidden=lambda: self._settle(namespace, watch),
        )
        watch = _Watch(reflector, part)
        return watch

    def _spawn(self, group: asyncio.TaskGroup, scope: _Scope, watch: _Watch) -> None:
        title = "/".join(filter(None, scope))
        watch.task = group.create_task(
            self._run_watch(scope[0], watch), name=f"{self.resource.plural}-{title}"
        )

    async def _run_watch(self, namespace: str, watch: _Watch) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(watch.reflector.run(), name=f"scope-{namespace}")
            await watch.reflector.wait_synced()
            self._settle(namespace, watch)

    def _settle(self, namespace: str, watch: _Watch) -> None:
        watch.settled.set()
        for handler in self._handlers:
            handler(namespace)
