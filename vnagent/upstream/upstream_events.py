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
from vnagent.authz.metrics import Mode, Why
from vnagent.client.https_client import Origin
from vnagent.protocol.http_heads import ResponseProblemError
from vnagent.stream.tls_contexts import TrustProblemError
from vnagent.upstream.upstream_mode import Choice

AGAIN_SECONDS = 1800.0
RETRY_SECONDS = 60.0
SPACING_SECONDS = 10.0
"""Interval in seconds between two Events in any case."""

_AROUND = (
    "The certificate of the node's kubelet does not verify against agent.kubelet.ca. Tenants' logs,"
    " exec, attach and port-forward go through the API server; run and figures of pods, so also"
    " `kubectl top`, are not to be had on this node."
)
_STRAIGHT = "The certificate of the node's kubelet verifies. Tenants' calls go straight to it."
_CONFIGURED = (
    "By agent.upstream, tenants' logs, exec, attach and port-forward go through the API server; run"
    " and figures of pods, so also `kubectl top`, are not to be had on this node."
)
_TEXTS: Mapping[str, tuple[str, str]] = {
    wellknown.AGENT_AROUND: ("Warning", _AROUND),
    wellknown.AGENT_CONFIGURED: ("Normal", _CONFIGURED),
    wellknown.AGENT_STRAIGHT: ("Normal", _STRAIGHT),
}
"""Type and message by reason."""

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """The agent's own pod, and its node."""

    name: str
    namespace: str
    uid: str
    node: str


def reason_of(choice: Choice) -> str:
    """Return the reason of the Event about an upstream."""
    if choice.mode is Mode.KUBELET:
        return wellknown.AGENT_STRAIGHT
    return wellknown.AGENT_CONFIGURED if choice.why is Why.CONFIGURED else wellknown.AGENT_AROUND


def manifest(subject: Subject, reason: str, now: datetime) -> dict[str, Any]:
    """Return the Event about an upstream."""
    kind, message = _TEXTS[reason]
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


class Notices:
    """Writer of Events while the upstream is not the kubelet, and when it is the kubelet again."""

    def __init__(self, api: Origin, subject: Subject) -> None:
        self._api = api
        self._subject = subject
        self._way = self._told = wellknown.AGENT_STRAIGHT
        """The upstream in the last Event. Without any Event it is the usual one."""
        self._changed = asyncio.Event()

    def hear(self, choice: Choice) -> None:
        """Record the present upstream."""
        self._way = reason_of(choice)
        self._changed.set()

    async def keep(self) -> None:
        """Write Events when they are due, for ever."""
        patience = AGAIN_SECONDS
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(patience):
                    await self._changed.wait()
            self._changed.clear()
            patience, way = AGAIN_SECONDS, self._way
            if way == self._told == wellknown.AGENT_STRAIGHT:
                continue
            if await self._post(way):
                self._told = way
            else:
                patience = RETRY_SECONDS
            await asyncio.sleep(SPACING_SECONDS)

    async def _post(self, way: str) -> bool:
        found = manifest(self._subject, way, datetime.now(UTC))
        path = f"/api/v1/namespaces/{self._subject.namespace}/events"
        try:
            answer = await self._api.ask("POST", path, orjson.dumps(found))
        except (OSError, TrustProblemError, ResponseProblemError) as error:
            _log.warning("Event not written", error=str(error))
            return False
        if answer.status != 201:
            _log.warning("Event not written", status=answer.status)
        return answer.status == 201
