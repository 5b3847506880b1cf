"""What must hold when everything is calm: the super cluster as the tenants say, and back.

Owns the comparison of what both sides have, from live lists of everything: lost, duplicate, orphan,
other than it must be, and statuses that were not told. Pure but for the lists. Nothing of the
syncer's is asked.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Mapping, Sequence

from kubeio.api.client import Client
from tenancy import ownership, wellknown
from tenancy.resources import CONFIG_MAPS, NAMESPACES, PODS, SECRETS, SERVICES, Resource
from tests.chaos.processes.sides import SYNCED, DrillTenant, Object, Violation
from tests.chaos.likeness import TERMINAL, differences, needs, untold

ClusterContents = Mapping[Resource, Sequence[Object]]
FOREIGN = "taken"
"""Name of a tenant's Service that a stranger has below: it never gets a twin."""


async def contents(client: Client) -> ClusterContents:
    """Return everything of the compared kinds that a server has now."""
    found = await asyncio.gather(*(client.list(resource) for resource in SYNCED))
    return {resource: each["items"] or () for resource, each in zip(SYNCED, found, strict=True)}


def findings(
    below: ClusterContents, above: Sequence[tuple[DrillTenant, ClusterContents]]
) -> list[Violation]:
    """Return what is not as it must be."""
    found: list[Violation] = []
    for tenant, own in above:
        owned = _owned(below, tenant)
        found += _doubled(tenant, owned)
        found += _orphans(tenant, own, owned)
        found += _strayed(tenant, owned, [each for each, _ in above if each is not tenant])
        twins = {(resource, uid): body for resource, uid, body in owned}
        for resource in SYNCED:
            for body in own[resource]:
                twin = twins.get((resource, body["metadata"]["uid"]))
                found += _judge(tenant, own, resource, body, twin)
    return found


def _owned(below: ClusterContents, tenant: DrillTenant) -> list[tuple[Resource, str, Object]]:
    """Return the super objects that record this tenant, each with the UID that it records."""
    return [
        (resource, owner.uid, body)
        for resource in SYNCED
        for body in below[resource]
        if (owner := ownership.read_owner(body["metadata"])) is not None
        and owner.vc_uid == tenant.tenant.uid
        and wellknown.TOKEN_SECONDS not in body["metadata"]["annotations"]
    ]


def _doubled(tenant: DrillTenant, owned: Sequence[tuple[Resource, str, Object]]) -> list[Violation]:
    places: dict[tuple[str, str], list[str]] = defaultdict(list)
    for resource, uid, body in owned:
        places[resource.kind, uid].append(_title(resource, body))
    return [
        Violation("duplicate", f"{tenant.side}: {uid} is below as {' and '.join(found)}")
        for (_, uid), found in places.items()
        if len(found) > 1
    ]


def _orphans(
    tenant: DrillTenant, own: ClusterContents, owned: Sequence[tuple[Resource, str, Object]]
) -> list[Violation]:
    alive = {body["metadata"]["uid"] for bodies in own.values() for body in bodies}
    found = []
    for resource, uid, body in owned:
        title = f"{tenant.side}: {_title(resource, body)}"
        if uid not in alive:
            found.append(Violation("orphan", f"{title}: its tenant object {uid} is gone"))
        elif "deletionTimestamp" in body["metadata"]:
            found.append(Violation("orphan", f"{title} is on its way out and stays"))
    return found


def _strayed(
    tenant: DrillTenant,
    owned: Sequence[tuple[Resource, str, Object]],
    others: Sequence[DrillTenant],
) -> list[Violation]:
    """I6: nothing of one tenant goes where another one is."""
    return [
        Violation("strayed", f"{tenant.side}: {_title(resource, body)} carries {other.canary}")
        for resource, _, body in owned
        for other in others
        if other.canary in str(body.get("data") or body["metadata"].get("labels") or "")
    ]


def _judge(
    tenant: DrillTenant, own: ClusterContents, resource: Resource, body: Object, twin: Object | None
) -> list[Violation]:
    title = f"{tenant.side}: {_title(resource, body)}"
    if "deletionTimestamp" in body["metadata"]:
        return [Violation("unfinished", f"{title} is still on its way out")]
    if twin is None:
        return (
            [Violation("lost", f"{title} has no twin")] if _is_wanted(own, resource, body) else []
        )
    place = tenant.below(body["metadata"].get("namespace") or body["metadata"]["name"])
    told = [] if _space(resource, twin) == place else [f"its twin is in {_space(resource, twin)}"]
    told += differences(resource, body, twin)
    found = [Violation("different", f"{title}: {text}") for text in told]
    if resource is PODS:
        found += [Violation("untold", f"{title}: {text}") for text in untold(body, twin)]
    return found


def _is_wanted(own: ClusterContents, resource: Resource, body: Object) -> bool:
    metadata = body["metadata"]
    if resource is SERVICES:
        is_provided = (metadata["namespace"], metadata["name"]) == ("default", "kubernetes")
        return not is_provided and metadata["name"] != FOREIGN
    if resource is PODS:
        return body["status"].get("phase") not in TERMINAL
    if resource not in (CONFIG_MAPS, SECRETS):
        return True
    return any(
        pod["metadata"]["namespace"] == metadata["namespace"]
        and "deletionTimestamp" not in pod["metadata"]
        and pod["status"].get("phase") not in TERMINAL
        and (resource, metadata["name"]) in needs(pod)
        for pod in own[PODS]
    )


def _space(resource: Resource, body: Object) -> str:
    metadata = body["metadata"]
    return str(metadata["name"] if resource is NAMESPACES else metadata["namespace"])


def _title(resource: Resource, body: Object) -> str:
    metadata = body["metadata"]
    return f"{resource.kind} {metadata.get('namespace', '')}/{metadata['name']}"
