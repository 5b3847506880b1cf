"""Events about Services whose pods run in several super clusters, one per Service.

Owns the text and the time: the first pod that is bound in a different cluster than another pod of
the Service. Must not change the endpoints of a Service. Hazard: the cluster of a Service's pods
must be remembered. A scan of the whole namespace for each bound pod would use all processor time.
"""

from kubeio import Object
from kubeio.cache.store import Entry
from syncer.model import label_selectors
from syncer.model.unstructured import as_mapping
from syncer.placement.assignments import UNASSIGNED
from syncer.tenants.session import Session
from tenancy.resources import PODS, SERVICES

PODS_IN_SEVERAL_CLUSTERS = "PodsInSeveralClusters"
_MESSAGE = (
    "The pods of this Service run in several clusters. A client reaches the pods in its own"
    " cluster. It reaches the others only if the networks of the clusters are connected. To run"
    " all pods in one cluster, use a nodeSelector."
)


async def report_split_services(pod: Entry, session: Session) -> None:
    """Report the Services that a newly bound pod has spread over several clusters."""
    assignments = session.connection.assignments
    if not assignments.has_pods_outside(session.name):
        return
    known = session.connection.service_clusters
    for service in session.stores[SERVICES.kind].list(pod.namespace):
        if known.is_split(service.uid):
            continue
        found = known.get(service, _get_selector)
        if not (found.selector and label_selectors.matches(found.selector, pod.labels)):
            continue
        if found.assigned_cluster == session.name:
            continue
        if not _has_pod_elsewhere(found.selector, pod.namespace, session):
            known.record_cluster(service.uid, session.name)
            continue
        await session.event_recorder.record(
            SERVICES, service, reason=PODS_IN_SEVERAL_CLUSTERS, message=_MESSAGE
        )
        if session.stores[SERVICES.kind].get(*service.key) is not None:
            known.record_split(service.uid)


def _has_pod_elsewhere(selector: Object, namespace: str, session: Session) -> bool:
    return any(
        label_selectors.matches(selector, other.labels)
        and session.connection.assignments.get_cluster(other) not in (session.name, UNASSIGNED)
        for other in session.stores[PODS.kind].list(namespace)
    )


def _get_selector(service: Entry) -> Object:
    """Return the label selector of a Service. Empty if it selects nothing."""
    labels = as_mapping(as_mapping(service.decode().get("spec")).get("selector"))
    return {"matchLabels": labels} if labels else {}
