"""`kubectl vc describe NAME`: all about one VirtualCluster, in sections as kubectl describe.

Owns the sections. Hazard: a section without rights must have a note, and the other sections must be
printed. A user who may read a VirtualCluster does not always have rights in its root namespace.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from kubectl_vc.client import lookup, readiness
from kubectl_vc.client.config_flags import ConfigFlags
from kubectl_vc.client.connection import connect_super_cluster
from kubectl_vc.inspection import events
from kubectl_vc.output import cli_errors, description, durations, printers
from kubectl_vc.output.terminal import Terminal
from kubectl_vc.verbs import certs, get
from kubeio import errors
from kubeio.api.client import Client
from tenancy import conditions, policies, specs, wellknown
from tenancy.ownership import Tenant
from tenancy.resources import CONFIG_MAPS, PODS

_POD_HEADS = ("pod", "ready", "status", "restarts", "node", "age")


async def run_describe(access: ConfigFlags, terminal: Terminal, *, name: str) -> None:
    """Print one VirtualCluster, its control plane, certificates and Events."""
    async with connect_super_cluster(access) as connection:
        client = connection.super_client
        body = await lookup.fetch_virtual_cluster(connection, name)
        tenant = specs.parse_virtual_cluster(body).tenant
        now = datetime.now(UTC)
        sections = [
            ("Components", lambda: _fetch_components(client, tenant, now)),
            ("Certificates", lambda: _fetch_certificates(client, tenant, now)),
            ("Events", lambda: _fetch_events(client, body, now)),
        ]
        fetched = [(title, await _try_section(fetch)) for title, fetch in sections]
    terminal.print_result(build_description(body, now, fetched))


def build_description(
    body: Mapping[str, Any], now: datetime, fetched: Sequence[tuple[str, str]]
) -> str:
    """Return the whole text. `fetched` has the sections that need further requests. Pure."""
    text = description.format_fields(_list_fields(body, now))
    text += description.format_section("Conditions", get.build_conditions_table(body, now))
    for title, fields in (
        ("Restore", _list_restore(body)),
        ("Rollout", _list_rollout(body)),
    ):
        if fields:
            text += description.format_section(title, description.format_fields(fields))
    targets = get.build_targets_table(body)
    if targets:
        text += description.format_section("Targets", targets)
    return text + "".join(description.format_section(title, each) for title, each in fetched)


def build_components(pods: Sequence[Mapping[str, Any]], now: datetime) -> str:
    """Return the table of a control plane's pods. Pure."""
    rows = [_build_pod_row(each, now) for each in pods]
    return printers.format_table(_POD_HEADS, rows) if rows else ""


def _list_fields(body: Mapping[str, Any], now: datetime) -> list[description.Field]:
    metadata, status, spec = body["metadata"], body.get("status") or {}, body.get("spec") or {}
    created = str(metadata.get("creationTimestamp") or "")
    policy = (spec.get("policyRef") or {}).get("name")
    fields: list[description.Field] = [
        ("Name", metadata["name"]),
        ("Namespace", metadata["namespace"]),
        ("Labels", description.format_map(metadata.get("labels"))),
        ("Annotations", description.format_map(metadata.get("annotations"), ": ")),
        ("Created", f"{created} ({durations.format_age(created, now)})"),
        ("UID", str(metadata.get("uid") or "")),
        ("Phase", _get_phase(body)),
        ("Version", str(status.get("version") or "")),
        ("Cluster Version", str(spec.get("clusterVersionName") or "")),
        ("Policy", str(policy or f"{policies.DEFAULT_POLICY_NAME} (default)")),
        ("Endpoint", str(status.get("endpoint") or "")),
        ("Service CIDR", str(status.get("serviceCidr") or spec.get("serviceCidr") or "")),
        ("Root Namespace", str(status.get("clusterNamespace") or "")),
    ]
    if "deletionTimestamp" in metadata:
        fields.append(("Deleting Since", str(metadata["deletionTimestamp"])))
    blocker = readiness.assess_readiness(body).blocker
    if blocker is not None:
        fields.append(("Waiting For", str(blocker)))
    return fields


def _get_phase(body: Mapping[str, Any]) -> str:
    deleting = "deletionTimestamp" in body["metadata"]
    return "Terminating" if deleting else str((body.get("status") or {}).get("phase") or "Pending")


def _list_restore(body: Mapping[str, Any]) -> list[description.Field]:
    found = (body.get("status") or {}).get("restore") or {}
    names = ("phase", "request", "reason", "message")
    return [(name.capitalize(), str(found[name])) for name in names if found.get(name)]


def _list_rollout(body: Mapping[str, Any]) -> list[description.Field]:
    """Return the fields of a change of the control plane. Empty without one in progress."""
    found = conditions.find_condition(
        (body.get("status") or {}).get("conditions"), wellknown.CONTROL_PLANE_UP_TO_DATE
    )
    if found is None or found.get("status") == "True":
        return []
    return [
        ("Reason", str(found.get("reason") or "")),
        ("Message", " ".join(str(found.get("message") or "").split())),
    ]


async def _try_section(fetch: Callable[[], Awaitable[str]]) -> str:
    try:
        return await fetch()
    except errors.Forbidden as problem:
        return f"<not shown: {cli_errors.describe_error(problem)}>"
    except (errors.NotFound, cli_errors.CliError):
        return ""


async def _fetch_components(super_client: Client, tenant: Tenant, now: datetime) -> str:
    found = await super_client.list(PODS, namespace=tenant.root)
    return build_components(found.get("items") or [], now)


async def _fetch_certificates(super_client: Client, tenant: Tenant, now: datetime) -> str:
    table = await super_client.get(CONFIG_MAPS, wellknown.CERTIFICATES, namespace=tenant.root)
    return certs.build_table(certs.parse_rows(table), now=now)


async def _fetch_events(super_client: Client, body: Mapping[str, Any], now: datetime) -> str:
    about, inside = events.list_sources(body)
    found = await events.fetch_events(super_client, about)
    note = ""
    try:
        found += await events.fetch_events(super_client, inside)
    except errors.Forbidden as problem:
        note = f"<root namespace not shown: {cli_errors.describe_error(problem)}>\n"
    return (events.build_table(found, now) if found else "") + note


def _build_pod_row(pod: Mapping[str, Any], now: datetime) -> tuple[str, ...]:
    containers = (pod.get("status") or {}).get("containerStatuses") or []
    ready = sum(1 for each in containers if each.get("ready"))
    restarts = sum(int(each.get("restartCount") or 0) for each in containers)
    return (
        pod["metadata"]["name"],
        f"{ready}/{len((pod.get('spec') or {}).get('containers') or [])}",
        get.format_pod_status(pod),
        str(restarts),
        str((pod.get("spec") or {}).get("nodeName") or ""),
        durations.format_age(pod["metadata"].get("creationTimestamp", ""), now),
    )
