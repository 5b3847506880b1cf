"""Reservation of addresses in a tenant's service range that foreign Services use.

Owns the writes. Hazard: a tenant's address must never be taken back. Its allocator may have been
first, and then the tenant's own Service gets the refusal.
"""

import structlog

from kubeio import errors
from kubeio.controller.worker import Done, RequeueAfter, Result
from syncer.model.keys import ADDRESS, Key
from syncer.rules.network import cluster_ips
from syncer.safety.expectations import CACHE_BEHIND_SECONDS, ClusterSide
from syncer.tenants.session import Session
from tenancy import wellknown
from tenancy.resources import IP_ADDRESSES

_log: structlog.stdlib.BoundLogger = structlog.get_logger(__name__)


async def reconcile_address(key: Key, session: Session) -> Result:
    """Reserve or free one address."""
    below = session.connection.home_cluster.addresses.get("", key.name)
    reserved = session.stores[ADDRESS].get("", key.name)
    if session.is_behind(key, reserved, None):
        return RequeueAfter(CACHE_BEHIND_SECONDS)
    taken = below is not None and cluster_ips.is_taken_by_other(below.decode(), session.view)
    if taken and reserved is None:
        try:
            written = await session.tenant_client.create(
                IP_ADDRESSES,
                cluster_ips.build_reservation(key.name),
                field_manager=wellknown.SYNCER,
            )
        except errors.AlreadyExists:
            return Done()  # a Service of the tenant has it, and its key reports that
        session.expectations.expect_update(
            ClusterSide.TENANT, key, written["metadata"]["resourceVersion"]
        )
        session.hot_loop_guard.count_write(key)
        _log.info("address.reserved", address=key.name)
    elif reserved is not None and not taken:
        try:
            await session.tenant_client.delete(IP_ADDRESSES, key.name, uid=reserved.uid)
        except errors.NotFound:
            return Done()
        session.expectations.expect_delete(ClusterSide.TENANT, key, reserved)
        session.hot_loop_guard.count_write(key)
        _log.info("address.freed", address=key.name)
    return Done()
