"""Phases of the reconcile of one VirtualCluster, as one table in their order.

Owns `PHASES`. Must not write the status of the VirtualCluster. Hazard: a phase must not wait,
because it would block a worker. A phase returns why it cannot continue, and a watch event of what
is missing queues the key.
"""

from dataclasses import replace
from datetime import timedelta

import structlog

from kubeio.api.client import Client
from tenancy import wellknown
from tenancy.resources import CLUSTER_VERSIONS, VIRTUAL_CLUSTERS
from vcmanager.phases import (
    api_server_secrets,
    certificate_requests,
    certificates,
    metrics_server,
    rollout,
    root_namespace,
    service_cidr,
    startup_order,
    sync_rules,
    tenant_bootstrap,
    validation,
)
from vcmanager.phases.access import authentication, kubeconfig_secrets
from vcmanager.phases.content import dns_config
from vcmanager.phases.etcd import etcd_members
from vcmanager.phases.rotations import authority_rotation
from vcmanager.phases.waves import control_plane_change
from vcmanager.phases.waves.control_plane_change import ControlPlaneChange
from vcmanager.pki import bundles, inventory, signed_lifetime
from vcmanager.plan import certificate_table, pki_secrets
from vcmanager.plan.access.tool_secrets import KubeconfigParts
from vcmanager.reconcilers import finalizers, network_phases
from vcmanager.reconcilers.lifetime import scheduled_deletion, sleep
from vcmanager.reconcilers.phase_run import (
    DONE,
    Phase,
    PhaseResult,
    PhaseRun,
)
from vcmanager.reconcilers.snapshots import restore
from vcmanager.runtime import keys
from vcmanager.runtime.observed import observe_objects
from vcmanager.short_form import encryption

_log: structlog.stdlib.BoundLogger = structlog.get_logger(__name__)


async def _parse_cluster(run: PhaseRun) -> PhaseResult:
    run.cluster = validation.parse_cluster(run.body)
    run.status.cluster_namespace = run.cluster.tenant.root
    return DONE


async def _observe_objects(run: PhaseRun) -> PhaseResult:
    run.observed = await observe_objects(run.context.super_client, run.cluster.tenant)
    return DONE


async def _hold_scheduled_deletion(run: PhaseRun) -> PhaseResult:
    await scheduled_deletion.hold_scheduled_deletion(
        run.context, run.cluster, run.body, run.observed
    )
    return DONE


async def _hold_restore(run: PhaseRun) -> PhaseResult:
    await restore.hold_restore(run.context, run.cluster, run.body, run.observed, run.status)
    return DONE


async def _hold_sleep(run: PhaseRun) -> PhaseResult:
    await sleep.hold_sleep(run.context, run.cluster, run.body, run.observed)
    return DONE


async def _fetch_plan_input(run: PhaseRun) -> PhaseResult:
    is_new = tenant_bootstrap.is_new(run.body)
    found = await validation.fetch_plan_input(run.context, run.cluster, is_new=is_new)
    has_keys = run.observed.get("Secret", encryption.SECRET) is not None
    run.plan_input = replace(found, has_encryption_keys=has_keys)
    return DONE


async def _check_plan(run: PhaseRun) -> PhaseResult:
    """Check that a plan is possible, before anything is created."""
    run.super_range = await validation.fetch_super_range(run.context)
    validation.check_plan(run.plan_input, run.super_range)
    return DONE


async def _check_version_skew(run: PhaseRun) -> PhaseResult:
    running = str((run.body.get("status") or {}).get("version") or "")
    validation.check_version_skew(run.plan_input, running)
    return DONE


async def _dry_run_bundles(run: PhaseRun) -> PhaseResult:
    if run.observed.namespace is None:
        await validation.dry_run_bundles(run.context, run.plan_input)
    return DONE


async def _add_finalizers(run: PhaseRun) -> PhaseResult:
    """Add the finalizers of the VirtualCluster and of its ClusterVersion."""
    context = run.context
    await finalizers.add_finalizer(context, VIRTUAL_CLUSTERS, run.body)
    version = await context.super_client.get(
        CLUSTER_VERSIONS, run.plan_input.version_name, metadata_only=True
    )
    await finalizers.add_finalizer(context, CLUSTER_VERSIONS, version)
    return DONE


async def _ensure_root_namespace(run: PhaseRun) -> PhaseResult:
    run.namespace = await root_namespace.ensure_root_namespace(
        run.context,
        run.cluster.tenant,
        run.observed.namespace,
        is_bundled=run.plan_input.version.is_bundled,
    )
    await root_namespace.ensure_credential_access(
        run.context, run.cluster.tenant, run.observed.get("RoleBinding", wellknown.SYNCER)
    )
    return DONE


async def _ensure_service_range(run: PhaseRun) -> PhaseResult:
    run.service_range = await service_cidr.ensure_service_range(
        run.context, run.plan_input, run.observed, run.super_range
    )
    run.status.service_cidr = str(run.service_range)
    return DONE


async def _plan_dns(run: PhaseRun) -> PhaseResult:
    """Check the DNS servers of `spec.dnsConfig`. A refused one is left out of the plan."""
    forwarding = await dns_config.plan_forwarding(
        run.context,
        run.plan_input,
        run.service_range,
        run.super_range,
        run.status,
        list_nodes=lambda: network_phases.list_nodes(run),
    )
    run.plan_input = replace(run.plan_input, dns_forwarding=forwarding)
    return DONE


async def _build_plan(run: PhaseRun) -> PhaseResult:
    run.plan = validation.build_plan(run.plan_input, run.service_range)
    run.is_planned = True
    if run.plan.is_ephemeral:
        run.status.set_condition(
            wellknown.STORE_EPHEMERAL,
            "True",
            "NoVolume",
            "The etcd template has no volume, so the loss of its pod deletes the tenant's data.",
        )
    return DONE


async def _check_etcd_members(run: PhaseRun) -> PhaseResult:
    """Check the number of etcd members, or plan its change, before anything is written."""
    if run.plan.has_member_config:
        report = run.context.stores.get_report(run.plan_input.tenant.uid)
        run.plan = etcd_members.plan_members(run.plan, run.observed, report)
    else:
        etcd_members.check_replicas(run.plan, run.observed, run.plan_input.version_name)
    return DONE


async def _issue_certificates(run: PhaseRun) -> PhaseResult:
    run.certificates = await certificates.create_authorities(
        run.context, run.plan_input, run.plan, run.namespace, run.observed
    )
    run.certificates, run.rotations = await authority_rotation.advance_rotations(
        run.context,
        run.plan_input,
        run.certificates,
        run.body,
        signed_lifetime=signed_lifetime.compute_signed_lifetime(run.plan.workloads),
    )
    run.secrets = certificates.build_secrets(
        run.context,
        run.plan_input,
        run.plan,
        run.certificates,
        external=run.external,
        requested=certificate_table.parse_request(run.body, run.context.now()),
    )
    return DONE


async def _plan_authentication(run: PhaseRun) -> PhaseResult:
    """Plan the issuers of `spec.auth`, as far as they may be written."""
    run.plan = await authentication.plan_authentication(
        run.plan_input, run.plan, run.observed, run.status, lambda: _connect_tenant(run)
    )
    return DONE


async def _connect_tenant(run: PhaseRun) -> Client:
    name = f"{inventory.MANAGER}-kubeconfig"
    secret = next(each for each in run.secrets.secrets if each["metadata"]["name"] == name)
    return await tenant_bootstrap.connect_tenant(
        run.context, run.plan_input, run.plan, secret=secret
    )


async def _admit_change(run: PhaseRun) -> PhaseResult:
    """Hold a change of the running control plane until the rollout admits the tenant."""
    run.mounted_secrets = await api_server_secrets.fetch_secrets(
        run.context, run.plan_input, run.namespace, run.observed
    )
    run.change, message = await control_plane_change.admit_change(
        run.context,
        run.plan_input,
        run.plan,
        body=run.body,
        snapshot=run.observed,
        mounted_secrets=run.mounted_secrets,
    )
    run.objects.is_held = run.change is ControlPlaneChange.WAITING
    if not run.plan_input.is_new:
        control_plane_change.set_condition(run.status, run.change, message)
    return DONE


async def _write_mounted(run: PhaseRun) -> PhaseResult:
    """Write the Secrets and ConfigMaps that pods mount."""
    others = run.mounted_secrets
    rows = run.rotations.list_rows()
    await run.objects.write_mounted(run.plan, run.secrets, run.certificates, others, rotations=rows)
    run.context.expiries.set_validities(run.plan_input.tenant.uid, run.secrets.validities)
    if run.secrets.ended_message:
        return DONE  # a later phase reports it
    until = run.secrets.next_renewal.strftime("%Y-%m-%d")
    run.status.set_condition(
        wellknown.CERTIFICATES_READY,
        "True",
        "Issued",
        f"All certificates are valid. The next renewal is on {until}.{run.rotations.describe()}",
    )
    return DONE


async def _write_role_bindings(run: PhaseRun) -> PhaseResult:
    await run.objects.write_role_bindings()
    return DONE


async def _write_workloads(run: PhaseRun) -> PhaseResult:
    await run.objects.write_workloads(run.plan)
    await run.objects.delete_unwanted(metrics_server.list_kept_objects(run.plan, run.observed))
    return DONE


async def _replace_outdated_pods(run: PhaseRun) -> PhaseResult:
    await rollout.replace_outdated_pods(run.context, run.observed)
    if run.objects.written_count or run.secrets.renewed_secrets:
        _log.info(
            "tenant.written",
            objects=run.objects.written_count,
            certificates=[f"{name}: {fault}" for name, fault in run.secrets.renewed_secrets],
        )
    return DONE


async def _check_authorities(run: PhaseRun) -> PhaseResult:
    """Report ended authorities, after all that does not need them was written."""
    if run.secrets.ended_message:
        raise pki_secrets.build_ended_block(run.secrets.ended_message)
    return DONE


async def _check_store(run: PhaseRun) -> PhaseResult:
    """Pass the input of the checks of etcd on, and report their last conclusion."""
    if run.plan.has_member_config:
        tenant = run.plan_input.tenant
        await etcd_members.pass_on(run.context, tenant, run.plan, run.observed, run.secrets)
        report = run.context.stores.get_report(tenant.uid)
        old = run.body.get("status") or {}
        etcd_members.report_store(run.status, report, old, replicas=run.plan.etcd_replicas)
    return DONE


async def _bootstrap_tenant(run: PhaseRun) -> PhaseResult:
    """Connect to the tenant and write the manager's objects, as soon as its API is ready."""
    if not startup_order.is_api_ready(run.observed):
        return DONE
    client = await _connect_tenant(run)
    run.status.version = await tenant_bootstrap.bootstrap_tenant(
        client,
        run.plan,
        dns_address=run.service_range.dns_address if run.plan.certificate_facts.has_dns else "",
        retry_after=tenant_bootstrap.compute_retry_delay(run.body, run.context.now()),
    )
    run.tenant_client = client
    tenant = run.plan_input.tenant
    run.context.enqueue(keys.build_content_key(tenant.namespace, tenant.name))
    await certificate_requests.exchange(
        run.context,
        client,
        run.body,
        run.plan_input.tenant,
        run.secrets.validities,
        rotations=run.rotations.list_rows(),
        replaced_ends=run.secrets.replaced_ends,
        lifetime=timedelta(days=run.plan_input.spec.pki_expire_days),
    )
    return DONE


async def _apply_sync_rules(run: PhaseRun) -> PhaseResult:
    """Write the CRDs and rights of SyncRules into the tenant. A differing CRD stops nothing."""
    if run.tenant_client is not None:
        problems = await sync_rules.apply_sync_rules(
            run.context.super_client, run.tenant_client, run.plan_input.spec, run.body
        )
        for problem in problems:
            run.context.recorder.record(run.body, "SyncRuleNotServed", problem, kind="Warning")
    return DONE


async def _report_authentication(run: PhaseRun) -> PhaseResult:
    if run.tenant_client is not None:
        await authentication.report_authentication(
            run.plan_input,
            run.plan,
            run.status,
            run.body.get("status") or {},
            client=run.tenant_client,
            is_held=run.objects.is_held,
        )
    return DONE


async def _reconcile_metrics_api(run: PhaseRun) -> PhaseResult:
    """Create or remove the metrics-server. A new tenant becomes ready without it."""
    if run.tenant_client is not None and not run.plan_input.is_new:
        await metrics_server.reconcile_metrics_api(
            run.tenant_client,
            run.context,
            run.plan,
            build=run.objects,
            snapshot=run.observed,
            authority=run.secrets.serving,
            report=run.status,
        )
    return DONE


async def _probe_enforcement(run: PhaseRun) -> PhaseResult:
    """Report whether the super cluster enforces NetworkPolicies."""
    probe = run.context.enforcement
    has_policies = run.context.settings.network_policies
    if probe is None or not has_policies or run.plan.is_bundled:
        return DONE
    result = await probe.probe(run.observed)
    if result is not None:
        run.status.set_condition(wellknown.NETWORK_POLICIES_ENFORCED, *result)
    return DONE


async def _write_kubeconfig_secrets(run: PhaseRun) -> PhaseResult:
    """Write the admin kubeconfig beside the VirtualCluster, in the forms that the spec names."""
    spec, secret = run.plan_input.spec, f"{inventory.ADMIN}-kubeconfig"
    if run.external is not None and kubeconfig_secrets.may_have_secrets(spec, run.body):
        (found,) = (each for each in run.secrets.secrets if each["metadata"]["name"] == secret)
        parts = KubeconfigParts(
            document=bundles.read_data(found, secret),
            address=run.external,
            authority=run.secrets.serving,
        )
        await kubeconfig_secrets.reconcile_secrets(
            run.context, run.plan_input.tenant, spec, parts, run.status
        )
    return DONE


async def _settle_rotations(run: PhaseRun) -> PhaseResult:
    run.rotations = await authority_rotation.settle_rotations(
        run.context,
        run.rotations,
        run.certificates,
        run.objects,
        run.observed,
        tenant_client=run.tenant_client,
    )
    return DONE


PHASES = (
    Phase("ParseCluster", wellknown.READY, _parse_cluster),
    Phase("ObserveObjects", wellknown.READY, _observe_objects),
    Phase("HoldScheduledDeletion", wellknown.READY, _hold_scheduled_deletion),
    Phase("HoldRestore", wellknown.READY, _hold_restore),
    Phase("HoldSleep", wellknown.READY, _hold_sleep),
    Phase("FetchClusterVersion", wellknown.READY, _fetch_plan_input),
    Phase("DecideHostname", wellknown.HOSTNAME_ACCEPTED, network_phases.decide_hostname),
    Phase("CheckPlan", wellknown.READY, _check_plan),
    Phase("CheckVersionSkew", wellknown.READY, _check_version_skew),
    Phase("DryRunBundles", wellknown.READY, _dry_run_bundles),
    Phase("AddFinalizers", wellknown.READY, _add_finalizers),
    Phase("EnsureRootNamespace", wellknown.READY, _ensure_root_namespace),
    Phase("EnsureServiceRange", wellknown.READY, _ensure_service_range),
    Phase("PlanDns", wellknown.READY, _plan_dns),
    Phase("BuildPlan", wellknown.READY, _build_plan),
    Phase("CheckEtcdMembers", wellknown.READY, _check_etcd_members),
    Phase("WriteNetworkPolicies", wellknown.READY, network_phases.write_network_policies),
    Phase("WriteServices", wellknown.READY, network_phases.write_services),
    Phase("IssueCertificates", wellknown.CERTIFICATES_READY, _issue_certificates),
    Phase("PlanAuthentication", wellknown.AUTHENTICATION_READY, _plan_authentication),
    Phase("AdmitChange", wellknown.READY, _admit_change),
    Phase("WriteMounted", wellknown.READY, _write_mounted),
    Phase("WriteRoleBindings", wellknown.READY, _write_role_bindings),
    Phase("WriteWorkloads", wellknown.READY, _write_workloads),
    # Before the phases that often cannot continue, because these may need the new pods.
    Phase("ReplaceOutdatedPods", wellknown.READY, _replace_outdated_pods),
    Phase("CheckStore", wellknown.READY, _check_store),
    # Before the phases that need the API of the tenant.
    Phase("CheckAuthorities", wellknown.CERTIFICATES_READY, _check_authorities),
    Phase("BootstrapTenant", wellknown.API_SERVER_READY, _bootstrap_tenant),
    Phase("ApplySyncRules", wellknown.READY, _apply_sync_rules),
    Phase("ReportAuthentication", wellknown.AUTHENTICATION_READY, _report_authentication),
    Phase("ReconcileMetricsApi", wellknown.METRICS_READY, _reconcile_metrics_api),
    Phase("ProbeEnforcement", wellknown.READY, _probe_enforcement),
    Phase("PublishEndpoint", wellknown.READY, network_phases.publish_endpoint),
    Phase("WriteKubeconfigSecrets", wellknown.KUBECONFIG_SECRETS_READY, _write_kubeconfig_secrets),
    # The last one, because it needs all others to be done.
    Phase("SettleRotations", wellknown.READY, _settle_rotations),
)
"""All phases, in order. A phase runs only after every earlier phase is done."""
