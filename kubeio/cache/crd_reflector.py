"""Reflector of a collection that depends on a CRD.

Owns the watch of that CRD and the life of the inner reflector. Knows nothing of what the objects
mean.

Hazard: readers must check `synced` of the store before absence means anything. While the CRD is
missing, the store is empty and not `synced`, and the start does not wait for it.
"""

import asyncio
from collections.abc import Callable

from kubeio.api.client import Client
from kubeio.backoff import Backoff
from kubeio.cache.cache_budget import CacheBudget
from kubeio.cache.reflector import Reflector, ReflectorOptions
from kubeio.cache.store import Entry, Store
from kubeio.loop_budget import LoopBudget
from tenancy.resources import CUSTOM_RESOURCE_DEFINITIONS, Resource

_MAX_BACKOFF_SECONDS = 300.0
"""Longest retry delay in seconds. It is long because a CRD may serve only other versions."""


def crd_name(resource: Resource) -> str:
    """Return the name of the CRD that defines a kind."""
    return f"{resource.plural}.{resource.group}"


def _ignore() -> None:
    """Do nothing."""


class CrdReflector:
    """A reflector that runs only while the CRD of its kind exists."""

    def __init__(
        self,
        client: Client,
        resource: Resource,
        store: Store,
        *,
        side: str = "",
        label_selector: str = "",
        cache_budget: CacheBudget | None = None,
        loop_budget: LoopBudget | None = None,
        is_budget_spent: Callable[[], bool] | None = None,
        on_served: Callable[[], None] = _ignore,
        is_built_in: bool = False,
        max_list_bytes: int | None = None,
    ) -> None:
        """Set up the reflector.

        `is_built_in`: the server has the kind without a CRD, so the collection is always watched.
        `on_served` is called each time the collection has become complete. `cache_budget` is that
        of the server. `label_selector` limits the collection. `max_list_bytes` is the maximum
        size of one list.
        """
        self.resource = resource
        self.store = store
        self._client = client
        self._side = side
        self._label_selector = label_selector
        self._loop_budget = loop_budget or LoopBudget()
        self._is_budget_spent = is_budget_spent or self._loop_budget.is_spent
        self._on_served = on_served
        self._is_built_in = is_built_in
        self._max_list_bytes = max_list_bytes
        definitions = Store()
        self._definitions = definitions
        self._account = cache_budget.open_account(resource.kind, store) if cache_budget else None
        self._definition = Reflector(
            client,
            CUSTOM_RESOURCE_DEFINITIONS,
            definitions,
            ReflectorOptions(
                field_selector=f"metadata.name={crd_name(resource)}",
                metadata_only=True,
                side=side,
                max_list_bytes=max_list_bytes,
                account=cache_budget.open_account(CUSTOM_RESOURCE_DEFINITIONS.kind, definitions)
                if cache_budget
                else None,
            ),
            loop_budget=self._loop_budget,
            is_budget_spent=self._is_budget_spent,
        )
        self._inner: Reflector | None = None
        self._seen = 0
        self._definition_moved = asyncio.Event()
        definitions.subscribe(self._handle_definition)

    @property
    def synced(self) -> bool:
        """Return whether it is known if the kind is served."""
        return self._is_built_in or self._definition.synced

    @property
    def is_defined(self) -> bool:
        """Return whether the CRD exists, as far as the watch shows."""
        return len(self._definitions) > 0

    @property
    def revision(self) -> int:
        """Return the highest resourceVersion ever seen from this server."""
        inner = self._inner.revision if self._inner is not None else 0
        self._seen = max(self._seen, self._definition.revision, inner)
        return self._seen

    @property
    def restarts(self) -> int:
        """Return how often the watch of the CRD broke. The inner watch may break without harm."""
        return self._definition.restarts

    @property
    def problem(self) -> str:
        """Return why the CRD cannot be watched. Empty without a failure."""
        return self._definition.problem

    def describe_unserved(self) -> str:
        """Return why the collection is incomplete or refused, if that is known. Otherwise empty."""
        inner = self._inner
        if self.store.synced:
            return inner.problem if inner is not None and inner.is_forbidden else ""
        if self._definition.problem and not self._is_built_in:
            return self._definition.problem
        if self.synced and not (self._is_built_in or self.is_defined):
            return f"the CustomResourceDefinition {crd_name(self.resource)} does not exist"
        return inner.problem if inner is not None else ""

    async def wait_synced(self) -> None:
        """Wait until it is known whether the kind is served."""
        if not self._is_built_in:
            await self._definition.wait_synced()

    def relist(self) -> None:
        """End all watches, and list the CRD and the collection again."""
        self._definition.relist()
        if self._inner is not None:
            self._inner.relist()

    def retry_now(self, server_returned_at: float) -> None:
        """Retry failed watches now: the CRD's and the collection's."""
        self._definition.retry_now(server_returned_at)
        if self._inner is not None:
            self._inner.retry_now(server_returned_at)

    async def run(self) -> None:
        """Watch the CRD, and the collection while the CRD exists, until cancelled."""
        try:
            await self._run_watches()
        finally:
            self.store.synced = False  # a later reflector of the store begins with a list

    async def _run_watches(self) -> None:
        if self._is_built_in:
            await self._follow()
            return
        async with asyncio.TaskGroup() as group:
            group.create_task(self._definition.run(), name=f"crd-{self.resource.plural}")
            while True:
                self._definition_moved.clear()
                if len(self._definitions):
                    await self._follow()
                else:
                    await self._definition_moved.wait()

    def _handle_definition(self, old: Entry | None, new: Entry | None, _: bool) -> None:
        if old is None or new is None or old.uid != new.uid:
            self._definition_moved.set()

    async def _follow(self) -> None:
        """Watch the collection until its CRD is deleted or recreated."""
        inner = Reflector(
            self._client,
            self.resource,
            self.store,
            ReflectorOptions(
                side=self._side,
                label_selector=self._label_selector,
                account=self._account,
                max_list_bytes=self._max_list_bytes,
            ),
            loop_budget=self._loop_budget,
            is_budget_spent=self._is_budget_spent,
            backoff=Backoff(base=0.5, ceiling=_MAX_BACKOFF_SECONDS),
        )
        self._inner = inner
        async with asyncio.TaskGroup() as group:
            running = group.create_task(inner.run(), name=f"optional-{self.resource.plural}")
            telling = group.create_task(
                self._announce_served(inner), name=f"told-{self.resource.plural}"
            )
            await self._definition_moved.wait()
            running.cancel()
            telling.cancel()
        self._seen = self.revision
        self.store.synced = False
        self.store.replace(())

    async def _announce_served(self, inner: Reflector) -> None:
        await inner.wait_synced()
        self._on_served()
