"""Caches of one super cluster for the kinds of SyncRules. They begin and end while it is connected.

Owns the watches of these kinds. A target has the rules whose copies follow pods. Must not know
tenants: `TenantManager` chooses the rules of each. Hazard: a rule may be used only once its cache
is complete. Otherwise each copy counts as absent, and is created a second time.
"""

import asyncio
import contextlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial

import structlog

from kubeio.api.client import Client
from kubeio.cache.crd_reflector import CrdReflector
from kubeio.cache.store import Entry, Store
from kubeio.loop_budget import LoopBudget
from tenancy.specs import InvalidSpecError
from tenancy.sync_rules.checks import find_problem
from tenancy.sync_rules.specs import SyncRule, parse_sync_rule

RELEASE_RETRY_SECONDS = 10.0
"""Retry interval in seconds for a finalizer that could not be removed."""

_log: structlog.stdlib.BoundLogger = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class RuledCacheOptions:
    """Settings of all caches of one super cluster."""

    label_selector: str
    """Selector of copies."""
    create_store: Callable[[], Store]
    """Return a cache for copies."""
    loop_budget: LoopBudget
    is_budget_spent: Callable[[], bool]
    side: str = "super"
    """Metric label of the super cluster."""
    max_list_bytes: int | None = None
    """Maximum size in bytes of one list. None: no limit."""


@dataclass(slots=True)
class RuledWatch:
    """The running watch of one rule."""

    rule: SyncRule
    reflectors: tuple[CrdReflector, ...]
    tasks: tuple[asyncio.Task[None], ...]


class RuledCaches:
    """Caches of all kinds with copies in one super cluster."""

    def __init__(
        self, client: Client, rules: Store, stores: dict[str, Store], options: RuledCacheOptions
    ) -> None:
        """`stores` are those of the super cluster, to which copies of the kinds are added."""
        self._client = client
        self._rules = rules
        self._stores = stores
        self._options = options
        self._watches: dict[str, RuledWatch] = {}
        """Running watches by the name of the rule."""
        self._is_changed = asyncio.Event()
        self._subscribers: list[Callable[[], None]] = []
        self._on_added: list[Callable[[str, Store], None]] = []
        self._on_complete: list[Callable[[str], None]] = []

    def subscribe_added(self, handler: Callable[[str, Store], None]) -> None:
        """Call a function with the kind and the new cache of each rule with the direction Down."""
        self._on_added.append(handler)

    def subscribe_complete(self, handler: Callable[[str], None]) -> None:
        """Call a function with the kind of each rule whose cache has become complete."""
        self._on_complete.append(handler)

    def subscribe(self, handler: Callable[[], None]) -> None:
        """Call a function after each change of the usable rules."""
        self._subscribers.append(handler)

    def list_usable(self) -> Iterable[SyncRule]:
        """Return the rules that tenants may use now."""
        return [
            watch.rule
            for watch in self._watches.values()
            if self.is_complete(watch.rule) and not watch.rule.is_deleting
        ]

    def deletes_copies(self, kind: str) -> bool:
        """Return whether copies of a kind are deleted where its rule does not apply."""
        rule = self.get_rule(kind)
        return rule is not None and rule.spec.removal_policy == "Delete"

    def get_rule(self, kind: str) -> SyncRule | None:
        """Return the watched rule of a kind."""
        return next(
            (each.rule for each in self._watches.values() if each.rule.resource.kind == kind), None
        )

    def describe_unserved(self, kind: str) -> str:
        """Return why the cluster does not serve a kind, as far as it is known. Otherwise empty."""
        for watch in self._watches.values():
            if watch.rule.resource.kind == kind:
                reasons = (each.describe_unserved() for each in watch.reflectors)
                return next(filter(None, reasons), "")
        return ""

    def describe_rules(self) -> Mapping[str, str] | None:
        """Return for each watched rule why the cluster does not serve it. Empty: it does.

        None while that is not known yet of each rule.
        """
        found: dict[str, str] = {}
        for name, watch in sorted(self._watches.items()):
            found[name] = self.describe_unserved(watch.rule.resource.kind)
            if not found[name] and not self.is_complete(watch.rule):
                return None
        return found

    def may_have_copies(self, kind: str) -> bool:
        """Return whether copies of a kind may be left that the syncer can delete."""
        if self.describe_unserved(kind):
            return False
        store = self._stores.get(kind)
        return store is not None and (not store.synced or len(store) > 0)

    async def run(self) -> None:
        """Start and stop watches as rules change, until cancelled."""
        handler = self._handle_rule  # the store compares handlers by identity
        self._rules.subscribe(handler)
        try:
            async with asyncio.TaskGroup() as group:
                while True:
                    self._is_changed.clear()
                    self._apply_rules(group)
                    is_done = await self._finish_rules()
                    with contextlib.suppress(TimeoutError):
                        async with asyncio.timeout(None if is_done else RELEASE_RETRY_SECONDS):
                            await self._is_changed.wait()
        finally:
            self._rules.unsubscribe(handler)

    def prepare(self, rule: SyncRule) -> Store:
        """Return the cache for the copies of a rule. It may be empty and incomplete."""
        kind = rule.resource.kind
        store = self._stores.get(kind)
        if store is None:
            store = self._stores[kind] = self._options.create_store()
            for handler in self._on_added:
                handler(kind, store)
            store.subscribe(partial(self._handle_copy, rule.name))
        return store

    async def _finish_rules(self) -> bool:
        """Finish a change of the rules. Returns False if it must be tried again."""
        return True

    def _handle_rule(self, *_: object) -> None:
        self._is_changed.set()

    def _apply_rules(self, group: asyncio.TaskGroup) -> None:
        wanted = {rule.name: rule for rule in self._list_ready()}
        for name, watch in list(self._watches.items()):
            rule = wanted.get(name)
            if rule is None or self._get_watched(rule) != self._get_watched(watch.rule):
                self._stop(name)
            else:
                self._watches[name] = replace(watch, rule=rule)
        for name, rule in wanted.items():
            if name not in self._watches:
                self._start(rule, group)
        self._announce()

    def _list_ready(self) -> list[SyncRule]:
        """Return the rules that vc-manager has accepted and that the own checks accept as well."""
        parsed: list[SyncRule] = []
        for entry in self._rules.list():
            try:
                parsed.append(parse_sync_rule(entry.decode()))
            except InvalidSpecError:
                continue  # vc-manager reports it
        return [
            rule
            for rule in parsed
            if self._is_for_cluster(rule)
            and (rule.is_ready or (rule.is_deleting and rule.name in self._watches))
            and find_problem(rule, parsed) is None
        ]

    def _is_for_cluster(self, rule: SyncRule) -> bool:
        """Return whether the cluster has objects of a rule: in a target copies that follow pods."""
        return rule.follows_pods

    def _get_watched(self, rule: SyncRule) -> tuple[object, ...]:
        """Return the parts of a rule whose change begins its watch again."""
        return (rule.resource,)

    def _start(self, rule: SyncRule, group: asyncio.TaskGroup) -> None:
        reflectors = tuple(
            self._create_reflector(rule, store, selector)
            for store, selector in self._prepare_stores(rule).items()
        )
        tasks = tuple(
            group.create_task(each.run(), name=f"ruled-{rule.resource.plural}")
            for each in reflectors
        )
        self._watches[rule.name] = RuledWatch(rule, reflectors, tasks)
        _log.info("rule.started", rule=rule.name, kind=rule.resource.kind, side=self._options.side)

    def _prepare_stores(self, rule: SyncRule) -> Mapping[Store, str]:
        """Return the caches of a rule, each with the selector of its watch."""
        return {self.prepare(rule): self._options.label_selector}

    def _create_reflector(self, rule: SyncRule, store: Store, selector: str) -> CrdReflector:
        return CrdReflector(
            self._client,
            rule.resource,
            store,
            side=self._options.side,
            loop_budget=self._options.loop_budget,
            is_budget_spent=self._options.is_budget_spent,
            on_served=partial(self._handle_complete, rule.resource.kind),
            label_selector=selector,
            is_built_in=rule.spec.definition == "BuiltIn",
            max_list_bytes=self._options.max_list_bytes,
        )

    def _stop(self, name: str) -> None:
        """End the watch of a rule. Its copies stay, and no key is reconciled without a cache."""
        watch = self._watches.pop(name)
        for task in watch.tasks:
            task.cancel()
        self._announce()
        _log.info("rule.stopped", rule=name, kind=watch.rule.resource.kind)

    def _handle_copy(self, name: str, _: Entry | None, new: Entry | None, __: bool) -> None:
        """Check a deleted rule again after the end of a copy."""
        watch = self._watches.get(name)
        if new is None and watch is not None and watch.rule.is_deleting:
            self._is_changed.set()

    def _handle_complete(self, kind: str) -> None:
        self._announce()
        for handler in self._on_complete:
            handler(kind)

    def is_complete(self, rule: SyncRule) -> bool:
        """Return whether absence in the caches of a rule means absence."""
        store = self._stores.get(rule.resource.kind)
        return store is not None and store.synced

    def _announce(self) -> None:
        for handler in self._subscribers:
            handler()
