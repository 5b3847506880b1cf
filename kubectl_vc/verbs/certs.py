"""`kubectl vc certs`: the table of a tenant's certificates, and the request to renew them.

Owns both ways to the table: with the tenant's own kubeconfig, and with that of the super cluster.
Must not read a Secret. Hazard: the time of a request decides which certificates are renewed, and
must be one that vc-manager's clock has reached.
"""

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from kubectl_vc.client import lookup
from kubectl_vc.client.config_flags import ConfigFlags
from kubectl_vc.client.connection import SuperConnection, connect_super_cluster
from kubectl_vc.output import cli_errors, durations, printers
from kubectl_vc.output.cli_errors import CliError, WaitTimeoutError
from kubectl_vc.output.printers import OutputFormat
from kubectl_vc.output.terminal import Terminal
from kubectl_vc.verbs import rotate_authorities
from kubeio import Object, errors
from kubeio.api.client import Client
from tenancy import specs, wellknown
from tenancy.resources import CONFIG_MAPS, VIRTUAL_CLUSTERS, Resource

_POLL_SECONDS = 1.0
_AUTHORITY = "authority"


@dataclass(frozen=True, slots=True)
class CertificateRow:
    """One certificate of the table. Times are in UTC."""

    name: str
    kind: str
    """`authority`, `certificate` or `kubeconfig`."""
    issued: datetime
    expires: datetime
    renewal: datetime | None
    """None for an authority, which is never renewed."""


@dataclass(frozen=True, slots=True)
class CertificateSource:
    """Location of the table, and the object that takes a request."""

    client: Client
    namespace: str
    shown: str
    """Name of the virtual cluster in messages."""
    requested_object: tuple[Resource, str, str]
    """Resource, namespace and name."""


async def run_list(
    access: ConfigFlags, terminal: Terminal, *, name: str, form: OutputFormat
) -> None:
    """Print the certificates of one virtual cluster."""
    async with connect_super_cluster(access, is_super=bool(name)) as connection:
        table = await _fetch_table(await _find_source(connection, name))
    if form in (OutputFormat.JSON, OutputFormat.YAML):
        terminal.print_result(printers.format_document(table, form))
        return
    rows = parse_rows(table)
    if form is OutputFormat.NAME:
        terminal.print_result("".join(f"{row.name}\n" for row in rows))
        return
    stages = rotate_authorities.build_rotation_table(rotate_authorities.parse_rotations(table))
    terminal.print_result(build_table(rows, now=datetime.now(UTC)) + stages)


async def run_renew(
    access: ConfigFlags, terminal: Terminal, *, name: str, wait: bool, seconds: float
) -> None:
    """Request new certificates, and wait until each was issued after the request."""
    async with connect_super_cluster(access, is_super=bool(name)) as connection:
        source = await _find_source(connection, name)
        requested = datetime.now(UTC).replace(microsecond=0)
        rows = [row for row in parse_rows(await _fetch_table(source)) if row.kind != _AUTHORITY]
        await _request(source, requested)
        due = max((row.issued + wellknown.MIN_RENEWAL_AGE for row in rows), default=requested)
        if due > requested:
            terminal.print_warning(
                f"The newest certificate of {source.shown} is younger than 10 min. It is renewed"
                f" in {durations.format_elapsed((due - requested).total_seconds())}."
            )
        if not wait:
            terminal.print_result(
                f"renewal of {len(rows)} certificates of {source.shown} requested"
            )
            return
        try:
            async with asyncio.timeout(seconds or None):
                await _wait_renewed(source, requested)
        except TimeoutError as problem:
            raise WaitTimeoutError(
                f"{source.shown}: not all certificates are renewed after"
                f" {durations.format_elapsed(seconds)}. The request stays. Check with"
                " `kubectl vc certs list`."
            ) from problem
        terminal.print_result(f"{len(rows)} certificates of {source.shown} renewed")


def parse_rows(table: Mapping[str, Any]) -> list[CertificateRow]:
    """Return the rows of the ConfigMap, those that end first at the top. Raises CliError."""
    try:
        items = json.loads((table.get("data") or {})[wellknown.CERTIFICATES_KEY])
        rows = [
            CertificateRow(
                name=str(item["name"]),
                kind=str(item["kind"]),
                issued=datetime.fromisoformat(item["issued"]),
                expires=datetime.fromisoformat(item["expires"]),
                renewal=datetime.fromisoformat(item["renewal"]) if item["renewal"] else None,
            )
            for item in items
        ]
    except (KeyError, TypeError, ValueError) as problem:
        metadata = table["metadata"]
        raise CliError(
            f"the ConfigMap {metadata['namespace']}/{metadata['name']} cannot be read. Delete it,"
            " and vc-manager creates it again."
        ) from problem
    return sorted(rows, key=lambda row: (row.expires, row.name))


def build_table(rows: Sequence[CertificateRow], *, now: datetime) -> str:
    """Return the table of certificates."""
    return printers.format_table(
        ["name", "kind", "expires", "left", "renewal"],
        [
            [
                row.name,
                row.kind,
                _format(row.expires),
                _format_left(row.expires, now),
                _format(row.renewal) if row.renewal else "never",
            ]
            for row in rows
        ],
    )


async def _find_source(connection: SuperConnection, name: str) -> CertificateSource:
    client = connection.super_client
    if not name:
        table = (CONFIG_MAPS, wellknown.CERTIFICATES_NAMESPACE, wellknown.CERTIFICATES)
        return CertificateSource(
            client, wellknown.CERTIFICATES_NAMESPACE, "this virtual cluster", table
        )
    body = await lookup.fetch_virtual_cluster(connection, name)
    tenant = specs.parse_virtual_cluster(body).tenant
    shown = cli_errors.describe_object(VIRTUAL_CLUSTERS, tenant.name, tenant.namespace)
    owner = (VIRTUAL_CLUSTERS, tenant.namespace, tenant.name)
    return CertificateSource(client, tenant.root, shown, owner)


async def _fetch_table(source: CertificateSource) -> Object:
    try:
        return await source.client.get(
            CONFIG_MAPS, wellknown.CERTIFICATES, namespace=source.namespace
        )
    except errors.NotFound as problem:
        hint = (
            "Add NAME, or use the kubeconfig of a virtual cluster."
            if source.namespace == wellknown.CERTIFICATES_NAMESPACE
            else "It has no certificates yet, or vc-manager is of an older version."
        )
        raise CliError(
            f"{source.shown}: the ConfigMap {source.namespace}/{wellknown.CERTIFICATES} was not"
            f" found. {hint}"
        ) from problem


async def _request(source: CertificateSource, requested: datetime) -> None:
    resource, namespace, name = source.requested_object
    annotations = {wellknown.RENEW_CERTIFICATES: requested.isoformat()}
    await source.client.patch(
        resource,
        name,
        {"metadata": {"annotations": annotations}},
        namespace=namespace,
        field_manager="kubectl-vc",
    )


async def _wait_renewed(source: CertificateSource, requested: datetime) -> None:
    """Return when every certificate was issued after the request.

    The API server of a tenant restarts meanwhile, so a failed request is repeated.
    """
    while True:
        try:
            rows = parse_rows(await _fetch_table(source))
        except errors.Unavailable:
            rows = []
        if rows and all(row.issued >= requested for row in rows if row.kind != _AUTHORITY):
            return
        await asyncio.sleep(_POLL_SECONDS)


def _format(time: datetime) -> str:
    return time.strftime("%Y-%m-%d %H:%M")


def _format_left(expires: datetime, now: datetime) -> str:
    if expires <= now:
        return "expired"
    days, seconds = divmod(int((expires - now).total_seconds()), 86_400)
    return f"{days}d" if days else f"{seconds // 3600}h{seconds % 3600 // 60:02d}m"
