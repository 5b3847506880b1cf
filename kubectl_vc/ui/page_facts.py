"""Content of the pages, read from the super cluster and from a tenant.

Owns the requests and their limits. Hazard: no list may have more than one page of objects. A page
of a large installation must not be slower than that of a small one.
"""

import asyncio
import contextlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from kubectl_vc.client.connection import SuperConnection
from kubectl_vc.diagnosis.object_kinds import build_super_name
from kubectl_vc.output.cli_errors import CliError
from kubectl_vc.ui import object_kinds, object_rows, tenant_rows
from kubectl_vc.ui.object_kinds import ShownKind
from kubectl_vc.ui.object_rows import CopyPair, EventRow, ObjectRow
from kubectl_vc.ui.page_reader import (
    PageReader,
    TenantReader,
    TenantUnavailableError,
    get_continue_token,
    get_items,
)
from kubectl_vc.ui.tenant_clients import NoTenantClientError, TenantApiClients
from kubectl_vc.ui.tenant_rows import CertificateView, ConditionRow, Operation, TenantRow
from kubeio import Object, errors
from kubeio.api.client import Client
from tenancy import names, wellknown
from tenancy.ownership import Tenant
from tenancy.resources import (
    CLUSTER_VERSIONS,
    CONFIG_MAPS,
    EVENTS,
    NAMESPACES,
    VIRTUAL_CLUSTER_SNAPSHOTS,
    VIRTUAL_CLUSTERS,
)

TENANTS_PER_PAGE = 50
OBJECTS_PER_PAGE = 25
MAX_EVENTS = 50
MAX_NAMESPACES = 200
_MAX_READ_EVENTS = 500


class MissingObjectError(Exception):
    """The object of a page does not exist. The message is a sentence."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TenantsPage:
    """One page of the list of tenants."""

    rows: Sequence[TenantRow]
    next_token: str
    notes: Sequence[str]


@dataclass(frozen=True, slots=True)
class NamespaceLink:
    """A namespace of a tenant, and the super namespace."""

    name: str
    super_name: str
    phase: str
    age: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TenantPage:
    """One tenant."""

    row: TenantRow
    root: str
    conditions: Sequence[ConditionRow]
    certificates: Sequence[CertificateView]
    operations: Sequence[Operation]
    namespaces: Sequence[NamespaceLink]
    events: Sequence[EventRow]
    notes: Sequence[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class NamespacePage:
    """The objects of one kind in a namespace of a tenant."""

    super_namespace: str
    rows: Sequence[ObjectRow]
    events: Sequence[EventRow]
    next_token: str
    is_tenant_known: bool
    notes: Sequence[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class NamespaceQuery:
    """The wish of a page of a namespace."""

    namespace: str
    """Namespace in the tenant."""
    kind: ShownKind
    by_copies: bool = False
    """True: the rows are the copies. Otherwise they are the tenant's objects."""
    continue_token: str = ""


@dataclass(slots=True)
class Sides:
    """Readers of both sides. `tenant` is None if the tenant's API cannot be read."""

    home: PageReader
    tenant: PageReader | None
    sentences: list[str] = field(default_factory=list)
    tenant_client: Client | None = None
    tenant_problem: str = ""
    """Reason why the tenant's API does not answer."""

    def drop_tenant(self, problem: TenantUnavailableError) -> None:
        """Continue without the tenant's side."""
        self.tenant = self.tenant_client = None
        self.tenant_problem = str(problem)
        self.sentences.append(f"The tenant's API cannot be read: {problem}")

    @property
    def notes(self) -> list[str]:
        of_tenant = [f"In the tenant: {each}" for each in self.tenant.notes] if self.tenant else []
        return [*self.sentences, *self.home.notes, *of_tenant]


async def read_tenants(connection: SuperConnection, continue_token: str) -> TenantsPage:
    """Return one page of the tenants that the user may list."""
    client, now = connection.super_client, datetime.now(UTC)
    reader = PageReader(client)
    found = None
    if not connection.is_explicit:
        found = await reader.list(
            VIRTUAL_CLUSTERS, limit=TENANTS_PER_PAGE, continue_token=continue_token
        )
    if found is None:
        found = await reader.list(
            VIRTUAL_CLUSTERS,
            namespace=connection.namespace,
            limit=TENANTS_PER_PAGE,
            continue_token=continue_token,
        )
    bodies = get_items(found)
    certificates = await _read_certificates(reader, bodies)
    return TenantsPage(
        rows=[
            tenant_rows.build_tenant_row(each, certificates.get(each["metadata"]["uid"]), now)
            for each in bodies
        ],
        next_token=get_continue_token(found),
        notes=reader.notes,
    )


async def _read_certificates(reader: PageReader, bodies: Sequence[Object]) -> dict[str, Object]:
    """Return the tables of certificates by the UID of the VirtualCluster."""
    roots: dict[str, str] = {}
    for each in bodies:
        with contextlib.suppress(names.InvalidNameError):
            roots[each["metadata"]["uid"]] = build_tenant(each).root
    tables = await asyncio.gather(
        *(
            reader.get(CONFIG_MAPS, wellknown.CERTIFICATES, namespace=root)
            for root in roots.values()
        )
    )
    return {uid: table for uid, table in zip(roots, tables, strict=True) if table is not None}


async def read_tenant(connection: SuperConnection, namespace: str, name: str) -> TenantPage:
    """Return one tenant. Raises MissingObjectError."""
    now = datetime.now(UTC)
    body = await fetch_tenant_body(connection, namespace, name)
    tenant = build_tenant(body)
    reader = PageReader(connection.super_client)
    version_name = str((body.get("spec") or {}).get("clusterVersionName") or "")
    table, version, snapshots, spaces, own_events, root_events = await asyncio.gather(
        reader.get(CONFIG_MAPS, wellknown.CERTIFICATES, namespace=tenant.root),
        reader.get(CLUSTER_VERSIONS, version_name) if version_name else _return_none(),
        reader.list(
            VIRTUAL_CLUSTER_SNAPSHOTS,
            namespace=namespace,
            field_selector=f"spec.virtualClusterName={name}",
            limit=MAX_EVENTS,
        ),
        reader.list(
            NAMESPACES,
            label_selector=f"{wellknown.VC_UID}={tenant.uid},{wellknown.NAMESPACE}",
            limit=MAX_NAMESPACES,
        ),
        reader.list(
            EVENTS,
            namespace=namespace,
            field_selector=f"involvedObject.uid={tenant.uid}",
            limit=_MAX_READ_EVENTS,
        ),
        reader.list(EVENTS, namespace=tenant.root, limit=_MAX_READ_EVENTS),
    )
    certificates: list[CertificateView] = []
    if table is None:
        reader.add_note(f"The table of certificates does not exist yet in {tenant.root}")
    else:
        try:
            certificates = tenant_rows.build_certificate_rows(table, now)
        except CliError as problem:
            reader.add_note(str(problem))
    if get_continue_token(spaces):
        reader.add_note(f"Only the first {MAX_NAMESPACES} namespaces are shown")
    return TenantPage(
        row=tenant_rows.build_tenant_row(body, table, now),
        root=tenant.root,
        conditions=tenant_rows.build_condition_rows(body, now),
        certificates=certificates,
        operations=tenant_rows.build_operations(body, version, get_items(snapshots), table, now),
        namespaces=[_build_namespace_link(each, now) for each in get_items(spaces)],
        events=object_rows.build_event_rows(
            [*get_items(own_events), *get_items(root_events)], now, limit=MAX_EVENTS
        ),
        notes=reader.notes,
    )


async def read_namespace(
    connection: SuperConnection,
    clients: TenantApiClients,
    body: Object,
    query: NamespaceQuery,
) -> NamespacePage:
    """Return one page of objects beside their copies."""
    tenant = build_tenant(body)
    super_namespace = names.build_super_namespace(tenant.root, tenant.uid, query.namespace)
    sides = await connect_sides(connection, clients, tenant)
    try:
        page = await _read_pairs(sides, super_namespace, query)
    except TenantUnavailableError as problem:
        clients.report_failure(tenant)
        sides.drop_tenant(problem)
        page = await _read_pairs(sides, super_namespace, query)
    pairs, events, next_token = page
    now = datetime.now(UTC)
    return NamespacePage(
        super_namespace=super_namespace,
        rows=[object_rows.build_object_row(each, tenant, events, now) for each in pairs],
        events=object_rows.build_event_rows(events, now, limit=MAX_EVENTS),
        next_token=next_token,
        is_tenant_known=sides.tenant is not None,
        notes=sides.notes,
    )


async def connect_sides(
    connection: SuperConnection, clients: TenantApiClients, tenant: Tenant
) -> Sides:
    """Return readers of the super cluster and, if the user may, of the tenant."""
    home = PageReader(connection.super_client)
    try:
        client = await clients.connect(connection.super_client, tenant)
    except NoTenantClientError as problem:
        return Sides(home, None, [str(problem)])
    return Sides(home, TenantReader(client), tenant_client=client)


async def _read_pairs(
    sides: Sides, super_namespace: str, query: NamespaceQuery
) -> tuple[list[CopyPair], list[Object], str]:
    """Return the pairs of one page, the Events about the kind, and the next continue token."""
    kind = query.kind
    leading = None if query.by_copies else sides.tenant
    events_reader, events_namespace = (
        (sides.tenant, query.namespace) if sides.tenant else (sides.home, super_namespace)
    )
    found, events = await asyncio.gather(
        (leading or sides.home).list(
            kind.resource,
            namespace=query.namespace if leading else super_namespace,
            label_selector="" if leading else f"{wellknown.CONTROLLED}=true",
            limit=OBJECTS_PER_PAGE,
            continue_token=query.continue_token,
            metadata_only=kind.metadata_only,
        ),
        events_reader.list(
            EVENTS,
            namespace=events_namespace,
            field_selector=f"involvedObject.kind={kind.resource.kind}",
            limit=_MAX_READ_EVENTS,
        ),
    )
    pair = _pair_with_copy if leading else _pair_with_tenant_object
    pairs = await asyncio.gather(
        *(pair(sides, each, super_namespace, query) for each in get_items(found))
    )
    return pairs, get_items(events), get_continue_token(found)


async def _pair_with_copy(
    sides: Sides, body: Object, super_namespace: str, query: NamespaceQuery
) -> CopyPair:
    name = body["metadata"]["name"]
    copy = await sides.home.get(
        query.kind.resource,
        build_super_name(query.kind.resource, name),
        namespace=super_namespace,
        metadata_only=query.kind.metadata_only,
    )
    return CopyPair(
        name=name,
        tenant_object=body,
        is_tenant_known=True,
        copy=copy,
        is_copy_known=sides.home.is_known(query.kind.resource, super_namespace),
    )


async def _pair_with_tenant_object(
    sides: Sides, copy: Object, _super_namespace: str, query: NamespaceQuery
) -> CopyPair:
    name = object_kinds.build_tenant_name(query.kind, copy["metadata"]["name"])
    found = None
    if sides.tenant is not None:
        found = await sides.tenant.get(
            query.kind.resource,
            name,
            namespace=query.namespace,
            metadata_only=query.kind.metadata_only,
        )
    return CopyPair(
        name=name, tenant_object=found, is_tenant_known=sides.tenant is not None, copy=copy
    )


async def fetch_tenant_body(connection: SuperConnection, namespace: str, name: str) -> Object:
    """Return a VirtualCluster. Raises MissingObjectError."""
    try:
        return await connection.super_client.get(VIRTUAL_CLUSTERS, name, namespace=namespace)
    except errors.NotFound as problem:
        raise MissingObjectError(f"VirtualCluster {namespace}/{name} was not found.") from problem


def build_tenant(body: Object) -> Tenant:
    """Return the identity of a tenant. Raises InvalidNameError."""
    metadata = body["metadata"]
    namespace, name, uid = metadata["namespace"], metadata["name"], metadata["uid"]
    root = names.build_root_namespace(namespace, name, uid)
    return Tenant(name=name, namespace=namespace, uid=uid, root=root)


def _build_namespace_link(body: Object, now: datetime) -> NamespaceLink:
    metadata = body["metadata"]
    annotations, labels = metadata.get("annotations") or {}, metadata.get("labels") or {}
    phase = str((body.get("status") or {}).get("phase") or "")
    return NamespaceLink(
        name=str(annotations.get(wellknown.NAMESPACE) or labels.get(wellknown.NAMESPACE) or ""),
        super_name=str(metadata["name"]),
        phase="Terminating" if "deletionTimestamp" in metadata else phase,
        age=tenant_rows.format_age(metadata.get("creationTimestamp"), now),
    )


async def _return_none() -> None:
    return None
