"""`kubectl vc target list`: the declared SuperClusters.

Owns the columns, and the one way to find a SuperCluster. Must not know how to print a table.
"""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from kubectl_vc.client.config_flags import ConfigFlags
from kubectl_vc.client.connection import connect_super_cluster
from kubectl_vc.output import durations, printers
from kubectl_vc.output.printers import OutputFormat
from kubectl_vc.output.terminal import Terminal
from kubeio import Object
from kubeio.api.client import Client
from tenancy import conditions, super_clusters
from tenancy.resources import SUPER_CLUSTERS


async def run_target_list(access: ConfigFlags, terminal: Terminal, *, form: OutputFormat) -> None:
    """Print the SuperClusters."""
    async with connect_super_cluster(access) as connection:
        items = await fetch_super_clusters(connection.super_client)
    if form in (OutputFormat.JSON, OutputFormat.YAML):
        terminal.print_result(printers.format_document(printers.build_list(items), form))
    elif form is OutputFormat.NAME:
        names = [
            printers.format_full_name(SUPER_CLUSTERS, each["metadata"]["name"]) for each in items
        ]
        terminal.print_result("".join(f"{name}\n" for name in names))
    elif items:
        terminal.print_result(build_table(items, now=datetime.now(UTC), form=form))
    else:
        terminal.print_warning("No SuperClusters found. Add one with `kubectl vc target join`.")


async def fetch_super_clusters(super_client: Client) -> list[Object]:
    """Return all SuperClusters with all their fields."""
    found = await super_client.list(SUPER_CLUSTERS)
    return [
        {"apiVersion": SUPER_CLUSTERS.api_version, "kind": SUPER_CLUSTERS.kind, **item}
        for item in found.get("items") or []
    ]


def build_table(items: Sequence[Mapping[str, Any]], *, now: datetime, form: OutputFormat) -> str:
    """Return the table of SuperClusters."""
    heads = ["name", "ready", "reachable", "authorized", "version", "nodes"]
    if form is OutputFormat.WIDE:
        heads += ["cpu", "memory", "overlap", "secret", "message"]
    heads.append("age")
    rows = [_build_row(item, now) for item in items]
    return printers.format_table(heads, [[row[head] for head in heads] for row in rows])


def _build_row(item: Mapping[str, Any], now: datetime) -> dict[str, str]:
    metadata, status = item["metadata"], item.get("status") or {}
    spec, capacity = item.get("spec") or {}, status.get("capacity") or {}
    listed = status.get("conditions")

    def state(kind: str) -> str:
        return str((conditions.find_condition(listed, kind) or {}).get("status") or "Unknown")

    ready = conditions.find_condition(listed, super_clusters.READY) or {}
    return {
        "name": metadata["name"],
        "ready": state(super_clusters.READY),
        "reachable": state(super_clusters.REACHABLE),
        "authorized": state(super_clusters.AUTHORIZED),
        "version": str(status.get("version") or ""),
        "nodes": str(status.get("nodes", "")),
        "cpu": str(capacity.get("cpu") or ""),
        "memory": str(capacity.get("memory") or ""),
        "overlap": state(super_clusters.NETWORKS_OVERLAP),
        "secret": str((spec.get("secretRef") or {}).get("name") or ""),
        "message": " ".join(str(ready.get("message") or "").split()),
        "age": durations.format_age(str(metadata.get("creationTimestamp") or ""), now),
    }
