"""`kubectl vc events NAME`: Events about a VirtualCluster and in its root namespace.

Owns their selection and order. Hazard: the first half must be printed without rights in the root
namespace. An owner of a VirtualCluster does not always have them.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from kubectl_vc.client import lookup
from kubectl_vc.client.config_flags import ConfigFlags
from kubectl_vc.client.connection import connect_super_cluster
from kubectl_vc.output import cli_errors, durations, printers
from kubectl_vc.output.terminal import Terminal
from kubeio import Object, errors
from kubeio.api.client import Client
from tenancy import specs
from tenancy.resources import EVENTS

HEADS = ("namespace", "last seen", "type", "reason", "object", "message")
_RETRY_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class EventSource:
    """Events of one namespace: about one object, or all."""

    namespace: str
    field_selector: str = ""


def list_sources(body: Mapping[str, Any]) -> tuple[EventSource, EventSource]:
    """Return the sources for a VirtualCluster: about itself, and in its root namespace."""
    tenant = specs.parse_virtual_cluster(body).tenant
    return (
        EventSource(tenant.namespace, f"involvedObject.uid={tenant.uid}"),
        EventSource(tenant.root),
    )


async def run_events(access: ConfigFlags, terminal: Terminal, *, name: str, watch: bool) -> None:
    """Print the Events, the newest last. With `watch`, go on with each new one."""
    async with connect_super_cluster(access) as connection:
        body = await lookup.fetch_virtual_cluster(connection, name)
        client = connection.super_client
        allowed, found = [], []
        for source in list_sources(body):
            try:
                found += await fetch_events(client, source)
                allowed.append(source)
            except errors.Forbidden as problem:
                terminal.print_warning(
                    f"Events in the namespace {source.namespace} are not shown:"
                    f" {cli_errors.describe_error(problem)}"
                )
        if found:
            terminal.print_result(build_table(found, datetime.now(UTC)))
        elif not watch:
            terminal.print_warning(f"No events found for VirtualCluster {name}.")
        if watch:
            await _follow(client, terminal, allowed, found)


async def fetch_events(super_client: Client, source: EventSource) -> list[Object]:
    """Return the Events of one source."""
    found = await super_client.list(
        EVENTS, namespace=source.namespace, field_selector=source.field_selector
    )
    return list(found.get("items") or [])


def build_table(events: Sequence[Mapping[str, Any]], now: datetime) -> str:
    """Return the table of Events, the newest last."""
    return printers.format_table(
        HEADS, [build_row(each, now) for each in sorted(events, key=get_time)]
    )


def build_row(event: Mapping[str, Any], now: datetime) -> tuple[str, ...]:
    """Return one Event as a row."""
    subject = event.get("involvedObject") or {}
    kind = str(subject.get("kind") or "").lower()
    stamp = get_time(event)
    count = int((event.get("series") or {}).get("count") or event.get("count") or 1)
    age = durations.format_age(stamp, now)
    return (
        str(event["metadata"].get("namespace") or ""),
        f"{age} (x{count})" if count > 1 else age,
        str(event.get("type") or ""),
        str(event.get("reason") or ""),
        f"{kind}/{subject.get('name') or ''}",
        " ".join(str(event.get("message") or "").split()),
    )


def get_time(event: Mapping[str, Any]) -> str:
    """Return when an Event was seen last, as RFC 3339."""
    return str(
        (event.get("series") or {}).get("lastObservedTime")
        or event.get("lastTimestamp")
        or event.get("eventTime")
        or event["metadata"].get("creationTimestamp")
        or ""
    )


async def _follow(
    super_client: Client,
    terminal: Terminal,
    sources: Sequence[EventSource],
    shown: Sequence[Mapping[str, Any]],
) -> None:
    """Print each Event that is new or counted again, until the command is interrupted."""
    seen = {_identify(each) for each in shown}
    queue: asyncio.Queue[Object] = asyncio.Queue()

    async def feed(source: EventSource) -> None:
        async for event in _iterate_events(super_client, source):
            await queue.put(event)

    async with asyncio.TaskGroup() as group:
        for source in sources:
            group.create_task(feed(source))
        while sources:
            event = await queue.get()
            if _identify(event) not in seen:
                seen.add(_identify(event))
                row = build_row(event, datetime.now(UTC))
                terminal.print_result(printers.format_row(row))


async def _iterate_events(super_client: Client, source: EventSource) -> AsyncIterator[Object]:
    """Yield the Events of a source now and as they come. A broken watch is renewed."""
    while True:
        try:
            found = await super_client.list(
                EVENTS, namespace=source.namespace, field_selector=source.field_selector
            )
            for each in found.get("items") or ():
                yield each
            async with super_client.watch(
                EVENTS,
                namespace=source.namespace,
                field_selector=source.field_selector,
                resource_version=found["metadata"]["resourceVersion"],
            ) as changes:
                async for change in changes:
                    if change.type in ("ADDED", "MODIFIED"):
                        yield change.decode()
        except (errors.Unavailable, errors.Gone, errors.TooManyRequests):
            pass
        await asyncio.sleep(_RETRY_SECONDS)


def _identify(event: Mapping[str, Any]) -> tuple[str, str]:
    return str(event["metadata"].get("uid") or ""), get_time(event)
