"""Live reads of values that the caches leave out, for the sync to the super cluster.

Owns the one way from an outline to the whole object. Must not know kinds. Hazard: the UID and the
deletion state must equal those in the cache. Otherwise the values would be those of a different
object or of a later state.
"""

import orjson

from kubeio import errors
from kubeio.cache.store import Entry, parse_entry
from kubeio.controller.worker import NotReadyYet
from syncer.rules.configuration import cache_transforms
from syncer.safety.guarded_writer import ObjectReader
from syncer.tenants.session import Session
from tenancy.resources import Resource

CACHE_BEHIND_SECONDS = 2.0


async def fetch_tenant_object(resource: Resource, tenant_x: Entry, session: Session) -> Entry:
    """Return a tenant object with its values. Raises Wait if the cache is behind."""
    return await _fetch_whole(resource, tenant_x, session.tenant_client)


async def fetch_super_object(resource: Resource, super_x: Entry, session: Session) -> Entry:
    """Return a super object with its values. Raises Wait if the cache is behind."""
    return await _fetch_whole(resource, super_x, session.super_client)


async def _fetch_whole(resource: Resource, entry: Entry, client: ObjectReader) -> Entry:
    if not cache_transforms.is_outline(entry.decode()):
        return entry
    try:
        live = await client.get(resource, entry.name, namespace=entry.namespace)
    except errors.NotFound as problem:
        raise NotReadyYet(
            "the object was deleted, the cache is behind", CACHE_BEHIND_SECONDS
        ) from problem
    found = parse_entry(orjson.dumps(cache_transforms.strip_outline_fields(live)))
    if found.uid != entry.uid or found.deleting != entry.deleting:
        raise NotReadyYet("the object was replaced, the cache is behind", CACHE_BEHIND_SECONDS)
    return found
