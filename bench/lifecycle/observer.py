"""Process that only watches: its own watches, one clock, and the time of each first sight.

Run as `python -m bench.lifecycle.observer FILE`. The file names the clusters, each with its
kubeconfig and its side, `super` or `tenant`, and the kinds to watch. Commands are lines of JSON on
the standard input, answers are on the standard output, and `bench.lifecycle.observations` is the
client. Times are of CLOCK_MONOTONIC, which all processes of a machine share. Hazard: the observer
must decode only the fields that it needs. Its own work delays the times that it records.
"""

import asyncio
import gc
import json
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import msgspec
import uvloop

from kubeio import errors
from kubeio.api.client import Client
from kubeio.config import loading
from kubeio.http.rest import ClientOptions
from kubeio.http.watch_decoder import WatchEvent
from tenancy.resources import CONFIG_MAPS, PODS, SECRETS, Resource

KINDS = {resource.kind: resource for resource in (PODS, CONFIG_MAPS, SECRETS)}


class _ObservedCondition(msgspec.Struct):
    type: str = ""
    status: str = ""


class _ObservedStatus(msgspec.Struct, rename="camel"):
    conditions: list[_ObservedCondition] | None = None
    message: str = ""


class _ObservedMetadata(msgspec.Struct, rename="camel"):
    name: str
    namespace: str = ""
    deletion_timestamp: str = ""


class _ObservedSpec(msgspec.Struct, rename="camel"):
    node_name: str = ""


class _ObservedObject(msgspec.Struct):
    metadata: _ObservedMetadata
    spec: _ObservedSpec = msgspec.field(default_factory=_ObservedSpec)
    status: _ObservedStatus = msgspec.field(default_factory=_ObservedStatus)
    data: dict[str, str] | None = None


_DECODE = msgspec.json.Decoder(_ObservedObject)


class FirstSeen:
    """Times of first sight, by cluster, kind and name."""

    def __init__(self) -> None:
        self.prefix = ""
        self.stamps: dict[tuple[str, str, str], dict[str, float]] = {}
        self.counts: Counter[tuple[str, str, str]] = Counter()
        """Numbers of objects by side, kind and state."""
        self.events: Counter[tuple[str, str]] = Counter()
        self.changed = asyncio.Event()

    def begin(self, prefix: str) -> None:
        """Delete all records. From now on only names with this prefix are recorded."""
        self.prefix = prefix
        self.stamps.clear()
        self.counts.clear()
        self.events.clear()
        gc.collect()

    def take(self, now: float, cluster: str, side: str, kind: str, event: WatchEvent) -> None:
        """Record the time of each state that an event shows for the first time."""
        seen = _DECODE.decode(event.raw)
        name = seen.metadata.name
        if not name.startswith(self.prefix):
            return
        self.events[side, kind] += 1
        stamps = self.stamps.setdefault((cluster, kind, name), {})
        for what in _shown(event.type, seen):
            if what not in stamps:
                stamps[what] = now
                self.counts[side, kind, what] += 1
                self.changed.set()


def _shown(event: str, seen: _ObservedObject) -> list[str]:
    if event == "DELETED":
        return ["gone"]
    shown = ["added"]
    if seen.metadata.deletion_timestamp:
        shown.append("marked")
    if seen.spec.node_name:
        shown.append("bound")
    if any(c.type == "Ready" and c.status == "True" for c in seen.status.conditions or ()):
        shown.append("ready")
    if seen.status.message:
        shown.append(f"status:{seen.status.message}")
    if seen.data and "seq" in seen.data:
        shown.append(f"seq:{seen.data['seq']}")
    return shown


async def _watch(records: FirstSeen, client: Client, cluster: str, side: str, kind: str) -> None:
    """Watch one collection until cancelled."""
    resource: Resource = KINDS[kind]
    while True:
        try:
            async with client.watch(resource, initial_events=True, timeout_seconds=3600) as events:
                async for event in events:
                    now = time.monotonic()
                    if event.type != "BOOKMARK":
                        records.take(now, cluster, side, kind, event)
        except errors.KubeError as problem:
            sys.stderr.write(f"{cluster} {kind}: {problem}\n")
            await asyncio.sleep(0.1)


async def _answer(records: FirstSeen, command: dict[str, Any]) -> dict[str, Any]:
    match command["do"]:
        case "begin":
            records.begin(command["prefix"])
            return {}
        case "await":
            return await _await(records, command)
        case "take":
            stamps = [[*key, value] for key, value in records.stamps.items()]
            events = [[*key, count] for key, count in records.events.items()]
            return {"stamps": stamps, "events": events}
        case unknown:
            raise SystemExit(f"the command {unknown!r} is not known")


async def _await(records: FirstSeen, command: dict[str, Any]) -> dict[str, Any]:
    """Wait until enough objects were seen in a state, or until the time limit."""
    key = (command["side"], command["kind"], command["what"])
    ends = time.monotonic() + command["timeout"]
    while records.counts[key] < command["count"]:
        records.changed.clear()
        try:
            async with asyncio.timeout(ends - time.monotonic()):
                await records.changed.wait()
        except TimeoutError:
            break
    return {"count": records.counts[key]}


async def _commands(records: FirstSeen) -> None:
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=1 << 20)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    while line := await reader.readline():
        answer = await _answer(records, json.loads(line))
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


async def _run(plan: dict[str, Any]) -> None:
    records = FirstSeen()
    tasks: list[asyncio.Task[None]] = []
    for cluster in plan["clusters"]:
        endpoint = loading.load_tenant_kubeconfig(cluster["content"], name=cluster["name"])
        client = await Client(endpoint, ClientOptions(user_agent="observer")).__aenter__()
        tasks += [
            asyncio.create_task(_watch(records, client, cluster["name"], cluster["side"], kind))
            for kind in plan["kinds"]
        ]
    await _commands(records)  # until the standard input ends
    for task in tasks:
        task.cancel()


def main() -> int:
    """Watch until the standard input ends."""
    plan = json.loads(Path(sys.argv[1]).read_text())
    for cluster in plan["clusters"]:
        cluster["content"] = Path(cluster["kubeconfig"]).read_bytes()
    gc.disable()  # a pause would pass for the syncer's
    uvloop.run(_run(plan))
    return 0


if __name__ == "__main__":
    sys.exit(main())
