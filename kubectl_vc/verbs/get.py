"""`kubectl vc get NAME`: one VirtualCluster, and its objects in the super cluster.

Owns the report: the object, its conditions, and its objects in the super cluster. Hazard: the first
half must be printed without rights in the super cluster. A user who may read a VirtualCluster does
not always have them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from kubectl_vc.client import lookup, readiness
from kubectl_vc.client.config_flags import ConfigFlags
from kubectl_vc.client.connection import connect_super_cluster
from kubectl_vc.output import cli_errors, durations, printers
from kubectl_vc.output.printers import OutputFormat
from kubectl_vc.output.terminal import Terminal
from kubectl_vc.verbs import listing
from kubeio import Object, errors
from kubeio.api.client import Client
from tenancy import specs, wellknown
from tenancy.ownership import Tenant
from tenancy.resources import NAMESPACES, NODES, PODS, VIRTUAL_CLUSTERS

_CONTROL_PLANE_LABEL = "(control plane)"


@dataclass(frozen=True, slots=True)
class SuperSummary:
    """The namespaces, pods and nodes of a tenant in the super cluster."""

    namespaces: Sequence[Mapping[str, Any]]
    pods: Sequence[Mapping[str, Any]]
    nodes: Sequence[Mapping[str, Any]]


async def run_get(
    access: ConfigFlags, terminal: Terminal, *, name: str, form: OutputFormat
) -> None:
    """Print one VirtualCluster. The table also has its objects in the super cluster."""
    async with connect_super_cluster(access) as connection:
        super_client = connection.super_client
        body = await lookup.fetch_virtual_cluster(connection, name)
        if form in (OutputFormat.JSON, OutputFormat.YAML):
            terminal.print_result(printers.format_document(body, form))
            return
        if form is OutputFormat.NAME:
            terminal.print_result(printers.format_full_name(VIRTUAL_CLUSTERS, name))
            return
        now = datetime.now(UTC)
        terminal.print_result(listing.build_table([body], now=now, everywhere=False, form=form))
        terminal.print_result(build_conditions_table(body, now) + build_targets_table(body))
        try:
            found = await _fetch_super_summary(
                super_client, specs.parse_virtual_cluster(body).tenant
            )
        except errors.Forbidden as problem:
            terminal.print_warning(
                f"Objects in the super cluster are not shown: {cli_errors.describe_error(problem)}"
            )
            return
    terminal.print_result(build_super_tables(found, now))


def build_conditions_table(body: Mapping[str, Any], now: datetime) -> str:
    """Return the conditions as a table, the summary first and then in work order."""
    found = (body.get("status") or {}).get("conditions") or []
    if not found:
        return "\nCONDITIONS: none yet. Check that vc-manager is running.\n"
    rows = [
        (
            each["type"],
            each["status"],
            each.get("reason", ""),
            durations.format_age(each.get("lastTransitionTime", ""), now),
            " ".join(each.get("message", "").split()),
        )
        for each in sorted(found, key=lambda each: readiness.rank_condition(each["type"]))
    ]
    return "\n" + printers.format_table(("condition", "status", "reason", "since", "message"), rows)


def build_targets_table(body: Mapping[str, Any]) -> str:
    """Return the table of targets in which it may have pods. Empty without any."""
    rows = [
        (str(each.get("name") or ""), str(each.get("phase") or ""), str(each.get("pods", "")))
        for each in (body.get("status") or {}).get("targets") or ()
    ]
    return "\n" + printers.format_table(("target", "phase", "pods"), rows) if rows else ""


def build_super_tables(found: SuperSummary, now: datetime) -> str:
    """Return the namespaces, pods and nodes of a tenant in the super cluster."""
    if not found.namespaces:
        return "\nIt has no namespaces in the super cluster yet.\n"
    namespaces = [
        (
            each["metadata"]["name"],
            _get_tenant_namespace(each) or _CONTROL_PLANE_LABEL,
            (each.get("status") or {}).get("phase", ""),
            durations.format_age(each["metadata"].get("creationTimestamp", ""), now),
        )
        for each in found.namespaces
    ]
    spaces = {row[0]: row[1] for row in namespaces}
    pods = [_build_pod_row(each, spaces, now) for each in found.pods]
    busy = [str((each.get("spec") or {}).get("nodeName") or "") for each in found.pods]
    nodes = [
        (
            each["metadata"]["name"],
            _format_node_status(each),
            str(busy.count(each["metadata"]["name"])),
        )
        for each in found.nodes
    ]
    pod_heads = ("pod", "super-namespace", "namespace", "ready", "status", "node", "age")
    return (
        "\n"
        + printers.format_table(("super-namespace", "namespace", "status", "age"), namespaces)
        + "\n"
        + printers.format_table(pod_heads, pods)
        + "\n"
        + printers.format_table(("node", "status", "pods"), nodes)
    )


async def _fetch_super_summary(super_client: Client, tenant: Tenant) -> SuperSummary:
    mine = f"{wellknown.VC_UID}={tenant.uid}"
    namespaces = (await super_client.list(NAMESPACES, label_selector=mine)).get("items") or []
    pods: list[Object] = []
    for each in namespaces:
        found = await super_client.list(PODS, namespace=each["metadata"]["name"])
        pods += found.get("items") or []
    busy = sorted({(pod.get("spec") or {}).get("nodeName") or "" for pod in pods} - {""})
    nodes: list[Object] = []
    for name in busy:
        try:
            nodes.append(await super_client.get(NODES, name))
        except errors.NotFound:
            continue  # a pod outlives its node for a while
    return SuperSummary(namespaces, pods, nodes)


def _get_tenant_namespace(namespace: Mapping[str, Any]) -> str:
    annotations = namespace["metadata"].get("annotations") or {}
    return str(annotations.get(wellknown.NAMESPACE) or "")


def _build_pod_row(
    pod: Mapping[str, Any], spaces: Mapping[str, str], now: datetime
) -> tuple[str, ...]:
    metadata, status = pod["metadata"], pod.get("status") or {}
    containers = status.get("containerStatuses") or []
    ready = sum(1 for each in containers if each.get("ready"))
    total = len((pod.get("spec") or {}).get("containers") or [])
    return (
        metadata["name"],
        metadata["namespace"],
        spaces.get(metadata["namespace"], ""),
        f"{ready}/{total}",
        format_pod_status(pod),
        str((pod.get("spec") or {}).get("nodeName") or ""),
        durations.format_age(metadata.get("creationTimestamp", ""), now),
    )


def format_pod_status(pod: Mapping[str, Any]) -> str:
    """Return a pod's status as kubectl shows it: the problem, otherwise the phase."""
    if "deletionTimestamp" in pod["metadata"]:
        return "Terminating"
    status = pod.get("status") or {}
    waiting = (
        (each.get("state") or {}).get("waiting") or (each.get("state") or {}).get("terminated")
        for each in [
            *(status.get("initContainerStatuses") or []),
            *(status.get("containerStatuses") or []),
        ]
    )
    reasons = (each.get("reason") for each in waiting if each)
    wrong = next((reason for reason in reasons if reason and reason != "Completed"), None)
    return str(wrong or status.get("reason") or status.get("phase") or "Unknown")


def _format_node_status(node: Mapping[str, Any]) -> str:
    found = (node.get("status") or {}).get("conditions") or []
    ready = next((each.get("status") for each in found if each.get("type") == "Ready"), "Unknown")
    cordoned = ",SchedulingDisabled" if (node.get("spec") or {}).get("unschedulable") else ""
    return {"True": "Ready", "False": "NotReady"}.get(str(ready), "Unknown") + cordoned
