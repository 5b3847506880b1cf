"""Confirmations in annotations, which are removed once they took effect.

Must not know the meaning of a confirmation. Hazard: a confirmation must be removed, and only with
the value that was read. Otherwise it would end the next hold as well, or a newer one would be lost.
"""

import structlog

from kubeio import errors
from kubeio.api.client import Client
from kubeio.cache.store import Entry
from tenancy import wellknown
from tenancy.resources import Resource

_log: structlog.stdlib.BoundLogger = structlog.get_logger(__name__)


async def remove_confirmation(
    client: Client, resource: Resource, entry: Entry, *, annotation: str, confirmation: str
) -> None:
    """Remove a confirmation, unless its value has changed or the object is a different one."""
    path = f"/metadata/annotations/{annotation.replace('/', '~1')}"
    operations = [
        {"op": "test", "path": "/metadata/uid", "value": entry.uid},
        {"op": "test", "path": path, "value": confirmation},
        {"op": "remove", "path": path},
    ]
    try:
        await client.patch(
            resource,
            entry.name,
            operations,
            kind="json",
            namespace=entry.namespace,
            field_manager=wellknown.SYNCER,
        )
    except (errors.Invalid, errors.NotFound) as problem:
        _log.info("confirmation.changed", annotation=annotation, problem=str(problem))
