"""Content of the page of one pod: both sides, containers, conditions and Events."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from kubectl_vc.client.connection import SuperConnection
from kubectl_vc.output.cli_errors import describe_error
from kubectl_vc.ui import object_rows, page_facts, tenant_rows
from kubectl_vc.ui.object_rows import CopyPair, EventRow, ObjectRow
from kubectl_vc.ui.page_facts import MissingObjectError, Sides
from kubectl_vc.ui.page_reader import PageReader, TenantUnavailableError, get_items
from kubectl_vc.ui.pod_diagnosis import DiagnosedPod, PodDiagnosis, diagnose_pod
from kubectl_vc.ui.tenant_clients import TenantApiClients
from kubectl_vc.ui.tenant_rows import ConditionRow, State
from kubeio import Object, errors
from tenancy import names
from tenancy.resources import EVENTS, PODS

_MAX_EVENTS = 100


@dataclass(frozen=True, slots=True)
class ContainerRow:
    """One container of a pod."""

    name: str
    state: State
    restarts: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PodPage:
    """One pod of a tenant."""

    row: ObjectRow
    containers: Sequence[ContainerRow]
    conditions: Sequence[ConditionRow]
    events: Sequence[EventRow]
    diagnosis: PodDiagnosis | None
    """None if the super cluster did not answer."""
    notes: Sequence[str]


async def read_pod(
    connection: SuperConnection,
    clients: TenantApiClients,
    body: Object,
    namespace: str,
    name: str,
    *,
    manager_namespace: str,
) -> PodPage:
    """Return the page of one pod. Raises MissingObjectError."""
    tenant, now = page_facts.build_tenant(body), datetime.now(UTC)
    sides = await page_facts.connect_sides(connection, clients, tenant)
    super_namespace = names.build_super_namespace(tenant.root, tenant.uid, namespace)
    copy, super_events = await _read_side(sides.home, super_namespace, name)
    tenant_object, tenant_events = await _read_tenant(sides, clients, body, namespace, name)
    if copy is not None and not object_rows.is_copy_of(copy, tenant, tenant_object):
        copy, super_events = None, []  # a pod of another owner, or of an earlier tenant pod
    if copy is None and tenant_object is None and not sides.notes:
        raise MissingObjectError(f"Pod {namespace}/{name} was not found.")
    pair = CopyPair(
        name=name,
        tenant_object=tenant_object,
        is_tenant_known=sides.tenant is not None,
        copy=copy,
        is_copy_known=sides.home.is_known(PODS, super_namespace),
    )
    diagnosed = DiagnosedPod(
        super_client=connection.super_client,
        tenant_client=sides.tenant_client,
        tenant_problem=sides.tenant_problem,
        virtual_cluster=body,
        tenant=tenant,
        manager_namespace=manager_namespace,
        namespace=namespace,
        name=name,
    )
    diagnosis = None
    try:
        diagnosis = await diagnose_pod(diagnosed)
    except errors.KubeError as problem:
        sides.sentences.append(
            f"The layer that holds the pod is unknown: {describe_error(problem)}"
        )
    newest: Mapping[str, Any] = copy or tenant_object or {}
    return PodPage(
        row=object_rows.build_object_row(pair, tenant, tenant_events, now),
        containers=build_container_rows(newest),
        conditions=tenant_rows.build_condition_rows(newest, now),
        events=object_rows.build_event_rows(
            [*tenant_events, *super_events], now, limit=_MAX_EVENTS
        ),
        diagnosis=diagnosis,
        notes=sides.notes,
    )


def build_container_rows(pod: Mapping[str, Any]) -> list[ContainerRow]:
    """Return the containers of a pod, init containers first."""
    status = pod.get("status") or {}
    found = [*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())]
    return [_build_container_row(each) for each in found]


def _build_container_row(status: Mapping[str, Any]) -> ContainerRow:
    kind, detail = next(
        ((key, value or {}) for key, value in (status.get("state") or {}).items()), ("unknown", {})
    )
    reason = str(detail.get("reason") or kind)
    is_good = kind == "running" or reason == "Completed"
    is_busy = reason in ("ContainerCreating", "PodInitializing", "unknown")
    grade = "good" if is_good else "busy" if is_busy else "bad"
    return ContainerRow(
        name=str(status.get("name") or ""),
        state=State(reason, grade),
        restarts=str(status.get("restartCount") or 0),
        message=tenant_rows.one_line(detail.get("message")),
    )


async def _read_side(
    reader: PageReader, namespace: str, name: str
) -> tuple[Object | None, list[Object]]:
    pod, events = await asyncio.gather(
        reader.get(PODS, name, namespace=namespace),
        reader.list(
            EVENTS,
            namespace=namespace,
            field_selector=f"involvedObject.kind=Pod,involvedObject.name={name}",
            limit=_MAX_EVENTS,
        ),
    )
    return pod, get_items(events)


async def _read_tenant(
    sides: Sides, clients: TenantApiClients, body: Object, namespace: str, name: str
) -> tuple[Object | None, list[Object]]:
    if sides.tenant is None:
        return None, []
    try:
        return await _read_side(sides.tenant, namespace, name)
    except TenantUnavailableError as problem:
        clients.report_failure(page_facts.build_tenant(body))
        sides.drop_tenant(problem)
        return None, []
