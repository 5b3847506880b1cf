"""A person's word in an annotation, which is taken off once it was used.

Must not know what the word ends. Hazard: one that stays ends the next hold as well, and one that
was changed meanwhile is another word.
"""

import structlog

from kubeio import errors
from kubeio.api.client import Client
from kubeio.cache.store import Entry
from tenancy import wellknown
from tenancy.resources import Resource

_log: structlog.stdlib.BoundLogger = structlog.get_logger(__name__)


async def take_off(
    client: Client, resource: Resource, entry: Entry, *, annotation: str, word: str
) -> None:
    """Take a word off an object, unless it says something else by now or is another one."""
    path = f"/metadata/annotations/{annotation.replace('/', '~1')}"
    operations = [
        {"op": "test", "path": "/metadata/uid", "value": entry.uid},
        {"op": "test", "path": path, "value": word},
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
