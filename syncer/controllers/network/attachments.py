"""Reconciler of the kinds of additional networks.

Owns the answer to a super cluster that does not serve the kind. Must not know single fields.
"""

from kubeio.controller.worker import Done, Result
from syncer.controllers import sync_down
from syncer.model.keys import Key
from syncer.model.rejections import SYNC_REJECTED, RejectionProblem
from syncer.rules.network.attachments import segments
from syncer.rules.registry import SyncedKind
from syncer.tenants.session import Session


async def reconcile_attachment(kind: SyncedKind, key: Key, session: Session) -> Result:
    """Reconcile one key. The tenant gets an Event while the super cluster lacks the kind."""
    resource = kind.resource
    if session.super_cluster.is_served(resource.kind):
        return await sync_down.reconcile(kind, key, session)
    tenant_x = session.stores[resource.kind].get(key.namespace, key.name)
    if tenant_x is not None:
        text = (
            f"is not synced, because {resource.kind} is not installed where your pods run. Contact"
            " your platform administrator"
        )
        problem = RejectionProblem(segments.OFFER_RULE, "spec", text)
        await session.event_recorder.record(
            resource, tenant_x, reason=SYNC_REJECTED, message=str(problem)
        )
    return Done()  # the key is queued once the kind is served
