"""Collection of the facts of `kubectl vc why` from one or two API servers.

Owns the requests. Must not decide anything. Hazard: a tenant's view must make no request to the
super cluster after the kubeconfig was read. Its report is what the tenant may know.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from kubectl_vc.client.permissive_reader import PermissiveReader
from kubectl_vc.diagnosis import object_kinds
from kubectl_vc.diagnosis.object_facts import (
    Body,
    ObjectFacts,
    RuledDirection,
    SuperFacts,
    get_event_time,
    get_metadata,
    get_spec,
    get_status,
)
from kubectl_vc.diagnosis.object_kinds import REPLICA_SETS, ObjectName
from kubeio import Object, errors
from kubeio.api.client import Client
from tenancy import conditions, names, wellknown
from tenancy.ownership import Tenant
from tenancy.resources import (
    CLUSTER_ROLES,
    CONFIG_MAPS,
    EVENTS,
    LEASES,
    NAMESPACES,
    NODES,
    PERSISTENT_VOLUME_CLAIMS,
    PODS,
    SECRETS,
    SERVICE_ACCOUNTS,
    SUPER_CLUSTERS,
    SYNC_RULES,
    Resource,
)

MAX_EVENTS = 200
MAX_NEEDS = 20
"""Maximum number of objects named by a pod whose existence is checked."""


async def collect_tenant_facts(client: Client, wanted: ObjectName, namespace: str) -> ObjectFacts:
    """Return the facts of the tenant's own API about one object.

    A workload is replaced by its first pod that is not ready. Raises KubeError if the API does not
    answer.
    """
    reader = PermissiveReader(client)
    resource, name = wanted.resource, wanted.name
    place = namespace if resource.namespaced else ""
    body = await client_get(client, resource, name, place)
    now = datetime.now(UTC)
    facts = ObjectFacts(kind=wanted.kind, name=name, namespace=place, now=now, tenant_object=body)
    if wanted.is_custom:
        facts = await _add_rule(reader, facts, resource)
    if wanted.kind in object_kinds.WORKLOADS and body is not None:
        pod = await _find_pod(reader, body, place)
        if pod is None:
            return replace(facts, tenant_events=await _list_workload_events(reader, body, place))
        facts = replace(facts, kind=PODS.kind, name=pod["metadata"]["name"], tenant_object=pod)
        resource, name, body = PODS, facts.name, pod
    uid = get_metadata(body).get("uid")
    space, events, report = await asyncio.gather(
        reader.get(NAMESPACES, place) if place else _return_none(),
        _list_events(reader, place or "default", resource.kind, name, uid),
        reader.get(CONFIG_MAPS, names.QUOTA_REPORT[1], names.QUOTA_REPORT[0]),
    )
    facts = replace(
        facts,
        tenant_namespace=space,
        tenant_events=events,
        quota_report=(report or {}).get("data"),
    )
    if resource is not PODS or body is None:
        return facts
    claims, missing = await _collect_needs(reader, body, place)
    node = get_spec(body).get("nodeName")
    node_body = await reader.get(NODES, node) if node else None
    return replace(
        facts,
        tenant_claims=claims,
        claim_events=await _list_claim_events(reader, claims, place),
        missing_needs=missing,
        tenant_node=node_body,
        is_tenant_node_known=reader.is_known(NODES),
    )


async def _add_rule(
    reader: PermissiveReader, facts: ObjectFacts, resource: Resource
) -> ObjectFacts:
    """Add how SyncRules sync a kind. The syncer's own rights in the tenant show it."""
    role = await reader.get(CLUSTER_ROLES, wellknown.SYNCER_RULES_ROLE)
    verbs = {
        verb
        for rule in (role or {}).get("rules") or ()
        if resource.group in rule["apiGroups"] and resource.plural in rule["resources"]
        for verb in rule["verbs"]
    }
    ruled: RuledDirection = "Mirror" if "create" in verbs else "Down" if verbs else ""
    return replace(facts, ruled=ruled, is_ruled_known=reader.is_known(CLUSTER_ROLES))


async def client_get(
    client: Client, resource: Resource, name: str, namespace: str
) -> Object | None:
    """Return an object, or None if it does not exist. Raises Forbidden."""
    try:
        return await client.get(resource, name, namespace=namespace)
    except errors.NotFound:
        return None


async def collect_super_facts(
    super_client: Client,
    virtual_cluster: Body,
    tenant: Tenant,
    facts: ObjectFacts,
    resource: Resource,
    *,
    manager_namespace: str,
) -> SuperFacts:
    """Return the facts of the home cluster about the object of `facts`, of the kind `resource`.

    The copy of a tenant with targets may be in one of them, which is not read. Then it is unknown.
    """
    reader = PermissiveReader(super_client)
    super_namespace = names.build_super_namespace(
        tenant.root, tenant.uid, facts.namespace or facts.name
    )
    place = super_namespace if resource.namespaced else ""
    name = _build_super_name(resource, facts.name, super_namespace)
    found, lease, targets, rules = await asyncio.gather(
        reader.get(resource, name, place) if facts.has_copies else _return_none(),
        reader.get(LEASES, wellknown.SYNCER, manager_namespace),
        _list_targets(reader, virtual_cluster),
        _list_rules(reader, resource),
    )
    copy = found if found is not None and tenant.owns(found["metadata"]) else None
    uid = get_metadata(copy).get("uid")
    events = (
        await _list_events(reader, place or "default", resource.kind, name, uid)
        if copy is not None
        else []
    )
    super_facts = SuperFacts(
        virtual_cluster=virtual_cluster,
        super_namespace=super_namespace,
        is_copy_known=reader.is_known(resource, place) and not (copy is None and targets),
        copy=copy,
        copy_events=events,
        is_lease_known=reader.is_known(LEASES, manager_namespace),
        syncer_lease=lease,
        sync_rules=rules,
        targets=targets,
        is_node_known=False,
        is_agent_known=False,
        unknown=reader.unknown,
    )
    if resource is not PODS or copy is None:
        return super_facts
    node = get_spec(copy).get("nodeName")
    claims, node_body, agent = await asyncio.gather(
        _list_claims(reader, copy, place),
        reader.get(NODES, node) if node else _return_none(),
        _find_agent(reader, node, manager_namespace) if node else _return_none(),
    )
    return replace(
        super_facts,
        claims=claims,
        node=node_body,
        is_node_known=reader.is_known(NODES),
        agent_pod=agent,
        is_agent_known=bool(node) and reader.is_known(PODS, manager_namespace),
        unknown=reader.unknown,
    )


async def _return_none() -> None:
    return None


def _build_super_name(resource: Resource, name: str, super_namespace: str) -> str:
    if resource is NAMESPACES:
        return super_namespace
    return object_kinds.build_super_name(resource, name)


async def _find_pod(reader: PermissiveReader, body: Body, namespace: str) -> Object | None:
    """Return the first pod of a workload that is not ready, otherwise its first pod."""
    selector = get_spec(body).get("selector") or {}
    labels = ",".join(
        f"{key}={value}" for key, value in (selector.get("matchLabels") or {}).items()
    )
    if not labels:
        return None
    found = await reader.list(PODS, namespace, label_selector=labels)
    held = (
        each
        for each in found
        if not conditions.is_true(get_status(each).get("conditions"), "Ready")
        and get_status(each).get("phase") != "Succeeded"
    )
    return next(held, found[0] if found else None)


async def _list_workload_events(
    reader: PermissiveReader, body: Body, namespace: str
) -> Sequence[Object]:
    """Return the Events about a workload and its ReplicaSets."""
    uid = body["metadata"]["uid"]
    owned = [
        each["metadata"]["uid"]
        for each in await reader.list(REPLICA_SETS, namespace)
        if any(owner["uid"] == uid for owner in each["metadata"].get("ownerReferences") or ())
    ]
    events = await reader.list(EVENTS, namespace, limit=MAX_EVENTS)
    found = [
        each for each in events if (each.get("involvedObject") or {}).get("uid") in {uid, *owned}
    ]
    return sorted(found, key=get_event_time)


async def _list_events(
    reader: PermissiveReader, namespace: str, kind: str, name: str, uid: str | None
) -> Sequence[Object]:
    """Return the Events about one object, oldest first. `uid` excludes an earlier object."""
    found = await reader.list(
        EVENTS,
        namespace,
        field_selector=f"involvedObject.kind={kind},involvedObject.name={name}",
        limit=MAX_EVENTS,
    )
    events = [
        each
        for each in found
        if uid is None or (each.get("involvedObject") or {}).get("uid") in (uid, None, "")
    ]
    return sorted(events, key=get_event_time)


def list_claim_names(pod: Body) -> list[str]:
    """Return the names of the claims that a pod uses."""
    found = []
    for volume in get_spec(pod).get("volumes") or ():
        if volume.get("persistentVolumeClaim"):
            found.append(str(volume["persistentVolumeClaim"].get("claimName")))
        elif volume.get("ephemeral"):
            found.append(f"{get_metadata(pod).get('name')}-{volume.get('name')}")
    return found


async def _list_claims(reader: PermissiveReader, pod: Body, namespace: str) -> list[Object]:
    wanted = list_claim_names(pod)[:MAX_NEEDS]
    found = [await reader.get(PERSISTENT_VOLUME_CLAIMS, each, namespace) for each in wanted]
    return [each for each in found if each is not None]


async def _list_claim_events(
    reader: PermissiveReader, claims: Sequence[Object], namespace: str
) -> Sequence[Object]:
    found: list[Object] = []
    for each in claims:
        metadata = each["metadata"]
        kind = PERSISTENT_VOLUME_CLAIMS.kind
        found += await _list_events(reader, namespace, kind, metadata["name"], metadata.get("uid"))
    return sorted(found, key=get_event_time)


async def _collect_needs(
    reader: PermissiveReader, pod: Body, namespace: str
) -> tuple[list[Object], tuple[str, ...]]:
    """Return the claims of a pod, and the objects that it needs and that do not exist."""
    claims = await _list_claims(reader, pod, namespace)
    present = {each["metadata"]["name"] for each in claims}
    missing = []
    if reader.is_known(PERSISTENT_VOLUME_CLAIMS, namespace):
        missing = [
            f"PersistentVolumeClaim {each}" for each in list_claim_names(pod) if each not in present
        ]
    for resource, name in list_needs(pod)[:MAX_NEEDS]:
        found = await reader.get(resource, name, namespace)
        if found is None and reader.is_known(resource, namespace):
            missing.append(f"{resource.kind} {name}")
    return claims, tuple(missing)


def list_needs(pod: Body) -> list[tuple[Resource, str]]:
    """Return the ConfigMaps, Secrets and the account that a pod cannot start without."""
    spec = get_spec(pod)
    found: dict[tuple[Resource, str], None] = {}

    def add(resource: Resource, reference: Mapping[str, Any] | None, field: str = "name") -> None:
        if reference and reference.get(field) and not reference.get("optional"):
            found[resource, str(reference[field])] = None

    add(SERVICE_ACCOUNTS, {"name": spec.get("serviceAccountName")})
    for field in ("initContainers", "containers"):
        for container in spec.get(field) or ():
            for source in container.get("envFrom") or ():
                add(CONFIG_MAPS, source.get("configMapRef"))
                add(SECRETS, source.get("secretRef"))
            for variable in container.get("env") or ():
                value = variable.get("valueFrom") or {}
                add(CONFIG_MAPS, value.get("configMapKeyRef"))
                add(SECRETS, value.get("secretKeyRef"))
    for volume in spec.get("volumes") or ():
        for part in (volume, *((volume.get("projected") or {}).get("sources") or ())):
            add(CONFIG_MAPS, part.get("configMap"))
            secret = part.get("secret") or {}
            add(SECRETS, secret, "secretName" if "secretName" in secret else "name")
    return list(found)


async def _find_agent(reader: PermissiveReader, node: str, manager_namespace: str) -> Object | None:
    found = await reader.list(PODS, manager_namespace, field_selector=f"spec.nodeName={node}")
    for each in found:
        owners = each["metadata"].get("ownerReferences") or ()
        if any(owner.get("name") == wellknown.AGENT for owner in owners):
            return each
    return None


async def _list_rules(reader: PermissiveReader, resource: Resource) -> list[Object]:
    """Return the SyncRules of a kind that is not built in."""
    if object_kinds.RESOURCES.get(resource.plural) == resource:
        return []
    wanted = (resource.group, resource.plural)
    return [
        each
        for each in await reader.list(SYNC_RULES)
        if (each["spec"]["resource"]["group"], each["spec"]["resource"]["plural"]) == wanted
    ]


async def _list_targets(reader: PermissiveReader, virtual_cluster: Body) -> list[Object]:
    granted = get_spec(virtual_cluster).get("targets") or ()
    found = [
        await reader.get(SUPER_CLUSTERS, each["name"])
        for each in granted
        if each.get("name") != "home"
    ]
    return [each for each in found if each is not None]
