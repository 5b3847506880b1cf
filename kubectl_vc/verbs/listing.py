"""`kubectl vc list`, and `get` without a name: the existing VirtualClusters.

Owns the columns. Must not know how to print a table.
"""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from kubectl_vc.client.config_flags import ConfigFlags
from kubectl_vc.client.connection import connect_super_cluster
from kubectl_vc.output import durations, printers
from kubectl_vc.output.printers import OutputFormat
from kubectl_vc.output.terminal import Terminal
from tenancy import conditions, wellknown
from tenancy.resources import VIRTUAL_CLUSTERS


async def run_list(
    access: ConfigFlags, terminal: Terminal, *, everywhere: bool, form: OutputFormat
) -> None:
    """Print the VirtualClusters of one namespace, or of all."""
    async with connect_super_cluster(access) as connection:
        namespace = "" if everywhere else connection.namespace
        found = await connection.super_client.list(VIRTUAL_CLUSTERS, namespace=namespace)
    items = [
        # Items of a list have no kind of their own. Printed alone they would lack it.
        {"apiVersion": VIRTUAL_CLUSTERS.api_version, "kind": VIRTUAL_CLUSTERS.kind, **item}
        for item in found.get("items") or []
    ]
    if form in (OutputFormat.JSON, OutputFormat.YAML):
        terminal.print_result(printers.format_document(printers.build_list(items), form))
    elif form is OutputFormat.NAME:
        names = [
            printers.format_full_name(VIRTUAL_CLUSTERS, each["metadata"]["name"]) for each in items
        ]
        terminal.print_result("".join(f"{name}\n" for name in names))
    elif items:
        terminal.print_result(
            build_table(items, now=datetime.now(UTC), everywhere=everywhere, form=form)
        )
    else:
        where = "" if everywhere else f" in {namespace} namespace"
        terminal.print_warning(f"No VirtualClusters found{where}.")


def build_table(
    items: Sequence[Mapping[str, Any]], *, now: datetime, everywhere: bool, form: OutputFormat
) -> str:
    """Return the table of VirtualClusters."""
    heads = ["name", "phase", "ready", "version", "endpoint"]
    if form is OutputFormat.WIDE:
        heads += ["cluster-version", "root-namespace", "message"]
    heads = [*(["namespace"] if everywhere else []), *heads, "age"]
    rows = [_build_row(item, now) for item in items]
    return printers.format_table(heads, [[row[head] for head in heads] for row in rows])


def _build_row(item: Mapping[str, Any], now: datetime) -> dict[str, str]:
    metadata, status = item["metadata"], item.get("status") or {}
    ready = conditions.find_condition(status.get("conditions"), wellknown.READY) or {}
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
        "age": durations.format_age(str(metadata.get("creationTimestamp") or ""), now),
    }
