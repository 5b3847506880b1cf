"""One disruption budget: as any plain kind, but patient before it lets more pods go.

Owns how long. Must not know how the number is worked out. Hazard: a pod that is being replaced is
missing for a moment; lowered at once, the budget would let the next one go too early. One that
starts is not healthy for longer, and one that never will be must not hold up a drain.
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
"""How long pods may be unhealthy before their budget lets another one go."""


async def reconcile(kind: Kind, key: Key, session: Session) -> Verdict:
    """Bring one budget in step."""
    pair = sync_down.look(kind, key, session)
    patience = _patience(pair, session)
    if patience is not None:
        left = session.grace_timers.left_to_linger(key, patience)
        if left > 0:
            return Again(left)
    return await sync_down.reconcile(kind, key, session)


def _patience(pair: Pair, session: Session) -> float | None:
    """Return how long a number is kept that would be lowered; None: it would not."""
    tenant_x, super_x = pair.tenant_x, pair.super_x
    if tenant_x is None or super_x is None or not pair.wanted or super_x.deleting:
        return None
    if tenant_x.deleting or not session.is_twin(super_x, tenant_x.uid):
        return None
    budget = tenant_x.decode()
    try:
        twin = disruption_budgets.disruption_budget(budget, session.view)
    except RejectedError:
        return None  # the row's own way tells it
    if not disruption_budgets.is_being_lowered(budget, super_x.decode(), twin):
        return None
    is_short = disruption_budgets.is_short_of_healthy(twin, pair.key.namespace, session.view)
    return UNHEALTHY_SECONDS if is_short else session.grace_timers.linger_seconds
