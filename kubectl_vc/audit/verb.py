"""`kubectl vc audit`: a dated report on the isolation of one tenant, and its condition.

Owns the tenants of the audit and the removal at its end. Hazard: the removal must run after every
end, an interruption included. Otherwise a NodePort and a namespace of the audit stay in a tenant.
"""

import asyncio
import contextlib
import json
import secrets
import signal
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from kubectl_vc.audit import report as reports
from kubectl_vc.audit import runner
from kubectl_vc.audit.fixture import AuditFixture, TenantSide
from kubectl_vc.audit.prober import MARKS
from kubectl_vc.audit.report import IsolationReport
from kubectl_vc.client import lookup, waiting
from kubectl_vc.client.config_flags import ConfigFlags
from kubectl_vc.client.connection import SuperConnection, connect_super_cluster
from kubectl_vc.command import INTERRUPTED_EXIT_CODE
from kubectl_vc.output.cli_errors import CliError, UsageError
from kubectl_vc.output.printers import ReportFormat
from kubectl_vc.output.terminal import Terminal
from kubectl_vc.verbs import kubeconfig
from kubeio import Object, errors
from kubeio.api.client import Client
from kubeio.config import loading
from kubeio.http.rest import ClientOptions
from tenancy import conditions, policies, specs
from tenancy.policies import TenantPolicySpec
from tenancy.resources import TENANT_POLICIES, VIRTUAL_CLUSTERS


class AuditInterruptedError(CliError):
    """The audit was interrupted. The exit code is 130."""

    exit_code = INTERRUPTED_EXIT_CODE


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditOptions:
    """The flags of `audit`."""

    decoy: str
    """Name of the decoy VirtualCluster. Empty: one is created and deleted."""
    image: str
    manager_namespace: str
    timeout_seconds: float
    form: ReportFormat


async def run_audit(
    access: ConfigFlags, terminal: Terminal, *, name: str, options: AuditOptions
) -> None:
    """Audit one tenant, print the report and write the condition.

    Raises HoleFoundError, UnprovedError or AuditInterruptedError for the exit code.
    """
    if options.decoy == name:
        raise UsageError("the decoy must be another tenant. Use another name with --decoy.")
    async with connect_super_cluster(access) as connection:
        body = await lookup.fetch_virtual_cluster(connection, name)
        report = await _audit(connection, terminal, body, options)
        await _write_condition(connection.super_client, body, report)
    if options.form is ReportFormat.JSON:
        terminal.print_result(json.dumps(reports.build_document(report), indent=4))
    else:
        terminal.print_result(reports.build_table(report))
    reports.raise_unless_proved(report)


async def _audit(
    connection: SuperConnection, terminal: Terminal, body: Object, options: AuditOptions
) -> IsolationReport:
    """Run the audit, and remove everything that it created, whatever happens."""
    work = AuditFixture(connection.super_client)
    name = f"vc-audit-{secrets.token_hex(3)}"
    started = _now()
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    if task is not None:
        loop.add_signal_handler(signal.SIGTERM, task.cancel)
    try:
        async with contextlib.AsyncExitStack() as stack:
            own = await stack.enter_async_context(_open_tenant(connection, body, name))
            decoy_body = await stack.enter_async_context(
                _find_decoy(connection, terminal, body, options, name)
            )
            decoy = await stack.enter_async_context(_open_tenant(connection, decoy_body, name))
            stack.push_async_callback(_remove, work, terminal)
            await work.remove_abandoned([own.client, decoy.client, connection.super_client])
            plan = runner.AuditPlan(
                own=own,
                decoy=decoy,
                image=options.image,
                name=name,
                manager_namespace=options.manager_namespace,
                policy=await _fetch_policy(connection.super_client, body),
            )
            results = await runner.run_probes(work, plan)
    except asyncio.CancelledError as problem:
        raise AuditInterruptedError(
            "the audit was interrupted. Its objects were removed, and the condition is unchanged."
        ) from problem
    finally:
        loop.remove_signal_handler(signal.SIGTERM)
    return IsolationReport(
        tenant=_full_name(body),
        decoy=_full_name(decoy_body),
        super_version=await connection.super_client.version(),
        image=options.image,
        started=started,
        finished=_now(),
        results=results,
    )


@contextlib.asynccontextmanager
async def _open_tenant(
    connection: SuperConnection, body: Object, namespace: str
) -> AsyncIterator[TenantSide]:
    """Open a client for a tenant's API with its administrator's kubeconfig."""
    content = await kubeconfig.fetch_kubeconfig(connection, body)
    options = ClientOptions(user_agent="kubectl-vc-audit")
    async with Client(loading.load_tenant_kubeconfig(content), options) as client:
        tenant = specs.parse_virtual_cluster(body).tenant
        yield TenantSide(tenant=tenant, client=client, namespace=namespace)


@contextlib.asynccontextmanager
async def _find_decoy(
    connection: SuperConnection,
    terminal: Terminal,
    body: Mapping[str, Any],
    options: AuditOptions,
    name: str,
) -> AsyncIterator[Object]:
    """Yield the decoy's VirtualCluster. Without a name, create one and delete it at the end."""
    if options.decoy:
        yield await lookup.fetch_virtual_cluster(connection, options.decoy)
        return
    super_client, namespace = connection.super_client, connection.namespace
    wanted = {
        "apiVersion": VIRTUAL_CLUSTERS.api_version,
        "kind": VIRTUAL_CLUSTERS.kind,
        "metadata": {"name": name, "namespace": namespace, "labels": MARKS},
        "spec": {
            key: body["spec"][key]
            for key in ("clusterVersionName", "policyRef")
            if key in body["spec"]
        },
    }
    made: Object = wanted
    seconds = options.timeout_seconds
    with terminal.create_progress(to_errors=options.form is ReportFormat.JSON) as progress:
        try:
            made = await super_client.create(VIRTUAL_CLUSTERS, wanted, namespace=namespace)
            yield await waiting.wait_ready(super_client, made, seconds=seconds, progress=progress)
        finally:
            with contextlib.suppress(errors.NotFound):
                await super_client.delete(VIRTUAL_CLUSTERS, name, namespace=namespace)
            if "uid" in made["metadata"]:
                await waiting.wait_deleted(super_client, made, seconds=seconds, progress=progress)


async def _remove(work: AuditFixture, terminal: Terminal) -> None:
    left = await work.remove()
    if left:
        terminal.print_warning(
            f"The audit's objects are still being deleted: {', '.join(left)}. Check them with"
            " `kubectl get namespaces -l app.kubernetes.io/managed-by=kubectl-vc-audit`."
        )


async def _fetch_policy(super_client: Client, body: Mapping[str, Any]) -> TenantPolicySpec:
    """Return the policy of a VirtualCluster. A missing default is the built-in one."""
    name = policies.get_policy_name(specs.parse_virtual_cluster(body).spec)
    try:
        return policies.parse_tenant_policy(await super_client.get(TENANT_POLICIES, name))
    except errors.NotFound:
        if name != policies.DEFAULT_POLICY_NAME:
            raise
        return policies.BASELINE_POLICY


async def _write_condition(
    super_client: Client, body: Mapping[str, Any], report: IsolationReport
) -> None:
    """Set the condition on the VirtualCluster that was audited, and on no other of its name."""
    metadata = body["metadata"]
    status = {"conditions": [reports.build_condition(report, body)]}
    wanted = {
        "apiVersion": VIRTUAL_CLUSTERS.api_version,
        "kind": VIRTUAL_CLUSTERS.kind,
        "metadata": {key: metadata[key] for key in ("name", "namespace", "uid")},
        "status": status,
    }
    await super_client.apply(
        VIRTUAL_CLUSTERS, wanted, field_manager=reports.FIELD_MANAGER, subresource="status"
    )


def _full_name(body: Mapping[str, Any]) -> str:
    return f"{body['metadata']['namespace']}/{body['metadata']['name']}"


def _now() -> str:
    return conditions.format_time(datetime.now(UTC))
