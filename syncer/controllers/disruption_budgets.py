"""Reconciler of PodDisruptionBudgets: like any plain kind, but a number is lowered with a delay.

Owns the delay. Must not know how the number is computed. Hazard: the number may be lowered only
after the delay. A pod that is being replaced is missing for a moment, so an immediate change would
allow the next eviction too early. A starting pod is unhealthy for longer. A pod that never becomes
healthy must not block a drain.
"""

from kubeio.controller.worker import RequeueAfter, Result
from syncer.controllers import cached_objects, sync_down
from syncer.controllers.cached_objects import ObjectPair
from syncer.model.keys import Key
from syncer.model.rejections import RejectedError
from syncer.rules import disruption_budgets
from syncer.rules.registry import SyncedKind
from syncer.tenants.session import Session

LOWERING_DELAY_SECONDS = 300.0
"""Time in seconds that pods may be unhealthy before their budget allows another eviction."""


async def reconcile_budget(kind: SyncedKind, key: Key, session: Session) -> Result:
    """Reconcile one budget."""
    pair = cached_objects.read_pair(kind, key, session)
    patience = _compute_lowering_delay(pair, session)
    if patience is not None:
        left = session.grace_timers.get_remaining_grace(key, patience)
        if left > 0:
            return RequeueAfter(left)
    return await sync_down.reconcile(kind, key, session)


def _compute_lowering_delay(pair: ObjectPair, session: Session) -> float | None:
    """Return the delay in seconds of a number that would be lowered, otherwise None."""
    tenant_x, super_x = pair.tenant_x, pair.super_x
    if tenant_x is None or super_x is None or not pair.wanted or super_x.deleting:
        return None
    if tenant_x.deleting or not session.twins.is_twin(super_x, tenant_x.uid):
        return None
    budget = tenant_x.decode()
    try:
        twin = disruption_budgets.build_disruption_budget(budget, session.view)
    except RejectedError:
        return None  # the kind's own reconcile reports it
    if not disruption_budgets.is_being_lowered(budget, super_x.decode(), twin):
        return None
    is_short = disruption_budgets.is_short_of_healthy(twin, pair.key.namespace, session.view)
    return LOWERING_DELAY_SECONDS if is_short else session.grace_timers.grace_period_seconds
