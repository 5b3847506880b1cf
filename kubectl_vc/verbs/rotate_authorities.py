"""`kubectl vc certs rotate`: the request to rotate authorities of a virtual cluster.

vc-manager moves the stages. Must not read a Secret of a tenant. Hazard: a forced drop ends every
credential of the old authority. It needs the authority's name, and the stage that precedes it.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from kubectl_vc.client import lookup
from kubectl_vc.client.config_flags import ConfigFlags
from kubectl_vc.client.connection import SuperConnection, connect_super_cluster
from kubectl_vc.output import cli_errors, printers
from kubectl_vc.output.cli_errors import CliError, UsageError
from kubectl_vc.output.terminal import Terminal
from kubeio import errors
from kubeio.api.client import Client
from tenancy import specs, wellknown
from tenancy.resources import CONFIG_MAPS, SECRETS, VIRTUAL_CLUSTERS, Resource

_LAST_STAGE = "issue-new"


@dataclass(frozen=True, slots=True, kw_only=True)
class RotateOptions:
    """Flags of the verb."""

    name: str
    authorities: Sequence[str]
    force_drop: str
    manager_namespace: str


@dataclass(frozen=True, slots=True)
class PrintedRotation:
    """One rotation that is not complete."""

    authority: str
    stage: str
    until: str
    """Empty until every program has the files of the stage."""
    held: str = ""
    """Why the old authority is not dropped."""


async def run_rotate(access: ConfigFlags, terminal: Terminal, options: RotateOptions) -> None:
    """Request rotations, or the drop of an old authority that clients may still use."""
    named = [*options.authorities, *([options.force_drop] if options.force_drop else [])]
    shared = next((each for each in named if each in wellknown.SHARED_AUTHORITIES), "")
    if shared and (options.name or set(named) != {shared}):
        raise UsageError(
            f"the authority {shared} belongs to no virtual cluster. Rotate it alone, without NAME."
        )
    if options.force_drop == wellknown.AGENT_SERVING_AUTHORITY:
        raise UsageError(
            f"the authority {options.force_drop} is replaced in one step. Use --authority"
            f" {options.force_drop}."
        )
    if not shared and not options.name:
        raise UsageError("NAME is missing. Add the name of the VirtualCluster.")
    async with connect_super_cluster(access) as connection:
        if shared:
            await _request_shared(connection.super_client, shared, options, terminal)
        else:
            await _request(connection, options, terminal)


def parse_rotations(table: Mapping[str, Any]) -> list[PrintedRotation]:
    """Return the rotations in the ConfigMap. Raises CliError."""
    text = (table.get("data") or {}).get(wellknown.ROTATIONS_KEY) or "[]"
    try:
        return [
            PrintedRotation(
                str(item["authority"]),
                str(item["stage"]),
                str(item["until"]),
                str(item.get("held", "")),
            )
            for item in json.loads(text)
        ]
    except (KeyError, TypeError, ValueError) as problem:
        metadata = table["metadata"]
        raise CliError(
            f"the ConfigMap {metadata['namespace']}/{metadata['name']} cannot be read. Delete it,"
            " and vc-manager creates it again."
        ) from problem


def build_rotation_table(rows: Sequence[PrintedRotation]) -> str:
    """Return the table of rotations, empty without one."""
    if not rows:
        return ""
    table = printers.format_table(
        ["authority", "stage", "until"],
        [
            [row.authority, row.stage, "held" if row.held else row.until or "waits for pods"]
            for row in rows
        ],
    )
    held = [
        f"The old authority {row.authority} is not dropped: {row.held}. Remove the cause, or use"
        f" --force-drop {row.authority}."
        for row in rows
        if row.held
    ]
    return "\n".join(["", table, *held])


def build_annotations(options: RotateOptions, now: datetime) -> dict[str, str]:
    """Return the annotations of the request."""
    stamp = now.isoformat()
    if options.force_drop:
        return {f"{wellknown.FORCE_DROP_PREFIX}{options.force_drop}": stamp}
    names = options.authorities or wellknown.TENANT_AUTHORITIES
    return {f"{wellknown.ROTATE_PREFIX}{name}": stamp for name in names}


def check_force(rows: Sequence[PrintedRotation], name: str, shown: str) -> None:
    """Raise CliError unless the authority is in the stage before the drop."""
    stage = next((row.stage for row in rows if row.authority == name), "stable")
    if stage != _LAST_STAGE:
        raise CliError(
            f"{shown}: the authority {name} is in the stage {stage}. --force-drop is possible only"
            f" in the stage {_LAST_STAGE}."
        )


def check_ended(trust: Mapping[str, Any], now: datetime) -> None:
    """Raise CliError unless the authority of the agents' serving certificates has ended.

    `trust` is the ConfigMap in which vc-manager publishes it.
    """
    from kubectl_vc.client import server_authority  # noqa: PLC0415 - other verbs need no x509

    pem = str((trust.get("data") or {}).get(wellknown.AGENT_SERVING_TRUST_KEY) or "")
    end = server_authority.find_end(pem.encode())
    if end is None:
        raise CliError(
            f"the ConfigMap {wellknown.AGENT_CLIENT_TRUST} has no certificate under"
            f" {wellknown.AGENT_SERVING_TRUST_KEY}. Check that vc-manager is running."
        )
    if end > now:
        raise CliError(
            f"the authority {wellknown.AGENT_SERVING_AUTHORITY} ends on {end:%Y-%m-%d}. It has no"
            " stages, so it can be replaced only after its end."
        )


async def _request(connection: SuperConnection, options: RotateOptions, terminal: Terminal) -> None:
    client = connection.super_client
    body = await lookup.fetch_virtual_cluster(connection, options.name)
    tenant = specs.parse_virtual_cluster(body).tenant
    shown = cli_errors.describe_object(VIRTUAL_CLUSTERS, tenant.name, tenant.namespace)
    try:
        table = await client.get(CONFIG_MAPS, wellknown.CERTIFICATES, namespace=tenant.root)
    except errors.NotFound as problem:
        raise CliError(
            f"{shown} has no certificates yet, or vc-manager is of an older version."
        ) from problem
    rows = parse_rotations(table)
    if options.force_drop:
        check_force(rows, options.force_drop, shown)
    running = {row.authority for row in rows}.intersection(
        options.authorities or wellknown.TENANT_AUTHORITIES
    )
    if running and not options.force_drop:
        raise CliError(
            f"{shown}: a rotation of {', '.join(sorted(running))} is not complete. Check with"
            f" `kubectl vc certs list {options.name}`."
        )
    await _annotate(client, VIRTUAL_CLUSTERS, tenant.namespace, tenant.name, options)
    _print(terminal, options, shown, f"kubectl vc certs list {options.name}")


async def _request_shared(
    client: Client, authority: str, options: RotateOptions, terminal: Terminal
) -> None:
    namespace, secret = options.manager_namespace, wellknown.SHARED_AUTHORITIES[authority]
    if authority == wellknown.AGENT_SERVING_AUTHORITY:
        table = await client.get(CONFIG_MAPS, wellknown.AGENT_CLIENT_TRUST, namespace=namespace)
        check_ended(table, datetime.now(UTC))
    shown = cli_errors.describe_object(SECRETS, secret, namespace)
    await _annotate(client, SECRETS, namespace, secret, options)
    command = f"kubectl get secret -n {namespace} {secret} -o jsonpath={{.metadata.annotations}}"
    _print(terminal, options, shown, command)


async def _annotate(
    client: Client, resource: Resource, namespace: str, name: str, options: RotateOptions
) -> None:
    annotations = build_annotations(options, datetime.now(UTC).replace(microsecond=0))
    await client.patch(
        resource,
        name,
        {"metadata": {"annotations": annotations}},
        namespace=namespace,
        field_manager="kubectl-vc",
    )


def _print(terminal: Terminal, options: RotateOptions, shown: str, command: str) -> None:
    if options.force_drop:
        terminal.print_result(
            f"drop of the old authority {options.force_drop} of {shown} requested"
        )
        return
    names = options.authorities or wellknown.TENANT_AUTHORITIES
    terminal.print_result(
        f"rotation of {', '.join(names)} of {shown} requested. Its stages are shown by `{command}`."
    )
