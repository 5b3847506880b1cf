"""Caches of the home cluster for the kinds of SyncRules. They begin and end while the syncer runs.

Owns the watches of these kinds. Must not know tenants: `TenantManager` chooses the rules of each.
Hazard: a rule may be used only once its cache is complete. Otherwise each copy counts as absent,
and is created a second time.
"""

import asyncio
import contextlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial

import structlog

from kubeio import errors
from kubeio.api.client import Client
from kubeio.cache.crd_reflector import CrdReflector
from kubeio.cache.store import Entry, Store
from kubeio.loop_budget import LoopBudget
from syncer.rules.custom import hostnames
from tenancy import wellknown
from tenancy.resources import SYNC_RULES
from tenancy.specs import InvalidSpecError
from tenancy.sync_rules.checks import find_problem
from tenancy.sync_rules.specs import SyncRule, is_reported, parse_sync_rule

FOREIGN_SELECTOR = f"!{wellknown.CONTROLLED}"
"""Selector of objects that are no copies of tenants."""
RELEASE_RETRY_SECONDS = 10.0
"""Retry interval in seconds for a finalizer that could not be removed."""

_log: structlog.stdlib.BoundLogger = structlog.get_logger(__name__)


@dataclass(slots=True)
class _RuledWatch:
    """The running watch of one rule."""

    rule: SyncRule
    tasks: tuple[asyncio.Task[None], ...]


def _get_watched(rule: SyncRule) -> tuple[object, ...]:
    """Return the parts of a rule whose change begins its watch again."""
    return rule.resource, rule.spec.hostnames


def _set_indexes(store: Store, rule: SyncRule) -> None:
    for name, index in hostnames.build_indexes(rule).items():
        store.set_index(name, index)


class RuledCaches:
    """Caches of all kinds that SyncRules declare."""

    def __init__(
        self,
        client: Client,
        rules: Store,
        stores: dict[str, Store],
        *,
        label_selector: str,
        create_store: Callable[[], Store],
        loop_budget: LoopBudget,
        is_budget_spent: Callable[[], bool],
    ) -> None:
        """`stores` are those of the home cluster, to which copies of the kinds are added.

        `label_selector` selects copies. `create_store` returns a cache for them.
        """
        self._client = client
        self._rules = rules
        self._stores = stores
        self._label_selector = label_selector
        self._create_store = create_store
        self._loop_budget = loop_budget
        self._is_budget_spent = is_budget_spent
        self._sources: dict[str, Store] = {}
        """Shown objects by kind, of rules with the direction Mirror."""
        self._foreign: dict[str, Store] = {}
        """Objects of no tenant by kind, of rules with host names."""
        self._watches: dict[str, _RuledWatch] = {}
        """Running watches by the name of the rule."""
        self._is_changed = asyncio.Event()
        self._subscribers: list[Callable[[], None]] = []
        self._on_added: list[Callable[[str, Store], None]] = []
        self._on_source: Callable[[str, Entry | None, Entry | None], None] = lambda _, __, ___: None
        self._on_hosts: Callable[[frozenset[str]], None] = lambda _: None
        self._on_complete: Callable[[str], None] = lambda _: None
        rules.subscribe(self._handle_rule)

    def subscribe_kinds(
        self,
        on_added: Callable[[str, Store], None],
        on_source: Callable[[str, Entry | None, Entry | None], None],
        on_hosts: Callable[[frozenset[str]], None],
        on_complete: Callable[[str], None],
    ) -> None:
        """Set the handlers of the home cluster.

        `on_added` gets the kind and the new cache of a rule with the direction Down. `on_source`
        gets each change of a shown object. `on_hosts` gets hosts that an object has acquired or
        released. `on_complete` gets the kind of each rule whose cache has become complete.
        """
        self._on_source, self._on_hosts, self._on_complete = on_source, on_hosts, on_complete
        self.subscribe_added(on_added)

    def subscribe_added(self, handler: Callable[[str, Store], None]) -> None:
        """Call a function with the kind and the new cache of each rule with the direction Down."""
        self._on_added.append(handler)

    def subscribe(self, handler: Callable[[], None]) -> None:
        """Call a function after each change of the usable rules."""
        self._subscribers.append(handler)

    def list_usable(self) -> Iterable[SyncRule]:
        """Return the rules that tenants may use now."""
        return [
            watch.rule
            for watch in self._watches.values()
            if self._is_complete(watch.rule) and not watch.rule.is_deleting
        ]

    def get_host_stores(self) -> Mapping[str, Store]:
        """Return the caches of objects with host names. Copies have the kind as key."""
        found: dict[str, Store] = {}
        for rule in (each.rule for each in self._watches.values() if each.rule.spec.hostnames):
            kind = rule.resource.kind
            found |= {kind: self._stores[kind], f"{kind} of no tenant": self._foreign[kind]}
        return found

    def list_sources(self, kind: str) -> Iterable[Entry]:
        """Return the objects of the super cluster of a kind that a rule shows."""
        store = self._sources.get(kind)
        return store.list() if store is not None else ()

    def get_source(self, kind: str, namespace: str, name: str) -> Entry | None:
        """Return an object of the super cluster of a kind that a rule shows."""
        store = self._sources.get(kind)
        return store.get(namespace, name) if store is not None and store.synced else None

    def is_source_synced(self, kind: str) -> bool:
        """Return whether absence in the cache of a shown kind means absence."""
        store = self._sources.get(kind)
        return store is not None and store.synced

    def deletes_copies(self, kind: str) -> bool:
        """Return whether copies of a kind are deleted where its rule does not apply."""
        rule = self.get_rule(kind)
        return rule is not None and rule.spec.removal_policy == "Delete"

    def get_rule(self, kind: str) -> SyncRule | None:
        """Return the watched rule of a kind."""
        return next(
            (each.rule for each in self._watches.values() if each.rule.resource.kind == kind), None
        )

    async def run(self) -> None:
        """Start and stop watches as rules change, until cancelled."""
        async with asyncio.TaskGroup() as group:
            while True:
                self._is_changed.clear()
                self._apply_rules(group)
                is_done = await self._release_deleted()
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(None if is_done else RELEASE_RETRY_SECONDS):
                        await self._is_changed.wait()

    async def _release_deleted(self) -> bool:
        """Remove the finalizer of each deleted rule that has no copy left.

        Returns False if a rule must be tried again without an event. Hazard: a rule without a
        watch may be released only after vc-manager has reported about its deletion. Until then a
        syncer that has just started does not know whether the rule has copies.
        """
        is_done = True
        for entry in self._rules.list():
            body = entry.decode() if entry.deleting else {"metadata": {}}
            held = body["metadata"].get("finalizers") or []
            watch = self._watches.get(entry.name)
            if wellknown.SYNC_RULE_FINALIZER not in held:
                continue
            if watch is None and not is_reported(body):
                continue  # the report is an event
            if watch is not None:
                store = self._get_store(watch.rule)
                is_done &= store.synced  # the end of the last copy is an event
                if not store.synced or len(store):
                    continue
            patch = {
                "metadata": {
                    "uid": entry.uid,
                    "resourceVersion": entry.resource_version,
                    "finalizers": [each for each in held if each != wellknown.SYNC_RULE_FINALIZER],
                }
            }
            try:
                await self._client.patch(
                    SYNC_RULES, entry.name, patch, field_manager=wellknown.SYNCER
                )
            except errors.NotFound:
                continue
            except errors.KubeError as problem:
                _log.warning("rule.not_released", rule=entry.name, problem=str(problem))
                is_done = False
        return is_done

    def _handle_rule(self, *_: object) -> None:
        self._is_changed.set()

    def _apply_rules(self, group: asyncio.TaskGroup) -> None:
        wanted = {rule.name: rule for rule in self._list_ready()}
        for name, watch in list(self._watches.items()):
            rule = wanted.get(name)
            if rule is None or _get_watched(rule) != _get_watched(watch.rule):
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
            if (rule.is_ready or (rule.is_deleting and rule.name in self._watches))
            and find_problem(rule, parsed) is None
        ]

    def _start(self, rule: SyncRule, group: asyncio.TaskGroup) -> None:
        kind = rule.resource.kind
        if rule.is_down:
            store = self._stores.get(kind)
            if store is None:
                store = self._stores[kind] = self._create_store()
                for handler in self._on_added:
                    handler(kind, store)
                store.subscribe(partial(self._handle_copy, rule.name))
                store.subscribe(partial(self._handle_hosts, kind))
            _set_indexes(store, rule)
        else:
            store = self._sources.get(kind)
            if store is None:
                store = self._sources[kind] = Store()
                store.subscribe(lambda old, new, _: self._on_source(kind, old, new))
        followed = {store: self._label_selector if rule.is_down else ""}
        if rule.spec.hostnames:
            followed[self._get_foreign_store(rule)] = FOREIGN_SELECTOR
        tasks = tuple(
            group.create_task(
                self._create_reflector(rule, each, selector).run(),
                name=f"ruled-{rule.resource.plural}",
            )
            for each, selector in followed.items()
        )
        self._watches[rule.name] = _RuledWatch(rule, tasks)
        _log.info("rule.started", rule=rule.name, kind=kind)

    def _get_foreign_store(self, rule: SyncRule) -> Store:
        """Return the cache of objects of no tenant, whose hosts are taken, too."""
        kind = rule.resource.kind
        store = self._foreign.get(kind)
        if store is None:
            store = self._foreign[kind] = Store()
            store.subscribe(partial(self._handle_hosts, kind))
        _set_indexes(store, rule)
        return store

    def _create_reflector(self, rule: SyncRule, store: Store, selector: str) -> CrdReflector:
        return CrdReflector(
            self._client,
            rule.resource,
            store,
            side="super",
            loop_budget=self._loop_budget,
            is_budget_spent=self._is_budget_spent,
            on_served=partial(self._handle_complete, rule.resource.kind),
            label_selector=selector,
            is_built_in=rule.spec.definition == "BuiltIn",
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
        self._on_complete(kind)

    def _handle_hosts(self, kind: str, old: Entry | None, new: Entry | None, _: bool) -> None:
        """Report the hosts that an object has acquired or released."""
        rule = self.get_rule(kind)
        if rule is None or not rule.spec.hostnames:
            return
        before, now = (
            hostnames.list_hosts(each.decode(), rule.spec.hostnames) if each else frozenset()
            for each in (old, new)
        )
        if before != now:
            self._on_hosts(before ^ now)

    def _is_complete(self, rule: SyncRule) -> bool:
        """Return whether absence in the caches of a rule means absence."""
        foreign = self._foreign.get(rule.resource.kind) if rule.spec.hostnames else None
        return self._get_store(rule).synced and (foreign is None or foreign.synced)

    def _get_store(self, rule: SyncRule) -> Store:
        stores: Mapping[str, Store] = self._stores if rule.is_down else self._sources
        return stores[rule.resource.kind]

    def _announce(self) -> None:
        for handler in self._subscribers:
            handler()
