"""Events about Services whose pods run in several super clusters, one per Service.

Owns the text and the time: the first pod that is bound in a different cluster than another pod of
the Service. Must not change the endpoints of a Service. Hazard: the cluster of a Service's pods
must be remembered. A scan of the whole namespace for each bound pod would use all processor time.
"""

from kubeio import Object
from kubeio.cache.store import Entry
from syncer.model import label_selectors
from syncer.model.unstructured import mapping
from syncer.placement.assignments import NOWHERE, Served
from syncer.tenants.session import Session
from tenancy.resources import PODS, SERVICES

REASON = "PodsInSeveralClusters"
_MESSAGE = (
    "Its pods run in several clusters. A client reaches those in its own; the others only where the"
    " networks of the clusters reach each other. Have all of them run in one cluster, by their"
    " nodeSelector, if that is not meant."
)


async def look(pod: Entry, session: Session) -> None:
    """Report the Services that a newly bound pod has spread over several clusters."""
    seats = session.link.seats
    if not (seats.is_split and seats.is_any_besides(session.name)):
        return
    for service in session.stores[SERVICES.kind].list(pod.namespace):
        if service.uid in seats.spread:
            continue
        found = seats.services.get(service.uid)
        if found is None or found.version != service.resource_version:
            found = Served(service.resource_version, _selector(service), NOWHERE)
            seats.services[service.uid] = found
        if not (found.selector and label_selectors.matches(found.selector, pod.labels)):
            continue
        if found.seat == session.name:
            continue
        if not _is_any_elsewhere(found.selector, pod.namespace, session):
            seats.services[service.uid] = found._replace(seat=session.name)
            continue
        await session.notices.tell(SERVICES, service, reason=REASON, message=_MESSAGE)
        if session.stores[SERVICES.kind].get(*service.key) is not None:
            seats.spread.add(service.uid)
            seats.services.pop(service.uid, None)


def _is_any_elsewhere(selector: Object, namespace: str, session: Session) -> bool:
    return any(
        label_selectors.matches(selector, other.labels)
        and session.link.seats.of(other) not in (session.name, NOWHERE)
        for other in session.stores[PODS.kind].list(namespace)
    )


def _selector(service: Entry) -> Object:
    """Return the label selector of a Service. Empty if it selects nothing."""
    labels = mapping(mapping(service.decode().get("spec")).get("selector"))
    return {"matchLabels": labels} if labels else {}
