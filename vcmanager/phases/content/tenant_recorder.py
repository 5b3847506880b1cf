"""Events of vc-manager in a tenant, about objects that the tenant can see.

Hazard: an Event is advice. A tenant that rejects it must not stop a reconcile.
"""

import hashlib

import structlog

from kubeio import Object, errors
from kubeio.api.client import Client
from tenancy import conditions, wellknown
from tenancy.resources import EVENTS
from vcmanager.runtime.context import ReconcileContext

_MAX_NAME_LENGTH = 200

_log: structlog.stdlib.BoundLogger = structlog.get_logger(__name__)


async def record(
    means: ReconcileContext, client: Client, regarding: Object, *, reason: str, message: str
) -> None:
    """Create one Event about an object of the tenant. The same text is not repeated for 1 h.

    API servers delete an Event after this time.
    """
    metadata = regarding["metadata"]
    text = f"{metadata.get('uid', '')} {reason} {message}"
    digest = hashlib.sha256(text.encode(errors="replace")).hexdigest()[:16]
    involved = {
        "apiVersion": "v1",
        "kind": regarding["kind"],
        "name": metadata["name"],
        "namespace": metadata["namespace"],
        "uid": metadata.get("uid", ""),
    }
    event = build_event(
        f"{metadata['name'][:_MAX_NAME_LENGTH]}.{digest}",
        involved,
        reason=reason,
        message=message,
        stamp=conditions.format_time(means.now()),
    )
    try:
        await client.create(EVENTS, event, field_manager=wellknown.MANAGER)
    except errors.AlreadyExists:
        return
    except errors.KubeError as problem:
        _log.info("tenant.event_dropped", reason=reason, problem=str(problem))


def build_event(name: str, involved: Object, *, reason: str, message: str, stamp: str) -> Object:
    """Return a Warning of vc-manager about an object of the tenant. `stamp` is its time."""
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": name, "namespace": involved["namespace"]},
        "involvedObject": involved,
        "type": "Warning",
        "reason": reason,
        "message": message,
        "source": {"component": wellknown.MANAGER},
        "firstTimestamp": stamp,
        "lastTimestamp": stamp,
        "count": 1,
    }
