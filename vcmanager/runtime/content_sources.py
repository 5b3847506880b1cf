"""Watches on the objects of the super cluster that vc-manager puts into tenants.

Owns which tenant depends on which objects. Must not read their content: a reconcile reads it live.
Hazard: only the metadata of chosen namespaces and objects is kept. The super cluster may have any
number of Secrets.
"""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from kubeio.api.client import Client
from kubeio.cache.reflector import Reflector, ReflectorOptions
from kubeio.cache.scoped_reflector import ScopedReflector
from kubeio.cache.store import Entry, Store
from tenancy import wellknown
from tenancy.resources import CONFIG_MAPS, NAMESPACES, SECRETS
from vcmanager.runtime.keys import ReconcileKey

_METADATA = ReflectorOptions(metadata_only=True, side="super")


class ContentSource(NamedTuple):
    """Objects of a kind in a namespace, or one of them."""

    kind: str
    namespace: str
    name: str = ""


class ContentSources:
    """The sources of all tenants."""

    def __init__(self, enqueue: Callable[[ReconcileKey], None]) -> None:
        """`enqueue` gets the key of each tenant whose source has changed."""
        self._enqueue = enqueue
        self._sources: dict[ReconcileKey, frozenset[ContentSource]] = {}
        self._watched: set[ContentSource] = set()
        self._watches: dict[str, ScopedReflector] = {}

    def set_sources(self, key: ReconcileKey, sources: frozenset[ContentSource]) -> None:
        """Record the sources of a tenant, and watch exactly those of all tenants."""
        if sources:
            self._sources[key] = sources
        else:
            self._sources.pop(key, None)
        self._adjust()

    def has_sources(self, key: ReconcileKey) -> bool:
        """Return whether a tenant has sources."""
        return key in self._sources

    async def run(self, super_client: Client) -> None:
        """Watch until cancelled."""
        namespaces = Store()
        options = ReflectorOptions(
            label_selector=wellknown.SHARED_SOURCE, metadata_only=True, side="super"
        )
        namespaces.subscribe(self._handle_namespace)
        for resource in (CONFIG_MAPS, SECRETS):
            store = Store()
            store.subscribe(partial(self._handle_object, resource.kind))
            watch = ScopedReflector(super_client, resource, store, _METADATA)
            self._watches[resource.kind] = watch
        self._adjust()
        async with asyncio.TaskGroup() as group:
            for watch in self._watches.values():
                group.create_task(watch.run())
            group.create_task(Reflector(super_client, NAMESPACES, namespaces, options).run())

    def _adjust(self) -> None:
        if not self._watches:
            return
        wanted = {source for sources in self._sources.values() for source in sources}
        for source in self._watched - wanted:
            self._watches[source.kind].stop(source.namespace, source.name)
        for source in wanted - self._watched:
            self._watches[source.kind].start(source.namespace, source.name)
        self._watched = wanted

    def _handle_object(self, kind: str, old: Entry | None, new: Entry | None, live: bool) -> None:
        entry = new or old
        if entry is None or not live:
            return  # a reconcile that adds a source reads it itself
        affected = {
            ContentSource(kind, entry.namespace),
            ContentSource(kind, entry.namespace, entry.name),
        }
        self._wake(lambda source: source in affected)

    def _handle_namespace(self, old: Entry | None, new: Entry | None, _: bool) -> None:
        entry = new or old
        if entry is not None and (old is None or new is None or old.labels != new.labels):
            self._wake(lambda source: source.namespace == entry.name)

    def _wake(self, is_affected: Callable[[ContentSource], bool]) -> None:
        for key, sources in self._sources.items():
            if any(map(is_affected, sources)):
                self._enqueue(key)
