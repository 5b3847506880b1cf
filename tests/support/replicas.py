"""Two processes of one component that compete for its Lease, and the writer of each write.

Each names itself in its user agent, which the audit logs contain.
"""

from __future__ import annotations

import asyncio
import math
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

from kubeio.api.client import Client
from kubeio.errors import NotFound
from tenancy.resources import LEASES
from tests.support import alerts
from tests.support.controlplane import AuditMark, LocalControlPlane
from tests.support.eventually import eventually
from tests.support.processes import ProgramProcess, free_port

PATIENCE = 60.0
"""Limit in seconds for a hand-over with all work after it. The Lease's times set its duration."""
GOAL = 10.0
"""Goal in seconds for a hand-over, printed beside the measured time."""
_WRITES = frozenset({"create", "update", "patch", "delete"})
_NO_WRITES = frozenset({"leases", "selfsubjectreviews"})
_LEASE_IS_LOST = "lease.lost"


@dataclass(frozen=True)
class SentWrite:
    """One write that was sent, whatever came of it."""

    verb: str
    resource: str
    namespace: str
    name: str
    code: int
    at: float
    """When it was answered: seconds of the wall clock, by the API server."""

    @property
    def place(self) -> tuple[str, str, str]:
        """Target of a write."""
        return self.resource, self.namespace, self.name

    @property
    def was_accepted(self) -> bool:
        """Whether it took effect."""
        return self.code < 300


class SyncerProcess:
    """One process."""

    def __init__(
        self,
        module: str | Sequence[str],
        name: str,
        folder: Path,
        kubeconfig: bytes,
        words: Sequence[str] = (),
        *,
        env: Mapping[str, str] | None = None,
    ) -> None:
        """Start it. `module` is the program, with its own arguments if it has some."""
        program = (module,) if isinstance(module, str) else module
        self.name, self.port = name, free_port()
        file = folder / f"{name}.kubeconfig"
        file.write_bytes(kubeconfig)
        file.chmod(0o600)
        self.process = ProgramProcess(
            [
                *(sys.executable, "-m", *program, "--kubeconfig", str(file)),
                *("--port", str(self.port), *words),
            ],
            folder / f"{name}.log",
            {"POD_NAME": name, "KUBECONFIG": "/nonexistent", **(env or {})},
        )

    async def scrape(self) -> alerts.AlertScrape:
        """Return its output."""
        return alerts.scraped(await fetch(self.port, "/metrics"), instance=self.name)

    def lost_its_lease(self) -> bool:
        """Return whether the process has ended for that."""
        return self.process.has_ended and _LEASE_IS_LOST in self.process.log.read_text()


class ReplicaPair:
    """Two replicas and the audit logs of the API servers that they write to."""

    def __init__(
        self,
        both: tuple[SyncerProcess, SyncerProcess],
        *,
        client: Client,
        lease: tuple[str, str],
        agent: str,
        planes: Sequence[LocalControlPlane],
    ) -> None:
        """`lease` is namespace and name, `agent` begins the user agent."""
        self.both = both
        self._client, self._lease = client, lease
        self._agent, self._planes = agent, planes

    async def lease(self) -> Mapping[str, Any]:
        """Return the Lease's spec, empty while there is none."""
        namespace, name = self._lease
        try:
            return dict((await self._client.get(LEASES, name, namespace=namespace))["spec"])
        except NotFound:
            return {}

    async def holder(self) -> str:
        """Return the name of the replica that has the Lease."""
        return str((await self.lease()).get("holderIdentity") or "").split("_")[0]

    async def settled(self) -> tuple[SyncerProcess, SyncerProcess]:
        """Wait until both run and one works. Return it and the waiting one."""
        first, second = self.both
        for replica in self.both:
            await eventually(partial(fetch, replica.port, "/healthz"), within=PATIENCE)
        names = {first.name, second.name}
        name = await eventually(self.holder, until=names.__contains__, within=PATIENCE)
        return (first, second) if first.name == name else (second, first)

    def mark(self) -> list[AuditMark]:
        """Return this moment in the audit logs."""
        return [plane.audit_mark() for plane in self._planes]

    def writes(self, replica: SyncerProcess, marked: Iterable[AuditMark]) -> list[SentWrite]:
        """Return what a replica wrote or tried to write since then.

        The Lease is left out, and so is what stores nothing: each replica reviews its own account.
        """
        found = [
            _attempt(event)
            for plane, since in zip(self._planes, marked, strict=True)
            for event in plane.audit_events(since)
            if _is_write(event) and event["userAgent"] == f"{self._agent}/{replica.name}"
        ]
        return [attempt for attempt in found if attempt.resource not in _NO_WRITES]

    def hand_over(
        self, standby: SyncerProcess, killed: float, marked: Iterable[AuditMark]
    ) -> float:
        """Return the seconds from `killed`, by the wall clock, to the standby's first write.

        NaN when it wrote nothing. The Lease is no write: what it is held for is what counts.
        """
        accepted = (each.at for each in self.writes(standby, marked) if each.was_accepted)
        return min(accepted, default=math.nan) - killed

    async def stop(self) -> None:
        """End both."""
        for replica in self.both:
            await replica.process.stop()


async def fetch(port: int, path: str) -> str:
    """Return the answer of a probe. Raises AssertionError for an unhealthy or missing one."""
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
    except OSError as problem:
        raise AssertionError(f"nobody answers: {problem}") from problem
    writer.write(f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
    answer = (await reader.read()).decode()
    writer.close()
    head, _, body = answer.partition("\r\n\r\n")
    assert head.splitlines()[0].endswith("200 OK"), answer
    return body


def _is_write(event: Mapping[str, Any]) -> bool:
    return event["verb"] in _WRITES and event["stage"] == "ResponseComplete"


def _attempt(event: Mapping[str, Any]) -> SentWrite:
    at = event["objectRef"]
    body = event.get("requestObject") or {}
    return SentWrite(
        verb=event["verb"],
        resource="/".join(filter(None, (at["resource"], at.get("subresource", "")))),
        namespace=at.get("namespace", ""),
        name=at.get("name") or (body.get("metadata") or {}).get("name") or "",
        code=event["responseStatus"]["code"],
        at=datetime.fromisoformat(event["stageTimestamp"]).timestamp(),
    )
