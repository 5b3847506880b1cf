"""Networks of pods: facts for the builder, the wait for definitions, and the status for the tenant.

Owns the lookups of definitions. Must not know the form of an annotation. Hazard: a pod must wait
for its definitions. Otherwise Multus reads an earlier one, or none.
"""

from kubeio import Object
from kubeio.cache.store import Entry
from kubeio.controller.worker import NotReadyYet
from syncer.controllers import sync_up
from syncer.controllers.sync_up import ObservedTenantObject
from syncer.model.keys import TENANT_NETWORK, Key
from syncer.model.rejections import SYNC_REJECTED, RejectedError, RejectionProblem
from syncer.rules.network.attachments import (
    definitions,
    network_status,
    primary_networks,
    selections,
)
from syncer.rules.network.attachments.segments import Segment
from syncer.rules.network.attachments.selections import SelectionContext
from syncer.rules.registry import SyncedKind
from syncer.tenants.session import Session
from tenancy import names
from tenancy.resources import PODS

_KIND = definitions.KIND


def _is_offered(session: Session) -> bool:
    return _KIND in session.super_cluster.stores and (
        session.view.policy.network.attachments.is_offered or session.view.spec.network is not None
    )


def build_context(namespace: str, session: Session) -> SelectionContext | None:
    """Return the facts for the networks of a pod. None if none are offered.

    Raises RejectedError while the tenant's own network cannot be used.
    """
    view = session.view
    primary = primary_networks.build_annotation(view, namespace)
    if not _is_offered(session):
        return None

    def find_segment(place: str, name: str) -> Segment | None:
        entry = session.stores[_KIND].get(place, name)
        if entry is None:
            return None
        try:
            return definitions.read_attachment(entry.decode().get("spec") or {}, view)[1]
        except RejectedError:
            return None

    return SelectionContext(
        attachments=view.policy.network.attachments,
        get_super_namespace=view.get_super_namespace,
        find_segment=find_segment,
        primary=primary,
    )


async def wait_for_networks(key: Key, tenant_x: Entry, pod: Object, session: Session) -> None:
    """Raise Wait until the definitions that a pod names are synced. Each of them wakes the pod."""
    if not _is_offered(session) or pod["spec"].get("hostNetwork"):
        return
    if session.view.spec.network is not None:
        _wait_for_own_network(key, session)
    asked = selections.list_selections(pod["metadata"].get("annotations") or {}, key.namespace)
    for each in asked:
        needed = session.build_key(_KIND, each.namespace, each.name)
        above = session.stores[_KIND].get(each.namespace, each.name)
        below = session.twins.get_store(_KIND).get(
            session.view.get_super_namespace(each.namespace), each.name
        )
        if above is not None and session.twins.is_twin(below, above.uid):
            continue
        session.work.add_waiter(needed, key)
        if above is None:
            problem = RejectionProblem(
                selections.RULE,
                f"metadata.annotations, network {each.namespace}/{each.name},",
                "does not exist. Create the NetworkAttachmentDefinition",
            )
            await session.event_recorder.record(
                PODS, tenant_x, reason=SYNC_REJECTED, message=str(problem)
            )
        raise NotReadyYet("a network of the pod is not synced")


def _wait_for_own_network(key: Key, session: Session) -> None:
    below = session.view.get_super_namespace(key.namespace)
    entry = session.twins.get_store(_KIND).get(below, names.PRIMARY_NETWORK)
    if entry is not None and session.tenant.owns({"annotations": entry.annotations}):
        return
    awaited = session.build_key(TENANT_NETWORK, key.namespace, names.PRIMARY_NETWORK)
    session.work.add_waiter(awaited, key)
    session.queue.add(awaited, first=True)
    raise NotReadyYet("the network of the tenant does not exist in the super namespace yet")


def build_status_changes(pod: Object, twin: Object, session: Session) -> dict[str, str | None]:
    """Return the annotations of a tenant's pod that differ from the status of its networks."""
    below = twin["metadata"].get("annotations") or {}
    if _KIND not in session.super_cluster.stores or not any(
        key in below for key in network_status.STATUS_ANNOTATIONS
    ):
        return {}
    namespaces = {
        session.view.get_super_namespace(entry.name): entry.name
        for entry in session.stores["Namespace"].list()
    }
    return network_status.build_status_patch(
        pod["metadata"].get("annotations") or {}, below, namespaces
    )


async def sync_network_status(
    kind: SyncedKind, key: Key, tenant_x: Entry, twin: Object, session: Session
) -> bool:
    """Write the status of a pod's networks to the tenant. Returns True if it was written.

    The annotation is written by the subresource of the status, as Multus writes it.
    """
    pod = tenant_x.decode()
    changes = build_status_changes(pod, twin, session)
    if not changes:
        return False
    body = {"metadata": {"uid": tenant_x.uid, "annotations": changes}}
    written = await sync_up.write_tenant_object(
        kind,
        key,
        body,
        session,
        subresource=sync_up.STATUS,
        observed=ObservedTenantObject(tenant_x, pod),
    )
    return bool(written)
