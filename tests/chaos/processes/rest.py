"""Rules at rest: the super cluster matches the tenants, and the tenants match it.

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
from tenancy.resources import PODS, SERVICES, Resource
from tests.chaos import oracles
from tests.chaos.oracles import Object, Violation, title
from tests.chaos.processes.sides import SYNCED, DrillTenant

ClusterContents = Mapping[Resource, Sequence[Object]]
FOREIGN = "taken"
"""Name of a tenant's Service of a foreign object in the super cluster. It never gets a twin."""


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
        owned = list_owned(below, tenant)
        found += _doubled(tenant, owned)
        alive = {body["metadata"]["uid"] for bodies in own.values() for body in bodies}
        for resource, uid, body in owned:
            is_alive = uid in alive
            found += oracles.check_twin(tenant.side, resource, body, uid, is_alive=is_alive)
        found += _strayed(tenant, owned, [each for each, _ in above if each is not tenant])
        twins = {(resource, uid): body for resource, uid, body in owned}
        for resource in SYNCED:
            for body in own[resource]:
                twin = twins.get((resource, body["metadata"]["uid"]))
                found += _judge(tenant, own, resource, body, twin)
    return found


def list_owned(below: ClusterContents, tenant: DrillTenant) -> list[tuple[Resource, str, Object]]:
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
        places[resource.kind, uid].append(title(resource, body["metadata"]))
    return [
        Violation("duplicate", f"{tenant.side}: {uid} is below as {' and '.join(found)}")
        for (_, uid), found in places.items()
        if len(found) > 1
    ]


def _strayed(
    tenant: DrillTenant,
    owned: Sequence[tuple[Resource, str, Object]],
    others: Sequence[DrillTenant],
) -> list[Violation]:
    """I6: nothing of one tenant goes where another one is."""
    return [
        Violation(
            "strayed", f"{tenant.side}: {title(resource, body['metadata'])} carries {other.canary}"
        )
        for resource, _, body in owned
        for other in others
        if other.canary in str(body.get("data") or body["metadata"].get("labels") or "")
    ]


def _judge(
    tenant: DrillTenant, own: ClusterContents, resource: Resource, body: Object, twin: Object | None
) -> list[Violation]:
    metadata = body["metadata"]
    is_foreign = resource is SERVICES and metadata["name"] == FOREIGN
    is_wanted = not is_foreign and oracles.is_wanted(resource, body, own[PODS])
    found = oracles.check_object(tenant.side, resource, body, twin, is_wanted=is_wanted)
    if twin is not None and "deletionTimestamp" not in metadata:
        place, space = tenant.below(_space(body)), _space(twin)
        if place != space:
            about = f"{tenant.side}: {title(resource, metadata)}"
            found.append(Violation("different", f"{about}: its twin is in {space}"))
    return found


def _space(body: Object) -> str:
    return str(body["metadata"].get("namespace") or body["metadata"]["name"])
