"""`kubectl vc list`, and `get` without a name: the existing VirtualClusters.

Owns the columns. Must not know how to print a table.
"""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from kubectl_vc.client.config_flags import Access
from kubectl_vc.client.connection import connected
from kubectl_vc.output import durations, printers
from kubectl_vc.output.printers import Format
from kubectl_vc.output.terminal import Terminal
from tenancy import conditions, wellknown
from tenancy.resources import VIRTUAL_CLUSTERS


async def run(access: Access, terminal: Terminal, *, everywhere: bool, form: Format) -> None:
    """Print the VirtualClusters of one namespace, or of all."""
    async with connected(access) as connection:
        namespace = "" if everywhere else connection.namespace
        found = await connection.super_client.list(VIRTUAL_CLUSTERS, namespace=namespace)
    items = [
        # Items of a list have no kind of their own. Printed alone they would lack it.
        {"apiVersion": VIRTUAL_CLUSTERS.api_version, "kind": VIRTUAL_CLUSTERS.kind, **item}
        for item in found.get("items") or []
    ]
    if form in (Format.JSON, Format.YAML):
        terminal.say(printers.document(printers.listed(items), form))
    elif form is Format.NAME:
        names = [printers.full_name(VIRTUAL_CLUSTERS, each["metadata"]["name"]) for each in items]
        terminal.say("".join(f"{name}\n" for name in names))
    elif items:
        terminal.say(table(items, now=datetime.now(UTC), everywhere=everywhere, form=form))
    else:
        where = "" if everywhere else f" in {namespace} namespace"
        terminal.warn(f"No VirtualClusters found{where}.")


def table(
    items: Sequence[Mapping[str, Any]], *, now: datetime, everywhere: bool, form: Format
) -> str:
    """Return the table of VirtualClusters."""
    heads = ["name", "phase", "ready", "version", "endpoint"]
    if form is Format.WIDE:
        heads += ["cluster-version", "root-namespace", "message"]
    heads = [*(["namespace"] if everywhere else []), *heads, "age"]
    rows = [_row(item, now) for item in items]
    return printers.table(heads, [[row[head] for head in heads] for row in rows])


def _row(item: Mapping[str, Any], now: datetime) -> dict[str, str]:
    metadata, status = item["metadata"], item.get("status") or {}
    ready = conditions.find(status.get("conditions"), wellknown.READY) or {}
    deleting = "deletionTimestamp" in metadata
    return {
        "namespace": metadata["namespace"],
        "name": metadata["name"],
        "phase": "Terminating" if deleting else str(status.get("phase") or "Pending"),
        "ready": str(ready.get("status") or "Unknown"),
        "version": str(status.get("version") or ""),
        "endpoint": str(status.get("endpoint") or ""),
        "cluster-version": str((item.get("spec") or {}).get("clusterVersionName") or ""),
        "root-namespace": str(status.get("clusterNamespace") or ""),
        "message": " ".join(str(ready.get("message") or "").split()),
        "age": durations.age(str(metadata.get("creationTimestamp") or ""), now),
    }
