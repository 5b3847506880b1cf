"""From the super object back to the tenant, by the row: status, and the few spec fields that rise.

Owns the order of the writes. Must not know single kinds. Hazard: what it writes is what the super
cluster says, so a status that a tenant forged is overwritten, and nothing of the tenant's own spec
may be in a row's upward part.
"""

import structlog

from kubeio import Object
from kubeio.store import Entry
from syncer.expectations import Side
from syncer.keys import Key
from syncer.kinds import Flow, Kind
from syncer.session import Session
from tenancy import marks

_log: structlog.stdlib.BoundLogger = structlog.get_logger(__name__)


async def carry(kind: Kind, key: Key, tenant_x: Entry, live: Object, session: Session) -> None:
    """Write what differs in the tenant, if anything does."""
    if kind.flow is not Flow.DOWN_UP:
        return
    own = tenant_x.decode()
    for function, subresource in ((kind.up_spec, ""), (kind.up_status, "status")):
        body = function(own, live) if function is not None else None
        if body is not None:
            await write(kind, key, body, session, subresource=subresource)


async def write(
    kind: Kind, key: Key, body: Object, session: Session, *, subresource: str = ""
) -> None:
    """Merge a body into the tenant object; the UID in it proves that it is the one meant."""
    written = await session.tenant_client.patch(
        kind.resource,
        key.name,
        body,
        namespace=key.namespace,
        subresource=subresource,
        field_manager=marks.SYNCER,
    )
    session.expectations.wrote(Side.TENANT, key, written["metadata"]["resourceVersion"])
    session.fuse.wrote(key)
    _log.debug("tenant.changed", part=subresource or "spec")
