"""Shared ConfigMaps and Secrets of a tenant: created, kept equal to their source, and deleted.

Owns the reads and writes, and the Events in the tenant. `vcmanager.plan.content.shared_objects`
decides. Hazard: an object without the mark is the tenant's own. It is never changed or deleted.
Hazard: a failed read of a source must end the reconcile. Otherwise its objects would be deleted.
"""

from collections.abc import AsyncIterator, Mapping
from typing import Any, NamedTuple

import structlog

from kubeio import Object, errors
from kubeio.api.client import Client
from tenancy import wellknown
from tenancy.policies import SharedObjects
from tenancy.resources import NAMESPACES, Resource
from vcmanager.phases.content import tenant_recorder
from vcmanager.plan.content import shared_objects
from vcmanager.plan.content.shared_objects import RESOURCES, ObjectKey
from vcmanager.runtime import metadata_pages
from vcmanager.runtime.content_sources import ContentSource
from vcmanager.runtime.context import ReconcileContext

SHARED_NAME_TAKEN = "SharedNameTaken"
"""Reason of the Event about an object of the tenant with the name of a shared one."""
SHARED_OBJECT_REVERTED = "SharedObjectReverted"
"""Reason of the Event about an edit of a shared object."""
_PAGE_SIZE = 100
_MAX_PAGES = 500
"""Pages of one list. A tenant with 50,000 namespaces or shared objects gets a condition."""

_log: structlog.stdlib.BoundLogger = structlog.get_logger(__name__)


class SharedResult(NamedTuple):
    """Result of one reconcile."""

    total: int
    """Number of objects that the tenant should have."""
    problems: tuple[str, ...]


def list_sources(rules: tuple[SharedObjects, ...]) -> frozenset[ContentSource]:
    """Return what the rules read in the super cluster."""
    return frozenset(ContentSource(rule.kind, rule.namespace) for rule in rules)


def needs_namespaces(rules: tuple[SharedObjects, ...]) -> bool:
    """Return whether a new namespace of the tenant may get objects."""
    return any(rule.tenant_namespaces or rule.tenant_namespace_labels for rule in rules)


async def reconcile_shared_objects(
    means: ReconcileContext, client: Client, uid: str, rules: tuple[SharedObjects, ...]
) -> SharedResult:
    """Make the shared objects of a tenant as its policy wants them. `client` is the tenant's."""
    sources, refused = await _fetch_sources(means, rules)
    namespaces = await _fetch_namespaces(client) if rules else {}
    wish = shared_objects.build_wish(sources, namespaces)
    problems = [*refused, *wish.problems]
    live = await _list_live(client)
    versions = means.shared_versions.setdefault(uid, {})
    for gone in versions.keys() - live.keys():
        del versions[gone]
    for key, wanted in wish.objects.items():
        found = live.get(key)
        digest = wanted["metadata"]["annotations"][wellknown.LAST_WRITTEN_DIGEST]
        if found is not None and versions.get(key) == (found["resourceVersion"], digest):
            continue
        problem = await _write(means, client, key, wanted, versions)
        if problem:
            problems.append(problem)
    for key in live.keys() - wish.objects.keys():
        await _delete(client, key, live[key])
        versions.pop(key, None)
    return SharedResult(len(wish.objects), tuple(problems))


async def _fetch_sources(
    means: ReconcileContext, rules: tuple[SharedObjects, ...]
) -> tuple[list[tuple[SharedObjects, Object]], list[str]]:
    """Return the selected sources, each with its rule, and the problems of their namespaces."""
    found: list[tuple[SharedObjects, Object]] = []
    problems: list[str] = []
    for namespace in dict.fromkeys(rule.namespace for rule in rules):
        problem = shared_objects.find_namespace_problem(
            namespace, await _fetch_namespace(means, namespace), means.namespace
        )
        if problem:
            problems.append(f"Namespace {namespace} {problem}.")
            continue
        for rule in rules:
            if rule.namespace == namespace and rule.match_labels:
                found += [(rule, each) for each in await _list_source(means, rule)]
    order = {id(rule): index for index, rule in enumerate(rules)}
    found.sort(key=lambda pair: order[id(pair[0])])
    return found, problems


async def _fetch_namespace(means: ReconcileContext, name: str) -> Mapping[str, Any] | None:
    try:
        body = await means.super_client.get(NAMESPACES, name, metadata_only=True)
    except errors.NotFound:
        return None
    metadata: Mapping[str, Any] = body["metadata"]
    return metadata


async def _list_source(means: ReconcileContext, rule: SharedObjects) -> list[Object]:
    selector = ",".join(f"{key}={value}" for key, value in sorted(rule.match_labels.items()))
    listed = await means.super_client.list(
        RESOURCES[rule.kind], namespace=rule.namespace, label_selector=selector
    )
    return [each for each in listed.get("items") or () if shared_objects.is_selected(rule, each)]


async def _fetch_namespaces(client: Client) -> dict[str, Mapping[str, str]]:
    """Return the labels of the tenant's namespaces that do not end."""
    return {
        metadata["name"]: metadata.get("labels") or {}
        async for metadata in _iterate(client, NAMESPACES)
        if not metadata.get("deletionTimestamp")
    }


async def _list_live(client: Client) -> dict[ObjectKey, Mapping[str, Any]]:
    """Return the metadata of the shared objects in the tenant."""
    found: dict[ObjectKey, Mapping[str, Any]] = {}
    for kind, resource in RESOURCES.items():
        async for metadata in _iterate(client, resource, f"{wellknown.SHARED}=true"):
            found[kind, metadata["namespace"], metadata["name"]] = metadata
    return found


def _iterate(
    client: Client, resource: Resource, selector: str = ""
) -> AsyncIterator[Mapping[str, Any]]:
    return metadata_pages.iterate_metadata(
        client, resource, page_size=_PAGE_SIZE, max_pages=_MAX_PAGES, label_selector=selector
    )


async def _write(
    means: ReconcileContext,
    client: Client,
    key: ObjectKey,
    wanted: Object,
    versions: dict[tuple[str, str, str], tuple[str, str]],
) -> str:
    """Create or correct one object. Return why it is not as it should be, or an empty text."""
    kind, namespace, name = key
    resource = RESOURCES[kind]
    try:
        live = await client.get(resource, name, namespace=namespace)
    except errors.NotFound:
        written = await _create(client, resource, wanted)
        if written is None:
            return f"{kind} {namespace}/{name} appeared in the tenant meanwhile. It is tried again."
        _record(versions, key, wanted, written)
        return ""
    live = {**live, "apiVersion": "v1", "kind": kind}
    if not shared_objects.is_own(live["metadata"]):
        await _report_taken(means, client, live)
        return (
            f"{kind} {namespace}/{name} in the tenant belongs to the tenant, so it stays. The"
            " tenant can delete it to get the shared object."
        )
    if shared_objects.is_current(live, wanted):
        _record(versions, key, wanted, live)
        return ""
    if live["metadata"].get("deletionTimestamp"):
        return ""  # its end wakes this key
    if shared_objects.was_edited(live, wanted):
        await _report_reverted(means, client, live)
    _record(versions, key, wanted, await _replace(client, resource, key, wanted, live))
    return ""


def _record(
    versions: dict[tuple[str, str, str], tuple[str, str]],
    key: ObjectKey,
    wanted: Object,
    written: Object | None,
) -> None:
    if written is not None and shared_objects.is_current(written, wanted):
        digest = wanted["metadata"]["annotations"][wellknown.LAST_WRITTEN_DIGEST]
        versions[key] = (written["metadata"]["resourceVersion"], digest)


async def _create(client: Client, resource: Resource, wanted: Object) -> Object | None:
    try:
        # Never applied: an apply would overwrite an object that has just appeared.
        return await client.create(resource, wanted, field_manager=wellknown.MANAGER)
    except errors.AlreadyExists:
        return None


async def _replace(
    client: Client, resource: Resource, key: ObjectKey, wanted: Object, live: Object
) -> Object | None:
    if shared_objects.must_recreate(live, wanted):
        await _delete(client, key, live["metadata"])
        return await _create(client, resource, wanted)
    body = shared_objects.build_replacement(live, wanted)
    return await client.replace(resource, body, field_manager=wellknown.MANAGER)


async def _delete(client: Client, key: ObjectKey, metadata: Mapping[str, Any]) -> None:
    kind, namespace, name = key
    if metadata.get("deletionTimestamp"):
        return
    try:
        await client.delete(RESOURCES[kind], name, namespace=namespace, uid=metadata["uid"])
    except (errors.NotFound, errors.Conflict):
        return  # the tenant has deleted or replaced it
    _log.info("shared_object.deleted", kind=kind, namespace=namespace, name=name)


async def _report_taken(means: ReconcileContext, client: Client, live: Object) -> None:
    message = (
        f"metadata.name {live['metadata']['name']} is the name of a {live['kind']} that your"
        " platform gives to this namespace. Delete this object, and the shared one appears here."
    )
    await tenant_recorder.record(means, client, live, reason=SHARED_NAME_TAKEN, message=message)


async def _report_reverted(means: ReconcileContext, client: Client, live: Object) -> None:
    message = (
        "The edit was reverted, because your platform determines this object. Ask your platform"
        " administrator to change it, or use an object of another name."
    )
    await tenant_recorder.record(
        means, client, live, reason=SHARED_OBJECT_REVERTED, message=message
    )
