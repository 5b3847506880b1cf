"""Recorder of core v1 Events. Repeated Events are counted instead of created again.

Owns aggregation by (object, type, reason, message) and the loop that posts. Knows nothing of why.

Hazard: `record` must only queue an Event, because Events are advice to people. Otherwise posting an
Event delays or fails a reconcile. Events that cannot be posted are dropped and counted.
"""

import asyncio
import secrets
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal

import structlog

from kubeio import Object, errors
from kubeio.api.client import Client
from telemetry import metrics
from tenancy.conditions import format_time
from tenancy.control_characters import escape_control_characters
from tenancy.resources import EVENTS

EventSeverity = Literal["Normal", "Warning"]

MAX_MESSAGE = 1024
_MAX_PENDING = 1024
_MAX_REMEMBERED = 4096
_MAX_NAME_PREFIX = 236  # 253 less a dot and 16 hex digits

_log: structlog.stdlib.BoundLogger = structlog.get_logger(__name__)

_Identity = tuple[str, str, str, str, str, str, str]


@dataclass(slots=True)
class _PendingEvent:
    regarding: Mapping[str, str]
    kind: EventSeverity
    reason: str
    message: str
    count: int
    first: str
    last: str


@dataclass(slots=True)
class _PostedEvent:
    namespace: str
    name: str
    count: int


class EventRecorder:
    """Recorder of Events at one API server."""

    def __init__(
        self,
        client: Client,
        *,
        component: str,
        instance: str = "",
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        """Set `component`, the reporting program such as vc-syncer, and `instance`, its pod."""
        self._client = client
        self._component = component
        self._instance = instance or component
        self._now = now
        self._pending: OrderedDict[_Identity, _PendingEvent] = OrderedDict()
        self._posted: OrderedDict[_Identity, _PostedEvent] = OrderedDict()
        self._wake = asyncio.Event()

    def record(
        self,
        regarding: Mapping[str, Any],
        reason: str,
        message: str,
        *,
        kind: EventSeverity = "Normal",
    ) -> None:
        """Queue one Event about an object (its dict). Returns at once and never raises.

        `reason` is CamelCase with few values. `message` is a sentence for the object's owner.
        """
        reference = _build_reference(regarding)
        message = escape_control_characters(message)
        message = message if len(message) <= MAX_MESSAGE else message[: MAX_MESSAGE - 1] + "…"
        stamp = format_time(self._now())
        identity = _build_identity(reference, kind, reason, message)
        news = self._pending.get(identity)
        if news is not None:
            news.count += 1
            news.last = stamp
            return
        if len(self._pending) >= _MAX_PENDING:
            metrics.EVENTS_DROPPED.labels("full").inc()
            return
        self._pending[identity] = _PendingEvent(reference, kind, reason, message, 1, stamp, stamp)
        self._wake.set()

    async def run(self) -> None:
        """Post queued Events until cancelled."""
        while True:
            await self._wake.wait()
            while self._pending:
                identity, news = self._pending.popitem(last=False)
                try:
                    await self._post(identity, news)
                except errors.KubeError as problem:
                    metrics.EVENTS_DROPPED.labels("refused").inc()
                    _log.debug("event.dropped", reason=news.reason, problem=str(problem))
            self._wake.clear()

    async def _post(self, identity: _Identity, news: _PendingEvent) -> None:
        posted = self._posted.get(identity)
        if posted is not None:
            try:
                await self._increment_count(posted, news)
            except errors.NotFound:
                del self._posted[identity]  # servers delete Events after 1 h
            else:
                self._posted.move_to_end(identity)
                return
        body = self._build_event(news)
        await self._client.create(EVENTS, body)
        metadata = body["metadata"]
        self._posted[identity] = _PostedEvent(metadata["namespace"], metadata["name"], news.count)
        while len(self._posted) > _MAX_REMEMBERED:
            self._posted.popitem(last=False)

    async def _increment_count(self, posted: _PostedEvent, news: _PendingEvent) -> None:
        count = posted.count + news.count
        await self._client.patch(
            EVENTS,
            posted.name,
            {"count": count, "lastTimestamp": news.last},
            namespace=posted.namespace,
        )
        posted.count = count

    def _build_event(self, news: _PendingEvent) -> Object:
        name = news.regarding.get("name", "")[:_MAX_NAME_PREFIX].rstrip(".-")
        return {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {
                "name": f"{name}.{secrets.token_hex(8)}",
                "namespace": news.regarding.get("namespace") or "default",
            },
            "involvedObject": dict(news.regarding),
            "type": news.kind,
            "reason": news.reason,
            "message": news.message,
            "count": news.count,
            "firstTimestamp": news.first,
            "lastTimestamp": news.last,
            "source": {"component": self._component},
            "reportingComponent": self._component,
            "reportingInstance": self._instance,
        }


def _build_reference(regarding: Mapping[str, Any]) -> dict[str, str]:
    metadata = regarding.get("metadata") or {}
    fields = {
        "apiVersion": regarding.get("apiVersion"),
        "kind": regarding.get("kind"),
        "namespace": metadata.get("namespace"),
        "name": metadata.get("name"),
        "uid": metadata.get("uid"),
        "resourceVersion": metadata.get("resourceVersion"),
    }
    return {key: value for key, value in fields.items() if value}


def _build_identity(
    reference: Mapping[str, str], kind: str, reason: str, message: str
) -> _Identity:
    """Return the fields that identify an Event: all except times and resourceVersion."""
    return (
        reference.get("kind", ""),
        reference.get("namespace", ""),
        reference.get("name", ""),
        reference.get("uid", ""),
        kind,
        reason,
        message,
    )
