"""`kubectl vc why KIND/NAME`: the layer that holds a tenant's object, and the next command.

Owns the order of the work and the report. Must not write to any cluster. Hazard: with `as_tenant`
the report must be built from `ObjectFacts` without `super_facts` only.
"""

import contextlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from kubectl_vc.client import lookup
from kubectl_vc.client.config_flags import ConfigFlags
from kubectl_vc.client.connection import DEFAULT_NAMESPACE, SuperConnection, connect_super_cluster
from kubectl_vc.diagnosis import (
    kind_discovery,
    object_collection,
    object_kinds,
    tenant_access,
)
from kubectl_vc.diagnosis.layer_table import Diagnosis, diagnose
from kubectl_vc.diagnosis.layers import LAYERS
from kubectl_vc.diagnosis.object_facts import (
    ObjectFacts,
    get_event_time,
    get_message,
    get_metadata,
    get_spec,
    get_status,
)
from kubectl_vc.diagnosis.object_kinds import ObjectName, ObjectQuery
from kubectl_vc.output import durations
from kubectl_vc.output.cli_errors import NotFoundError, UsageError, describe_error
from kubectl_vc.output.printers import ReportFormat
from kubectl_vc.output.terminal import Terminal
from kubeio import errors
from tenancy import names, specs
from tenancy.resources import PODS


@dataclass(frozen=True, slots=True, kw_only=True)
class WhyOptions:
    """The flags of `why`."""

    virtual_cluster: str
    """`[NAMESPACE/]NAME`. Empty: the kubeconfig is the tenant's own."""
    as_tenant: bool
    manager_namespace: str
    form: ReportFormat


async def run_why(
    access: ConfigFlags, terminal: Terminal, *, wanted: str, options: WhyOptions
) -> None:
    """Print which layer holds an object. Raises NotFoundError if it does not exist."""
    name = object_kinds.parse_object_name(wanted)
    facts = await _collect(access, name, options)
    if facts.tenant_object is None and facts.copy is None and not _is_unreadable(facts):
        place = f"{facts.namespace}/" if facts.namespace else ""
        raise NotFoundError(
            f"{facts.kind} {place}{facts.name} was not found in the virtual cluster. Check the name"
            " and -n."
        )
    found = diagnose(facts, LAYERS)
    if options.form is ReportFormat.JSON:
        terminal.print_result(json.dumps(build_document(facts, found), indent=4))
    else:
        terminal.print_result(build_report(facts, found))


def _is_unreadable(facts: ObjectFacts) -> bool:
    return bool(facts.tenant_problem) or not facts.is_tenant_known


async def _collect(access: ConfigFlags, query: ObjectQuery, options: WhyOptions) -> ObjectFacts:
    namespace = access.namespace or DEFAULT_NAMESPACE
    if not options.virtual_cluster:
        # The kubeconfig is the tenant's own, also in a context of `kubectl vc connect`.
        async with connect_super_cluster(access, is_super=False) as connection:
            tenant_client = connection.super_client
            wanted = await kind_discovery.find_object(tenant_client, query)
            return await object_collection.collect_tenant_facts(
                tenant_client, wanted, connection.namespace
            )
    place, name = object_kinds.parse_tenant_name(options.virtual_cluster)
    if access.namespace and not names.is_dns_label(access.namespace):
        raise UsageError(f"-n {access.namespace!r} is not a namespace. Correct it.")
    async with connect_super_cluster(replace(access, namespace=place)) as connection:
        return await _collect_both(connection, name, query, namespace, options)


async def _collect_both(
    connection: SuperConnection,
    name: str,
    query: ObjectQuery,
    namespace: str,
    options: WhyOptions,
) -> ObjectFacts:
    body = await lookup.fetch_virtual_cluster(connection, name)
    tenant = specs.parse_virtual_cluster(body).tenant
    wanted: ObjectName | None = None
    facts: ObjectFacts | None = None
    tenant_problem, missing = "", ""
    unknown: tuple[str, ...] = ()
    try:
        async with tenant_access.connect_tenant(connection, tenant) as client:
            wanted = await kind_discovery.find_object(client, query)
            facts = await object_collection.collect_tenant_facts(client, wanted, namespace)
    except tenant_access.NoTenantAccessError as problem:
        if options.as_tenant:
            raise
        if problem.is_missing:
            missing = problem.what
        else:
            unknown = (problem.what,)
    except errors.KubeError as problem:
        if options.as_tenant and wanted is None and query.resource is None:
            raise  # a tenant's view must not ask the super cluster for the kind
        tenant_problem = describe_error(problem)
    if wanted is None:
        wanted = await kind_discovery.find_object(connection.super_client, query)
    if facts is None:
        facts = ObjectFacts(
            kind=wanted.kind,
            name=wanted.name,
            namespace=namespace if wanted.resource.namespaced else "",
            now=datetime.now(UTC),
            ruled="Down" if wanted.is_custom else "",
            is_ruled_known=False,
            tenant_problem=tenant_problem,
            is_tenant_known=False,
        )
    if options.as_tenant:
        return facts
    super_facts = await object_collection.collect_super_facts(
        connection.super_client,
        body,
        tenant,
        facts,
        PODS if facts.kind == PODS.kind else wanted.resource,
        manager_namespace=options.manager_namespace,
    )
    unknown = (*unknown, *super_facts.unknown)
    super_facts = replace(super_facts, missing_kubeconfig=missing, unknown=unknown)
    return replace(facts, super_facts=super_facts)


def build_report(facts: ObjectFacts, found: Diagnosis) -> str:
    """Return the lines for people."""
    rows = [(key, value) for key, value in _list_rows(facts, found) if value]
    width = max(len(key) for key, _ in rows) + 2
    return "".join(f"{key + ':':<{width}}{value}\n" for key, value in rows)


def _list_rows(facts: ObjectFacts, found: Diagnosis) -> list[tuple[str, str]]:
    held = found.layer if found.is_held else f"nothing ({found.layer})"
    if found.layer == "none":
        held = "nothing"
    return [
        ("Object", f"{facts.kind} {_join(facts.namespace, facts.name)}"),
        ("Wanted since", _format_time(facts, facts.wanted_since)),
        ("Tenant", _describe_tenant_side(facts)),
        ("Copy", _describe_copy(facts)),
        ("Node", _describe_node(facts)),
        ("Last Event", _describe_last_event(facts)),
        ("Held by", held),
        ("Since", _format_time(facts, found.finding.since)),
        ("Reason", found.finding.sentence),
        ("Next", found.finding.next_command),
    ]


def build_document(facts: ObjectFacts, found: Diagnosis) -> dict[str, Any]:
    """Return the report as a document for programs."""
    document: dict[str, Any] = {
        "kind": facts.kind,
        "namespace": facts.namespace,
        "name": facts.name,
        "wantedSince": facts.wanted_since,
        "tenant": _describe_tenant_side(facts),
        "node": str(get_spec(facts.pod).get("nodeName") or ""),
        "lastEvent": _describe_last_event(facts),
        "held": found.is_held,
        "layer": found.layer,
        "since": found.finding.since,
        "reason": found.finding.sentence,
        "next": found.finding.next_command,
    }
    if not facts.is_tenant_view:
        document["copy"] = _describe_copy(facts)
    return document


def _join(namespace: str, name: str) -> str:
    return f"{namespace}/{name}" if namespace else name


def _format_time(facts: ObjectFacts, stamp: str) -> str:
    if not stamp:
        return ""
    with contextlib.suppress(ValueError):
        return f"{stamp} ({durations.format_age(stamp, facts.now)} ago)"
    return stamp


def _describe_state(body: Mapping[str, Any]) -> str:
    metadata, phase = get_metadata(body), str(get_status(body).get("phase") or "")
    state = "being deleted" if "deletionTimestamp" in metadata else "exists"
    return f"{state}, {phase}" if phase else state


def _describe_tenant_side(facts: ObjectFacts) -> str:
    if facts.tenant_object is not None:
        return _describe_state(facts.tenant_object)
    return "unknown" if _is_unreadable(facts) else "does not exist"


def _describe_copy(facts: ObjectFacts) -> str:
    found = facts.super_facts
    if found is None or not facts.has_copies:
        return ""
    if found.copy is None:
        elsewhere = "not in the home cluster" if found.targets else "unknown"
        return "none" if found.is_copy_known else elsewhere
    metadata = get_metadata(found.copy)
    place = _join(str(metadata.get("namespace") or ""), str(metadata.get("name") or ""))
    return f"{facts.kind} {place}, {_describe_state(found.copy)}"


def _describe_node(facts: ObjectFacts) -> str:
    if facts.pod is None:
        return ""
    return str(get_spec(facts.pod).get("nodeName") or "none")


def _describe_last_event(facts: ObjectFacts) -> str:
    if not facts.events:
        return "none"
    event = facts.events[-1]
    age = ""
    with contextlib.suppress(ValueError):
        age = f" ({durations.format_age(get_event_time(event), facts.now)} ago)"
    return f"{event.get('reason')}{age}: {get_message(event)}"
