"""Wait of pods for their ResourceClaims.

Owns the lookups of claims on both sides. Must not know the fields of a pod. Hazard: a pod must wait
for the copy of its own claim. Otherwise it would use a claim of another owner in the super cluster.
"""

from kubeio import Object
from kubeio.cache.store import Entry
from kubeio.controller.worker import NotReadyYet
from syncer.controllers import quotas
from syncer.model.keys import Key
from syncer.model.references import is_made_for
from syncer.model.rejections import (
    MALFORMED_OBJECT_ERRORS,
    SYNC_REJECTED,
    RejectedError,
    RejectionProblem,
)
from syncer.rules import resource_claims
from syncer.rules.resource_claims import PodClaim
from syncer.tenants.session import Session
from tenancy import names
from tenancy.resources import PODS
from tenancy.sync_rules.status_rules import RESOURCE_CLAIM, is_device_claim


def is_offered(session: Session) -> bool:
    """Return whether a SyncRule copies ResourceClaims of the tenant to this super cluster."""
    row = session.kinds.get(RESOURCE_CLAIM)
    return row is not None and is_device_claim(row.resource)


async def wait_for_claims(key: Key, tenant_x: Entry, pod: Object, session: Session) -> None:
    """Raise Wait until the claims that a pod names are synced. Each of them wakes the pod."""
    if not is_offered(session):
        return
    for each in resource_claims.list_pod_claims(pod):
        if not names.is_dns_subdomain(each.claim):  # the status is not checked before
            raise NotReadyYet("a ResourceClaim of a template does not exist yet")
        problem = _find_problem(each, key, tenant_x, session)
        if problem is None:
            continue
        needed = session.build_key(RESOURCE_CLAIM, key.namespace, each.claim)
        session.work.add_waiter(needed, key)
        if not await quotas.report_held_need(tenant_x, needed, session) and problem:
            where = f"spec.resourceClaims, the ResourceClaim {each.claim},"
            message = str(RejectionProblem(resource_claims.RULE, where, problem))
            await session.event_recorder.record(
                PODS, tenant_x, reason=SYNC_REJECTED, message=message
            )
        raise NotReadyYet("a ResourceClaim of the pod is not synced")


def _find_problem(claim: PodClaim, key: Key, pod: Entry, session: Session) -> str | None:
    """Return why a pod must wait for a claim: a text for an Event, or nothing to report.

    Returns None if the pod need not wait.
    """
    if not session.ruled.is_served(RESOURCE_CLAIM):
        return ""
    above = session.stores[RESOURCE_CLAIM].get(key.namespace, claim.claim)
    if above is None:
        return "" if claim.is_generated else "does not exist. Create it"
    if claim.is_generated and not is_made_for(above.decode(), pod.uid):
        return "was not created for this pod. Delete the pod"
    below = session.twins.get_store(RESOURCE_CLAIM).get(
        session.view.get_super_namespace(key.namespace), claim.claim
    )
    needed = session.build_key(RESOURCE_CLAIM, key.namespace, claim.claim)
    if below is not None and session.twins.is_twin(below, above.uid):
        is_leaving = below.deleting or session.twins.is_leaving(needed, below)
        return "" if is_leaving else None
    try:
        session.kinds[RESOURCE_CLAIM].build(above.decode(), session.view)
    except (RejectedError, *MALFORMED_OBJECT_ERRORS):
        return "is not synced. Correct it as its own Event describes"
    return ""
