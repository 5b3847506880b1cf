"""Probes about objects: what a tenant creates, and what reaches the super cluster of it."""

import asyncio
import contextlib
from collections.abc import Iterable, Mapping
from typing import Any

from kubectl_vc.audit import addresses, fixture, prober
from kubectl_vc.audit.addresses import SuperObjects
from kubectl_vc.audit.decision import Verdict, judge_object
from kubectl_vc.audit.fixture import AuditFixture, TenantSide
from kubectl_vc.audit.object_probes import OBJECT_PROBES, AuditFacts, ObjectProbe
from kubectl_vc.audit.report import AuditResult
from kubeio import Object, errors
from kubeio.api.client import Client
from tenancy.policies import ClassFilter, TenantPolicySpec
from tenancy.resources import (
    ENDPOINT_SLICES,
    EVENTS,
    NAMESPACES,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    PODS,
    RUNTIME_CLASSES,
    SERVICES,
    STORAGE_CLASSES,
)

_PLAIN = "plain"
_CONTROL_SECONDS = 60
_LATE_SECONDS = 3
"""Time in seconds after the control's twin in which a later twin of a probe still counts."""
_NO_TWIN = "refused by the tenant's API server"


async def run_object_probes(
    super_client: Client,
    *,
    own: TenantSide,
    decoy: TenantSide,
    decoy_pod: Mapping[str, Any],
    super_cluster: SuperObjects,
    policy: TenantPolicySpec,
    image: str,
    work: AuditFixture,
) -> list[AuditResult]:
    """Create the objects of all rows in the tenant, and return the verdicts about their twins."""
    facts = AuditFacts(
        policy=policy,
        decoy_uid=decoy.tenant.uid,
        decoy_root=decoy.tenant.root,
        decoy_pod_ips=addresses.list_pod_ips(decoy_pod),
        super_api_ips=addresses.list_cluster_ips(super_cluster.api_services[0]),
        storage_class=find_excluded_class(
            await fixture.list_items(super_client, STORAGE_CLASSES), policy.sync.storage_classes
        ),
        runtime_class=find_excluded_class(
            await fixture.list_items(super_client, RUNTIME_CLASSES), policy.sync.runtime_classes
        ),
    )
    made: dict[str, Object | None] = {}
    for probe in OBJECT_PROBES:
        if probe.applies(facts):
            made[probe.name] = await _create(work, own, probe, build_object(probe, facts, image))
    control = await _wait_for_control(super_client, work, own, image)
    notes = await _fetch_notes(own)
    results = []
    for probe in OBJECT_PROBES:
        if probe.name not in made:
            results.append(_build_result(probe, Verdict.ABSENT, "allowed by the policy, or absent"))
            continue
        twin = await _find_twin(super_client, own, decoy, probe, made[probe.name])
        if twin is not None and probe.resource is PERSISTENT_VOLUMES:
            work.expect_volume_removal(twin["metadata"]["name"])
        is_hole = None if twin is None else _is_hole(probe, twin, facts, decoy)
        verdict, note = judge_object(is_hole=is_hole, control=control)
        if made[probe.name] is None and verdict is Verdict.PASSED:
            note = _NO_TWIN
        results.append(_build_result(probe, verdict, notes.get(probe.name) or note))
    return results


def build_object(probe: ObjectProbe, facts: AuditFacts, image: str) -> Object:
    """Return the object of a row. A pod is a plain one with the row's changes."""
    change = probe.change(facts)
    metadata = {"name": probe.name, "labels": dict(prober.MARKS)}
    body: Object = {
        "apiVersion": probe.resource.api_version,
        "kind": probe.resource.kind,
        "metadata": metadata,
    }
    if probe.resource is PODS:
        body = prober.build_plain_pod(probe.name, image)
        container = body["spec"]["containers"][0]
        if "container" in change:
            changed = change.pop("container")
            context = changed.pop("securityContext", None)
            container |= changed
            if context is not None:
                container["securityContext"] = context
        body["spec"] |= change.pop("spec", {})
    if probe.resource is ENDPOINT_SLICES:
        body["metadata"]["labels"]["kubernetes.io/service-name"] = probe.name
    for key, value in (change.pop("metadata", None) or {}).items():
        body["metadata"][key] = {**(body["metadata"].get(key) or {}), **value}
    return {**body, **change}


def find_excluded_class(items: Iterable[Mapping[str, Any]], chosen: ClassFilter) -> str:
    """Return a class of the super cluster that the policy excludes. Empty without one."""
    for each in items:
        name, labels = each["metadata"]["name"], each["metadata"].get("labels") or {}
        if not chosen.matches(name, labels):
            return str(name)
    return ""


async def _create(
    work: AuditFixture, own: TenantSide, probe: ObjectProbe, body: Object
) -> Object | None:
    """Return the tenant's object, or None if its own API server refuses it."""
    try:
        if probe.resource is NAMESPACES:
            name = name_cluster_object(own, probe)
            body["metadata"]["name"] = name
            made = await work.create(own.client, NAMESPACES, body)
            work.expect_removal(own.build_super_namespace(name))
            return made
        if probe.resource is PERSISTENT_VOLUMES:
            return await _create_volume(work, own, probe, body)
        if probe.resource is ENDPOINT_SLICES:
            service = {
                "apiVersion": "v1",
                "kind": "Service",
                "metadata": {"name": probe.name, "labels": prober.MARKS},
                "spec": {"ports": [{"port": 8080}]},
            }
            await work.create(own.client, SERVICES, service, own.namespace)
        return await work.create(own.client, probe.resource, body, own.namespace)
    except errors.ApiError:
        return None


async def _create_volume(
    work: AuditFixture, own: TenantSide, probe: ObjectProbe, body: Object
) -> Object:
    """Create a volume and the claim that is bound to it. A volume without a claim is not synced."""
    name = name_cluster_object(own, probe)
    body["metadata"]["name"] = name
    body["spec"]["claimRef"] = {"namespace": own.namespace, "name": probe.name}
    volume = await work.create(own.client, PERSISTENT_VOLUMES, body)
    claim = {
        "apiVersion": PERSISTENT_VOLUME_CLAIMS.api_version,
        "kind": PERSISTENT_VOLUME_CLAIMS.kind,
        "metadata": {"name": probe.name, "labels": prober.MARKS},
        "spec": {
            "accessModes": body["spec"]["accessModes"],
            "resources": {"requests": body["spec"]["capacity"]},
            "storageClassName": "",
            "volumeName": name,
        },
    }
    await work.create(own.client, PERSISTENT_VOLUME_CLAIMS, claim, own.namespace)
    return volume


async def _wait_for_control(
    super_client: Client, work: AuditFixture, own: TenantSide, image: str
) -> bool:
    """Return whether a plain pod, created after all others, is synced in time."""
    with contextlib.suppress(errors.ApiError, TimeoutError):
        async with asyncio.timeout(_CONTROL_SECONDS):
            body = prober.build_plain_pod(_PLAIN, image)
            pod = await work.create(own.client, PODS, body, own.namespace)
            await fixture.wait_for_twin(super_client, own, PODS, pod)
        await asyncio.sleep(_LATE_SECONDS)
        return True
    return False


def _is_hole(probe: ObjectProbe, twin: Object, facts: AuditFacts, decoy: TenantSide) -> bool:
    """Return whether a twin has the forbidden trait, or is in a namespace of the decoy."""
    is_elsewhere = twin["metadata"].get("namespace") == decoy.super_namespace
    return is_elsewhere or probe.is_hole(twin, facts)


async def _find_twin(
    super_client: Client,
    own: TenantSide,
    decoy: TenantSide,
    probe: ObjectProbe,
    made: Object | None,
) -> Object | None:
    if made is None:
        return None
    if probe.resource is PERSISTENT_VOLUMES:
        claim = (own.super_namespace, probe.name)
        return await fixture.find_super_volume(super_client, made, claim)
    if probe.resource is not NAMESPACES:
        elsewhere = (decoy.super_namespace,)
        return await fixture.find_twin(super_client, own, probe.resource, made, elsewhere=elsewhere)
    try:
        return await super_client.get(
            NAMESPACES, own.build_super_namespace(name_cluster_object(own, probe))
        )
    except errors.NotFound:
        return None


async def _fetch_notes(own: TenantSide) -> dict[str, str]:
    """Return the last warning of the syncer about each object, which names the policy's field."""
    found: dict[str, str] = {}
    with contextlib.suppress(errors.KubeError):
        for event in await fixture.list_items(own.client, EVENTS, own.namespace):
            if event.get("type") == "Warning":
                name = (event.get("involvedObject") or {}).get("name", "")
                found[name] = " ".join(str(event.get("message") or "").split())
    return found


def name_cluster_object(own: TenantSide, probe: ObjectProbe) -> str:
    """Return the name of a row's object without a namespace. No other audit has it."""
    return f"{own.namespace}-{probe.name.removeprefix('forged-')}"


def _build_result(probe: ObjectProbe, verdict: Verdict, note: str) -> AuditResult:
    return AuditResult(
        probe=probe.name,
        source="tenant's API",
        target=f"{probe.resource.kind} in the super cluster",
        expected="not synced",
        seen="synced" if verdict is Verdict.FAILED else "not synced",
        control="plain pod",
        verdict=verdict,
        note=note,
    )
