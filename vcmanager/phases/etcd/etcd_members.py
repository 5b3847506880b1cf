"""Number of etcd members of a tenant, and the pods, volumes and conditions of a change.

A bundle of upstream's shape has the number for life. Hazard: its members learn of each other when
etcd is first created. A member that is started with another list finds the old data in its volume
or begins a store of its own. The tenant's objects are then in two stores or in none. Nothing is
written while the spec and the existing etcd differ.

In the short form the number can change. vc-manager changes the members through etcd
(`vcmanager.reconcilers.etcd_store`), and this module follows etcd's own list with the pods.
Hazard: a volume is deleted only if etcd lists no member for it and its pod does not exist.
"""

import copy
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from kubeio import Object, errors
from kubeio.config.endpoint import Endpoint
from tenancy import conditions, wellknown
from tenancy.ownership import Tenant
from tenancy.resources import PERSISTENT_VOLUME_CLAIMS, PODS
from vcmanager.phases.etcd import etcd_identity, member_config
from vcmanager.phases.etcd.member_config import MemberInput
from vcmanager.phases.etcd.membership import list_ordinals
from vcmanager.pki import bundles
from vcmanager.plan import control_plane, upstream_bundles
from vcmanager.plan.control_plane import ControlPlane
from vcmanager.plan.pki_secrets import DesiredSecrets
from vcmanager.runtime import keys
from vcmanager.runtime.blocked import PhaseBlocked
from vcmanager.runtime.context import ReconcileContext
from vcmanager.runtime.etcd_stores import DesiredStore, StoreReport
from vcmanager.runtime.observed import ObservedObjects
from vcmanager.runtime.status import ReconcileStatus

ETCD_REPLICAS_CHANGED = "EtcdReplicasChanged"
_RETRY_SECONDS = 60.0
_CLIENT_SECRET = "apiserver-etcd-client"  # noqa: S105 - upstream's name
_CLAIM_PREFIX = "data-etcd-"
_OWN_CONDITIONS = (wellknown.STORE_FILLING, wellknown.ETCD_MEMBERS_READY)


def check_replicas(plan: ControlPlane, snapshot: ObservedObjects, version_name: str) -> None:
    """Refuse a plan with another number of members than the store has. Raises Held."""
    live = snapshot.get("StatefulSet", control_plane.ETCD)
    planned = _find_etcd(plan)
    if live is None or get_member_count(live) == get_member_count(planned):
        return
    raise PhaseBlocked(
        ETCD_REPLICAS_CHANGED,
        f"ClusterVersion {version_name} asks for {get_member_count(planned)} etcd members, but"
        f" this tenant was created with {get_member_count(live)}. The number cannot change,"
        f" because that would split its etcd. Use a ClusterVersion with {get_member_count(live)},"
        f" or create a new VirtualCluster for {get_member_count(planned)}.",
        needs_admin=True,
        retry_after=_RETRY_SECONDS,
    )


def get_member_count(stateful_set: Mapping[str, Any]) -> int:
    """Return the number of members that etcd was created for.

    The number comes from etcd's `--initial-cluster`. The current number of pods may have been
    scaled by hand, and is restored.
    """
    told = upstream_bundles.get_flag_value(
        "--initial-cluster", upstream_bundles.get_command_words(stateful_set)
    )
    if told:
        return len(told.split(","))
    return int(stateful_set["spec"].get("replicas", 1))


def plan_members(
    plan: ControlPlane, snapshot: ObservedObjects, report: StoreReport | None
) -> ControlPlane:
    """Return the plan with the ConfigMap of the members, the number of pods, and the identity."""
    live = snapshot.get("StatefulSet", control_plane.ETCD)
    etcd = _find_etcd(plan)
    found = member_config.plan_members(
        MemberInput(
            desired=etcd["spec"]["replicas"],
            config=_read_config(snapshot),
            created_with=get_member_count(live) if live is not None else None,
            report=report,
            pods=frozenset(_map_pods(snapshot)),
            volumes=etcd_identity.compute_store_identity(snapshot),
        )
    )
    changed = copy.deepcopy(etcd)
    changed["spec"]["replicas"] = found.replicas
    workloads = [changed if each is etcd else each for each in plan.workloads]
    config_map = found.build_config_map(etcd["metadata"]["namespace"])
    return replace(plan, workloads=(config_map, *workloads), store_identity=found.identity)


async def pass_on(
    means: ReconcileContext,
    tenant: Tenant,
    plan: ControlPlane,
    snapshot: ObservedObjects,
    material: DesiredSecrets,
) -> None:
    """Record the input of the checks of etcd, and delete volumes and pods that are in their way."""
    report = means.stores.get_report(tenant.uid)
    pods = _map_pods(snapshot)
    endpoints = _build_endpoints(pods, material)
    if not endpoints:
        return
    desired = DesiredStore(
        owner=keys.build_virtual_cluster_key(tenant.namespace, tenant.name),
        endpoints=endpoints,
        peer_urls=tuple(map(member_config.build_peer_url, range(control_plane.MAX_REPLICAS))),
        replicas=plan.etcd_replicas,
        lost=frozenset(number for number, pod in pods.items() if member_config.is_data_lost(pod)),
        occupied=frozenset(_map_leftover_claims(snapshot, report)),
    )
    if means.stores.set_desired(tenant.uid, desired):
        means.enqueue(keys.build_store_key(tenant.namespace, tenant.uid))
    await _delete_leftover_claims(means, snapshot, report, pods)
    await _restart_joining_pods(means, snapshot, report, pods)


def report_store(
    status: ReconcileStatus, report: StoreReport | None, old: Mapping[str, Any], *, replicas: int
) -> None:
    """Set the conditions of the store by the last report. Before the first one, repeat the old.

    `old` is the status so far, and `replicas` the desired number of members. A report from before
    a change of that number is not repeated as ready.
    """
    if report is not None and report.is_ready:
        count = len(report.members)
        if list_ordinals(report.members) != set(range(replicas)):
            message = f"The number of etcd members changes from {count} to {replicas}."
            report = replace(report, is_ready=False, reason="Scaling", message=message)
    if report is not None:
        value = {True: "True", False: "False", None: "Unknown"}[report.is_ready]
        status.set_condition(
            wellknown.ETCD_MEMBERS_READY,
            value,  # type: ignore[arg-type]
            report.reason,
            report.message,
        )
    if report is not None and report.is_filling is not None:
        status.set_condition(
            wellknown.STORE_FILLING,
            "True" if report.is_filling else "False",
            report.filling_reason,
            report.filling_message,
        )
    for kind in _OWN_CONDITIONS:
        before = conditions.find_condition(old.get("conditions"), kind)
        if before is not None:
            status.set_condition(kind, before["status"], before["reason"], before["message"])


def _find_etcd(plan: ControlPlane) -> dict[str, Any]:
    return next(
        each
        for each in plan.workloads
        if (each["kind"], each["metadata"]["name"]) == ("StatefulSet", control_plane.ETCD)
    )


def _read_config(snapshot: ObservedObjects) -> Mapping[str, str] | None:
    found = snapshot.get("ConfigMap", member_config.CONFIG_MAP)
    return (found.get("data") or None) if found is not None else None


def _map_pods(snapshot: ObservedObjects) -> dict[int, Object]:
    return {
        member_config.get_ordinal(pod["metadata"]["name"]): pod
        for pod in snapshot.iterate_pods(control_plane.ETCD)
    }


def _build_endpoints(pods: Mapping[int, Object], material: DesiredSecrets) -> dict[int, Endpoint]:
    """Return the client endpoint of each running pod, by its address and the name it serves."""
    secret = next(
        (each for each in material.secrets if each["metadata"]["name"] == _CLIENT_SECRET), None
    )
    pair = bundles.read_key_pair(secret)
    if pair is None:
        return {}
    authority = str(material.trust["data"]["etcd.crt"]).encode()
    found: dict[int, Endpoint] = {}
    for ordinal, pod in sorted(pods.items()):
        address = str((pod.get("status") or {}).get("podIP") or "")
        if not address or "deletionTimestamp" in pod["metadata"]:
            continue
        host = f"[{address}]" if ":" in address else address
        found[ordinal] = Endpoint(
            server=f"https://{host}:2379",
            name=f"etcd-{ordinal}",
            ca=authority,
            client_cert=pair.certificate,
            client_key=pair.key,
            tls_server_name=f"etcd-{ordinal}.etcd",
        )
    return found


def _map_leftover_claims(
    snapshot: ObservedObjects, report: StoreReport | None
) -> dict[int, Object]:
    """Return the claims of ordinals beyond the last member that etcd lists."""
    ordinals = list_ordinals(report.members) if report is not None else frozenset()
    if not ordinals:
        return {}
    found = snapshot.get_by_name("PersistentVolumeClaim")
    beyond = range(max(ordinals) + 1, control_plane.MAX_REPLICAS)
    names = {number: f"{_CLAIM_PREFIX}{number}" for number in beyond}
    return {number: found[name] for number, name in names.items() if name in found}


async def _delete_leftover_claims(
    means: ReconcileContext,
    snapshot: ObservedObjects,
    report: StoreReport | None,
    pods: Mapping[int, Object],
) -> None:
    """Delete volumes of removed members. A new member could not start with the old data."""
    live = snapshot.get("StatefulSet", control_plane.ETCD)
    for ordinal, claim in _map_leftover_claims(snapshot, report).items():
        metadata = claim["metadata"]
        is_used = ordinal in pods or live is None or live["spec"].get("replicas", 1) > ordinal
        if not is_used and "deletionTimestamp" not in metadata:
            await means.super_client.delete(
                PERSISTENT_VOLUME_CLAIMS,
                metadata["name"],
                namespace=metadata["namespace"],
                uid=metadata["uid"],
            )


async def _restart_joining_pods(
    means: ReconcileContext,
    snapshot: ObservedObjects,
    report: StoreReport | None,
    pods: Mapping[int, Object],
) -> None:
    """Delete pods that exited before they were allowed to join. Their restart waits for minutes."""
    config = _read_config(snapshot)
    for member in report.members if report is not None else ():
        pod = pods.get(member.ordinal) if member.ordinal is not None else None
        if (
            pod is None
            or member.is_started
            or "deletionTimestamp" in pod["metadata"]
            or not member_config.is_data_lost(pod)
            or not member_config.is_joining(member.ordinal or 0, config)
        ):
            continue
        metadata = pod["metadata"]
        try:
            await means.super_client.delete(
                PODS, metadata["name"], namespace=metadata["namespace"], uid=metadata["uid"]
            )
        except errors.NotFound:
            continue
