"""Caches of the home cluster for the kinds of SyncRules.

Owns the objects that rules show to tenants, the hosts of objects of no tenant, and the end of a
deleted rule. `syncer.clusters.ruled_caches` has what every super cluster does. Hazard: the
finalizer of a rule must stay until no super cluster has a copy. Otherwise copies are never deleted.
"""

from collections.abc import Callable, Iterable, Mapping
from functools import partial

import structlog

from kubeio import errors
from kubeio.api.client import Client
from kubeio.cache.store import Entry, Store
from syncer.clusters.ruled_caches import RuledCacheOptions, RuledCaches
from syncer.rules.custom import hostnames, mirror_owner
from tenancy import wellknown
from tenancy.resources import SYNC_RULES
from tenancy.sync_rules.specs import SyncRule, is_reported

FOREIGN_SELECTOR = f"!{wellknown.CONTROLLED}"
"""Selector of objects that are no copies of tenants."""
OWNER_INDEX = "owner"
"""Index of shown objects that have one owner: the super namespace of the owner's copy."""

_log: structlog.stdlib.BoundLogger = structlog.get_logger(__name__)


def list_owners(rule: SyncRule, entry: Entry) -> Iterable[str]:
    """Return the index values of a shown object: the super namespace of its one owner."""
    if rule.spec.mirror_owner is None:
        return ()
    owner = mirror_owner.find_owner_namespace(rule, entry.decode())
    return (owner,) if owner is not None else ()


def _set_indexes(store: Store, rule: SyncRule) -> None:
    for name, index in hostnames.build_indexes(rule).items():
        store.set_index(name, index)


def find_no_copies(_: SyncRule) -> bool:
    """Return False, because there is no other super cluster."""
    return False


class HomeRuledCaches(RuledCaches):
    """Caches of all kinds that SyncRules declare."""

    def __init__(
        self, client: Client, rules: Store, stores: dict[str, Store], options: RuledCacheOptions
    ) -> None:
        super().__init__(client, rules, stores, options)
        self._may_be_elsewhere: Callable[[SyncRule], bool] = find_no_copies
        self._sources: dict[str, Store] = {}
        """Shown objects by kind, of rules with the direction Mirror."""
        self._foreign: dict[str, Store] = {}
        """Objects of no tenant by kind, of rules with host names."""
        self._on_source: Callable[[str, Entry | None, Entry | None], None] = lambda _, __, ___: None
        self._on_hosts: Callable[[frozenset[str]], None] = lambda _: None

    def set_other_clusters(self, may_have_copies: Callable[[SyncRule], bool]) -> None:
        """Set the function that returns whether a target may have copies of a rule."""
        self._may_be_elsewhere = may_have_copies

    def subscribe_objects(
        self,
        on_source: Callable[[str, Entry | None, Entry | None], None],
        on_hosts: Callable[[frozenset[str]], None],
    ) -> None:
        """Set the handlers of the home cluster.

        `on_source` gets each change of a shown object. `on_hosts` gets hosts that an object has
        acquired or released.
        """
        self._on_source, self._on_hosts = on_source, on_hosts

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

    def list_owned_sources(self, kind: str, super_namespace: str) -> Iterable[Entry]:
        """Return the shown objects of a kind whose owner has a copy in a super namespace."""
        store = self._sources.get(kind)
        return store.index(OWNER_INDEX, super_namespace) if store is not None else ()

    def get_source(self, kind: str, namespace: str, name: str) -> Entry | None:
        """Return an object of the super cluster of a kind that a rule shows."""
        store = self._sources.get(kind)
        return store.get(namespace, name) if store is not None and store.synced else None

    def is_source_synced(self, kind: str) -> bool:
        """Return whether absence in the cache of a shown kind means absence."""
        store = self._sources.get(kind)
        return store is not None and store.synced

    async def _finish_rules(self) -> bool:
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
                if watch.rule.follows_pods and self._may_be_elsewhere(watch.rule):
                    is_done = False  # an end in a target is no event here
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

    def _is_for_cluster(self, rule: SyncRule) -> bool:  # noqa: ARG002
        """Return True, because every rule applies to the home cluster."""
        return True

    def _get_watched(self, rule: SyncRule) -> tuple[object, ...]:
        return rule.resource, rule.spec.hostnames, rule.spec.mirror_owner

    def prepare(self, rule: SyncRule) -> Store:
        """Return the cache for the copies of a rule, with the indexes of its hosts."""
        kind = rule.resource.kind
        is_new = kind not in self._stores
        store = super().prepare(rule)
        if is_new:
            store.subscribe(partial(self._handle_hosts, kind))
        _set_indexes(store, rule)
        return store

    def _prepare_stores(self, rule: SyncRule) -> Mapping[Store, str]:
        if not rule.is_down:
            return {self._prepare_source(rule): ""}
        stores = dict(super()._prepare_stores(rule))
        if rule.spec.hostnames:
            stores[self._prepare_foreign(rule)] = FOREIGN_SELECTOR
        return stores

    def _prepare_source(self, rule: SyncRule) -> Store:
        """Return the cache of shown objects, with the index of their owners."""
        kind = rule.resource.kind
        store = self._sources.get(kind)
        if store is None:
            store = self._sources[kind] = Store()
            store.subscribe(lambda old, new, _: self._on_source(kind, old, new))
        store.set_index(OWNER_INDEX, partial(list_owners, rule))
        return store

    def _prepare_foreign(self, rule: SyncRule) -> Store:
        """Return the cache of objects of no tenant, whose hosts are taken, too."""
        kind = rule.resource.kind
        store = self._foreign.get(kind)
        if store is None:
            store = self._foreign[kind] = Store()
            store.subscribe(partial(self._handle_hosts, kind))
        _set_indexes(store, rule)
        return store

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

    def is_complete(self, rule: SyncRule) -> bool:
        """Return whether absence in the caches of a rule means absence."""
        foreign = self._foreign.get(rule.resource.kind) if rule.spec.hostnames else None
        return self._get_store(rule).synced and (foreign is None or foreign.synced)

    def _get_store(self, rule: SyncRule) -> Store:
        stores: Mapping[str, Store] = self._stores if rule.is_down else self._sources
        return stores[rule.resource.kind]
