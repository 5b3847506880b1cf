"""A Service whose pods run in several super clusters: its tenant is told, once.

Owns the words and when they are said: with the first pod that is bound elsewhere than another one
of the same Service. Must not change what a Service leads to. Hazard: all pods of a namespace are
looked at for each Service of a pod that is bound, so that one that was told is not looked at again.
"""

from kubeio import Object
from kubeio.store import Entry
from syncer.seats import NOWHERE
from syncer.session import Session
from syncer.special import label_selectors
from syncer.special.shapes import mapping
from tenancy.resources import PODS, SERVICES

REASON = "PodsInSeveralClusters"
_MESSAGE = (
    "Its pods run in several clusters. A client reaches those in its own; the others only where the"
    " networks of the clusters reach each other. Have all of them run in one cluster, by their"
    " nodeSelector, if that is not meant."
)


async def look(pod: Entry, session: Session) -> None:
    """Tell of the Services that a pod, which is bound now, has spread over several clusters."""
    seats = session.link.seats
    if not seats.is_split:
        return
    for service in session.stores[SERVICES.kind].list(pod.namespace):
        selector = _selector(service) if service.uid not in seats.spread else {}
        if not (selector and label_selectors.matches(selector, pod.labels)):
            continue
        if any(
            label_selectors.matches(selector, other.labels)
            and seats.of(other) not in (session.name, NOWHERE)
            for other in session.stores[PODS.kind].list(pod.namespace)
        ):
            seats.spread.add(service.uid)
            await session.notices.tell(SERVICES, service, reason=REASON, message=_MESSAGE)


def _selector(service: Entry) -> Object:
    """Return what a Service selects by, empty for one that selects nothing."""
    labels = mapping(mapping(service.decode().get("spec")).get("selector"))
    return {"matchLabels": labels} if labels else {}
