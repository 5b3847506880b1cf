"""Reservation of addresses in a tenant's service range that foreign Services use.

Owns the writes. Hazard: a tenant's address must never be taken back. Its allocator may have been
first, and then the tenant's own Service gets the refusal.
"""

import structlog

from kubeio import errors
from kubeio.controller.worker import Again, Done, Verdict
from syncer.model.keys import ADDRESS, Key
from syncer.rules.network import cluster_ips
from syncer.safety.expectations import BEHIND_SECONDS, Side
from syncer.tenants.session import Session
from tenancy import wellknown
from tenancy.resources import IP_ADDRESSES

_log: structlog.stdlib.BoundLogger = structlog.get_logger(__name__)


async def reconcile(key: Key, session: Session) -> Verdict:
    """Reserve or free one address."""
    below = session.link.home.addresses.get("", key.name)
    reserved = session.stores[ADDRESS].get("", key.name)
    if session.is_behind(key, reserved, None):
        return Again(BEHIND_SECONDS)
    taken = below is not None and cluster_ips.is_taken_by_others(below.decode(), session.view)
    if taken and reserved is None:
        try:
            written = await session.tenant_client.create(
                IP_ADDRESSES, cluster_ips.reservation(key.name), field_manager=wellknown.SYNCER
            )
        except errors.AlreadyExists:
            return Done()  # a Service of the tenant has it, and its key reports that
        session.expectations.wrote(Side.TENANT, key, written["metadata"]["resourceVersion"])
        session.fuse.wrote(key)
        _log.info("address.reserved", address=key.name)
    elif reserved is not None and not taken:
        try:
            await session.tenant_client.delete(IP_ADDRESSES, key.name, uid=reserved.uid)
        except errors.NotFound:
            return Done()
        session.expectations.deleted(Side.TENANT, key, reserved)
        session.fuse.wrote(key)
        _log.info("address.freed", address=key.name)
    return Done()
