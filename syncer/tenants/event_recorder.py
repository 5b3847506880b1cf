"""Events in a tenant about its own objects, each posted once.

Owns their names and the posting. Must not add names of the super cluster: callers pass texts that
have none. Hazard: an Event must be posted again only with a new text. Otherwise every restart would
write one for each object that is held back.
"""

import base64
import hashlib
import math
import time
from collections import OrderedDict
from datetime import UTC, datetime
from typing import Literal

import structlog

from kubeio import Object, errors
from kubeio.api.client import Client
from kubeio.cache.store import Entry
from tenancy import wellknown
from tenancy.conditions import format_time
from tenancy.control_characters import escape_control_characters
from tenancy.resources import EVENTS, Resource

_MAX_REMEMBERED = 4096
_MAX_MESSAGE = 1024  # the API refuses longer messages
_MAX_NAME_PREFIX = 230

TenantEventType = Literal["Normal", "Warning"]

_log: structlog.stdlib.BoundLogger = structlog.get_logger(__name__)


class TenantEventRecorder:
    """Posts Events in one tenant."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._recorded: OrderedDict[str, float] = OrderedDict()

    async def record(
        self,
        resource: Resource,
        entry: Entry,
        *,
        reason: str,
        message: str,
        kind: TenantEventType = "Warning",
        repeat_seconds: float = math.inf,
    ) -> None:
        """Post an Event about a tenant object, unless the tenant has it already.

        If the tenant refuses the Event, it is lost. The sync goes on. After `repeat_seconds` the
        same Event is posted again, because its cause has occurred again.
        """
        message = escape_control_characters(message)
        name, now = _build_name(entry, reason, message), time.monotonic()
        if now - self._recorded.get(name, -math.inf) < repeat_seconds:
            self._recorded.move_to_end(name)
            return
        namespace = entry.namespace or "default"
        event = {
            **_build_reference(resource, entry),
            "metadata": {"name": name, "namespace": namespace},
            "reason": reason,
            "message": message[:_MAX_MESSAGE],
            "type": kind,
        }
        try:
            await self._client.get(EVENTS, name, namespace=namespace, metadata_only=True)
        except errors.NotFound:
            try:
                await self._client.create(EVENTS, event)
            except errors.AlreadyExists:
                pass
            except errors.ApiError as problem:
                # A quota or a webhook of the tenant refuses it. The next resync posts the Event
                # again.
                _log.info("event.refused", reason=reason, problem=str(problem))
                return
        self._recorded[name] = now
        self._recorded.move_to_end(name)
        if len(self._recorded) > _MAX_REMEMBERED:
            self._recorded.popitem(last=False)


def _build_name(entry: Entry, reason: str, message: str) -> str:
    digest = hashlib.sha256(f"{entry.uid}/{reason}/{message}".encode()).digest()
    return f"{entry.name[:_MAX_NAME_PREFIX]}.{base64.b32encode(digest).decode()[:16].lower()}"


def _build_reference(resource: Resource, entry: Entry) -> Object:
    now = format_time(datetime.now(UTC))
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "involvedObject": {
            "apiVersion": resource.api_version,
            "kind": resource.kind,
            "namespace": entry.namespace,
            "name": entry.name,
            "uid": entry.uid,
        },
        "count": 1,
        "firstTimestamp": now,
        "lastTimestamp": now,
        "source": {"component": wellknown.SYNCER},
        "reportingComponent": wellknown.SYNCER,
    }
