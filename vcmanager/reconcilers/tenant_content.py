"""Reconcile of the content of one tenant: shared objects, and the manifests of `spec.addons`.

Owns two conditions and `status.addons` of the VirtualCluster, under a field manager of their own.
Must not touch the control plane. Hazard: a tenant may be slow or hostile on purpose. A failure
becomes a condition of this tenant only, and is retried.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import structlog

from kubeio import Object, errors
from kubeio.api.client import Client
from kubeio.controller.worker import Done, RequeueAfter, Result
from tenancy import conditions, wellknown
from tenancy.conditions import Condition
from tenancy.names import InvalidNameError
from tenancy.policies import SharedObjects
from tenancy.resources import VIRTUAL_CLUSTERS
from tenancy.specs import InvalidSpecError, VirtualCluster, parse_virtual_cluster
from vcmanager.phases.content import addons, policies, shared_objects
from vcmanager.runtime import keys
from vcmanager.runtime.content_sources import ContentSource
from vcmanager.runtime.context import ReconcileContext
from vcmanager.runtime.keys import ReconcileKey

FIELD_MANAGER = f"{wellknown.MANAGER}-content"
RETRY_SECONDS = 30.0
"""Retry interval in seconds after a problem, for causes that no watch reports."""
SHARED, INCOMPLETE, APPLIED, FAILED = "Shared", "Incomplete", "Applied", "Failed"
POLICY_UNAVAILABLE, UNREACHABLE = "PolicyUnavailable", "Unreachable"
"""Reasons of the conditions SharedObjectsReady and AddonsApplied."""
_MAX_MESSAGE_LENGTH = 4096
_KINDS = (wellknown.SHARED_OBJECTS_READY, wellknown.ADDONS_APPLIED)

_log: structlog.stdlib.BoundLogger = structlog.get_logger(__name__)


class _ContentCondition(NamedTuple):
    """Content of a condition."""

    is_ready: bool
    reason: str
    message: str


async def reconcile_content(means: ReconcileContext, key: ReconcileKey) -> Result:
    """Reconcile the content of one tenant, if it is connected."""
    own_key = keys.build_content_key(key.namespace, key.name)
    try:
        body = await means.super_client.get(VIRTUAL_CLUSTERS, key.name, namespace=key.namespace)
        cluster = parse_virtual_cluster(body)
    except (errors.NotFound, InvalidSpecError, InvalidNameError):
        _set_sources(means, own_key, frozenset())
        return Done()
    if cluster.spec.sleep is not None:
        return Done()  # its API is stopped. A reconcile of the VirtualCluster wakes this key
    client = means.tenant_clients.find(cluster.tenant.uid)
    if cluster.deleting or client is None:
        _set_sources(means, own_key, frozenset())
        return Done()  # a reconcile of the VirtualCluster wakes this key when it is connected
    rules, verdicts = await _fetch_rules(means, cluster)
    _set_sources(
        means,
        own_key,
        shared_objects.list_sources(rules or ()) | addons.list_sources(cluster),
    )
    if rules is not None and (rules or _has_condition(body, wellknown.SHARED_OBJECTS_READY)):
        verdicts |= await _reconcile_shared(means, client, cluster, rules, own_key)
    applied: list[Mapping[str, Any]] | None = None
    if cluster.spec.addons:
        verdict, applied = await _apply_addons(means, client, cluster)
        verdicts[wellknown.ADDONS_APPLIED] = verdict
    await _write_status(means, cluster, body, verdicts, applied)
    is_ready = all(verdict.is_ready for verdict in verdicts.values())
    return Done() if is_ready else RequeueAfter(RETRY_SECONDS)


def _set_sources(
    means: ReconcileContext, key: ReconcileKey, sources: frozenset[ContentSource]
) -> None:
    if means.content_sources is not None:
        means.content_sources.set_sources(key, sources)


async def _fetch_rules(
    means: ReconcileContext, cluster: VirtualCluster
) -> tuple[tuple[SharedObjects, ...] | None, dict[str, _ContentCondition]]:
    """Return the rules of the policy. None if it is missing or invalid: all objects stay."""
    policy = await policies.fetch_policy(means.super_client, cluster.spec)
    if policy is not None:
        return policy.shared_objects, {}
    if not _has_shared(means, cluster):
        return None, {}
    message = "The TenantPolicy is missing or invalid, so shared objects stay as they are."
    return None, {
        wellknown.SHARED_OBJECTS_READY: _ContentCondition(False, POLICY_UNAVAILABLE, message)
    }


def _has_shared(means: ReconcileContext, cluster: VirtualCluster) -> bool:
    found = conditions.find_condition(cluster.status.conditions, wellknown.SHARED_OBJECTS_READY)
    return found is not None or bool(means.shared_versions.get(cluster.tenant.uid))


def _has_condition(body: Object, kind: str) -> bool:
    return conditions.find_condition((body.get("status") or {}).get("conditions"), kind) is not None


async def _reconcile_shared(
    means: ReconcileContext,
    client: Client,
    cluster: VirtualCluster,
    rules: tuple[SharedObjects, ...],
    key: ReconcileKey,
) -> dict[str, _ContentCondition]:
    """Return the condition. Empty if the tenant has no shared objects any longer."""
    uid = cluster.tenant.uid
    if rules:
        await means.tenant_clients.watch_content(
            uid,
            needs_namespaces=shared_objects.needs_namespaces(rules),
            on_changed=lambda: means.enqueue(key),
        )
    try:
        total, problems = await shared_objects.reconcile_shared_objects(means, client, uid, rules)
    except errors.Conflict:
        raise  # another writer was faster: the next try reads its change
    except errors.KubeError as problem:
        message = f"Shared objects could not be read or written: {problem}"
        return {wellknown.SHARED_OBJECTS_READY: _ContentCondition(False, UNREACHABLE, message)}
    if not rules:
        await means.tenant_clients.end_content_watch(uid)
        means.shared_versions.pop(uid, None)
        return {}
    if problems:
        verdict = _ContentCondition(False, INCOMPLETE, " ".join(problems))
    else:
        verdict = _ContentCondition(True, SHARED, f"The tenant has {total} shared objects.")
    return {wellknown.SHARED_OBJECTS_READY: verdict}


async def _apply_addons(
    means: ReconcileContext, client: Client, cluster: VirtualCluster
) -> tuple[_ContentCondition, list[Mapping[str, Any]] | None]:
    try:
        result = await addons.apply_addons(means, client, cluster)
    except errors.KubeError as problem:
        message = f"spec.addons: the manifests could not be applied: {problem}"
        return _ContentCondition(False, UNREACHABLE, message), None
    if result.problems:
        return _ContentCondition(False, FAILED, " ".join(result.problems)), [*result.applied]
    names = ", ".join(each["name"] for each in result.applied)
    return _ContentCondition(True, APPLIED, f"Applied: ConfigMap {names}."), [*result.applied]


async def _write_status(
    means: ReconcileContext,
    cluster: VirtualCluster,
    body: Object,
    verdicts: Mapping[str, _ContentCondition],
    applied: list[Mapping[str, Any]] | None,
) -> None:
    """Write the conditions and `status.addons`, if they changed. `applied` None: as before."""
    status: Mapping[str, Any] = body.get("status") or {}
    live, now = status.get("conditions") or [], conditions.format_time(means.now())
    wanted: list[Condition] = [
        conditions.build_condition(
            kind,
            "True" if verdict.is_ready else "False",
            verdict.reason,
            verdict.message[:_MAX_MESSAGE_LENGTH],
            now=now,
            generation=cluster.generation,
        )
        for kind, verdict in sorted(verdicts.items())
    ]
    wanted = conditions.carry_transition_times(live, wanted)
    before = [dict(each) for each in live if each.get("type") in _KINDS]
    listed = applied
    if listed is None and cluster.spec.addons:
        listed = [dict(each) for each in status.get("addons") or ()]
    listed = listed or []
    if sorted(before, key=_get_type) == wanted and listed == (status.get("addons") or []):
        return
    document: Object = {"conditions": wanted, **({"addons": listed} if listed else {})}
    metadata = body["metadata"]
    try:
        await means.super_client.apply(
            VIRTUAL_CLUSTERS,
            {
                "apiVersion": VIRTUAL_CLUSTERS.api_version,
                "kind": VIRTUAL_CLUSTERS.kind,
                "metadata": {key: metadata[key] for key in ("name", "namespace", "uid")},
                "status": document,
            },
            subresource="status",
            field_manager=FIELD_MANAGER,
        )
    except errors.NotFound:
        return
    for condition in wanted:
        was = conditions.find_condition(live, condition["type"]) or {}
        if (was.get("status"), was.get("reason")) != (condition["status"], condition["reason"]):
            is_ready = condition["status"] == "True"
            means.recorder.record(
                {"apiVersion": VIRTUAL_CLUSTERS.api_version, "kind": "VirtualCluster", **body},
                condition["type"] if is_ready else condition["reason"],
                condition["message"],
                kind="Normal" if is_ready else "Warning",
            )
    _log.info("tenant.content_written", conditions=[each["reason"] for each in wanted])


def _get_type(condition: Mapping[str, Any]) -> str:
    return str(condition["type"])
