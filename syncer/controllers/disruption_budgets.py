"""Reconciler of PodDisruptionBudgets: like any plain kind, but a number is lowered with a delay.

Owns the delay. Must not know how the number is computed. Hazard: the number may be lowered only
after the delay. A pod that is being replaced is missing for a moment, so an immediate change would
allow the next eviction too early. A starting pod is unhealthy for longer. A pod that never becomes
healthy must not block a drain.
"""

from kubeio.controller.worker import Again, Verdict
from syncer.controllers import sync_down
from syncer.controllers.sync_down import Pair
from syncer.model.keys import Key
from syncer.model.rejections import RejectedError
from syncer.rules import disruption_budgets
from syncer.rules.registry import Kind
from syncer.tenants.session import Session

UNHEALTHY_SECONDS = 300.0
"""Time in seconds that pods may be unhealthy before their budget allows another eviction."""


async def reconcile(kind: Kind, key: Key, session: Session) -> Verdict:
    """Reconcile one budget."""
    pair = sync_down.look(kind, key, session)
    patience = _patience(pair, session)
    if patience is not None:
        left = session.grace_timers.left_to_linger(key, patience)
        if left > 0:
            return Again(left)
    return await sync_down.reconcile(kind, key, session)


def _patience(pair: Pair, session: Session) -> float | None:
    """Return the delay in seconds of a number that would be lowered, otherwise None."""
    tenant_x, super_x = pair.tenant_x, pair.super_x
    if tenant_x is None or super_x is None or not pair.wanted or super_x.deleting:
        return None
    if tenant_x.deleting or not session.is_twin(super_x, tenant_x.uid):
        return None
    budget = tenant_x.decode()
    try:
        twin = disruption_budgets.disruption_budget(budget, session.view)
    except RejectedError:
        return None  # the kind's own reconcile reports it
    if not disruption_budgets.is_being_lowered(budget, super_x.decode(), twin):
        return None
    is_short = disruption_budgets.is_short_of_healthy(twin, pair.key.namespace, session.view)
    return UNHEALTHY_SECONDS if is_short else session.grace_timers.linger_seconds
