"""Events on the agent's own pod that report the upstream of the node's pods, and the reason.

The module owns the output that an admin sees with `kubectl describe pod`. It must not know how the
upstream is chosen. Hazard: the agent must write no stronger object than an Event. A right to patch
the status of pods could give the agent another agent's address and so its certificate. A right to
write Leases could make its holder leader in place of vc-manager. API servers delete Events after 1
h, so an Event that still applies is written again.
"""

import asyncio
import contextlib
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import orjson
import structlog

from tenancy import wellknown
from vnagent.authz.metrics import ModeReason, UpstreamMode
from vnagent.client.https_client import HttpsClient
from vnagent.protocol.http_heads import InvalidResponseError
from vnagent.stream.tls_contexts import InvalidTrustError
from vnagent.upstream.upstream_mode import UpstreamState

REPEAT_SECONDS = 1800.0
RETRY_SECONDS = 60.0
MIN_EVENT_INTERVAL_SECONDS = 10.0
"""Interval in seconds between two Events in any case."""

_API_SERVER_TEXT = (
    "The certificate of the node's kubelet does not verify against agent.kubelet.ca. Tenants'"
    " logs, exec, attach and port-forward go through the API server. Pod metrics (`kubectl top`)"
    " and `run` are not available on this node."
)
_KUBELET_TEXT = (
    "The certificate of the node's kubelet verifies. Tenants' calls go directly to the kubelet."
)
_CONFIGURED_TEXT = (
    "By agent.upstream, tenants' logs, exec, attach and port-forward go through the API server."
    " Pod metrics (`kubectl top`) and `run` are not available on this node."
)
_EVENT_TEXTS: Mapping[str, tuple[str, str]] = {
    wellknown.UPSTREAM_API_SERVER: ("Warning", _API_SERVER_TEXT),
    wellknown.UPSTREAM_CONFIGURED: ("Normal", _CONFIGURED_TEXT),
    wellknown.UPSTREAM_KUBELET: ("Normal", _KUBELET_TEXT),
}
"""Type and message by reason."""

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class EventSubject:
    """The agent's own pod, and its node."""

    name: str
    namespace: str
    uid: str
    node: str


def get_event_reason(choice: UpstreamState) -> str:
    """Return the reason of the Event about an upstream."""
    if choice.mode is UpstreamMode.KUBELET:
        return wellknown.UPSTREAM_KUBELET
    return (
        wellknown.UPSTREAM_CONFIGURED
        if choice.reason is ModeReason.CONFIGURED
        else wellknown.UPSTREAM_API_SERVER
    )


def build_event(subject: EventSubject, reason: str, now: datetime) -> dict[str, Any]:
    """Return the Event about an upstream."""
    kind, message = _EVENT_TEXTS[reason]
    stamp = now.strftime("%Y-%m-%dT%H:%M:%SZ")
    pod = {"apiVersion": "v1", "kind": "Pod", "name": subject.name, "namespace": subject.namespace}
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {
            "name": f"{subject.name}.{secrets.token_hex(8)}",
            "namespace": subject.namespace,
        },
        "involvedObject": {**pod, "uid": subject.uid},
        "reason": reason,
        "type": kind,
        "message": message,
        "source": {"component": wellknown.AGENT, "host": subject.node},
        "firstTimestamp": stamp,
        "lastTimestamp": stamp,
        "count": 1,
    }


class UpstreamEvents:
    """Writer of Events while the upstream is not the kubelet, and when it is the kubelet again."""

    def __init__(self, api: HttpsClient, subject: EventSubject) -> None:
        self._api = api
        self._subject = subject
        self._reason = self._posted_reason = wellknown.UPSTREAM_KUBELET
        """The upstream in the last Event. Without any Event it is the usual one."""
        self._changed = asyncio.Event()

    def update(self, choice: UpstreamState) -> None:
        """Record the present upstream."""
        self._reason = get_event_reason(choice)
        self._changed.set()

    async def run(self) -> None:
        """Write Events when they are due, for ever."""
        patience = REPEAT_SECONDS
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(patience):
                    await self._changed.wait()
            self._changed.clear()
            patience, way = REPEAT_SECONDS, self._reason
            if way == self._posted_reason == wellknown.UPSTREAM_KUBELET:
                continue
            if await self._post(way):
                self._posted_reason = way
            else:
                patience = RETRY_SECONDS
            await asyncio.sleep(MIN_EVENT_INTERVAL_SECONDS)

    async def _post(self, way: str) -> bool:
        found = build_event(self._subject, way, datetime.now(UTC))
        path = f"/api/v1/namespaces/{self._subject.namespace}/events"
        try:
            answer = await self._api.request("POST", path, orjson.dumps(found))
        except (OSError, InvalidTrustError, InvalidResponseError) as error:
            _log.warning("Event not written", error=str(error))
            return False
        if answer.status != 201:
            _log.warning("Event not written", status=answer.status)
        return answer.status == 201
