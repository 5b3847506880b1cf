"""Reservation of addresses in a tenant's service range that foreign Services use.

Owns the writes. Hazard: a tenant's address must never be taken back. Its allocator may have been
first, and then the tenant's own Service gets the refusal.
"""

import structlog

from kubeio import errors
from kubeio.controller.worker import Done, RequeueAfter, Result
from syncer.controllers import reverted_edits
from syncer.model.keys import ADDRESS, Key
from syncer.rules.network import cluster_ips
from syncer.safety.expectations import CACHE_BEHIND_SECONDS
from syncer.tenants.session import Session
from tenancy.resources import IP_ADDRESSES

_log: structlog.stdlib.BoundLogger = structlog.get_logger(__name__)


async def reconcile_address(key: Key, session: Session) -> Result:
    """Reserve or free one address."""
    below = session.connection.home_cluster.addresses.get("", key.name)
    reserved = session.stores[ADDRESS].get("", key.name)
    if session.twins.is_behind(key, reserved, None):
        return RequeueAfter(CACHE_BEHIND_SECONDS)
    taken = below is not None and cluster_ips.is_taken_by_other(below.decode(), session.view)
    if taken and reserved is None:
        try:
            reservation = cluster_ips.build_reservation(key.name)
            written = await session.writer.create_tenant_object(key, IP_ADDRESSES, reservation)
        except errors.AlreadyExists:
            return Done()  # a Service of the tenant has it, and its key reports that
        _log.info("address.reserved", address=key.name)
        await reverted_edits.report_recreated(key, IP_ADDRESSES, written, session)
    elif reserved is not None and not taken:
        if not await session.writer.delete_tenant_object(key, IP_ADDRESSES, reserved):
            return Done()
        _log.info("address.released", address=key.name)
    return Done()
