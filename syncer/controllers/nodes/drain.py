"""Eviction of a bound pod in the tenant when its target is no longer granted, as in a drain.

Owns the eviction and the Events about pods that stay. The tenant's own API decides when a pod may
be evicted, so its budgets apply. The pod is then deleted as usual. Its controller creates another,
which is placed in a granted cluster. Must not know which code cordons the node. Hazard: a pod
without controller must not be evicted before it ends. It would be lost for good.
"""

import structlog

from kubeio import errors
from kubeio.cache.store import Entry
from kubeio.controller.worker import Done, RequeueAfter, Result
from syncer.rules.pods.lifecycle import TenantPodState
from syncer.tenants.session import Session
from tenancy.resources import PODS

BUDGET_RETRY_SECONDS = 10.0
"""Retry interval in seconds for a pod that a budget protects."""
REFUSED_RETRY_SECONDS = 60.0
"""Retry interval in seconds for a pod with another refusal."""
INTERNAL_SERVER_ERROR = 500
"""Status code of an API for a pod that several budgets select, or whose webhook fails."""
TARGET_WITHDRAWN = "TargetWithdrawn"
EVICTION_BLOCKED = "EvictionBlocked"
_WITHDRAWN_MESSAGE = (
    "This cluster may no longer use the target that runs the pod. The pod has no controller that"
    " would replace it, so it was not evicted. Delete it when you no longer need it."
)
_BLOCKED_MESSAGE = (
    "This cluster may no longer use the target that runs the pod. A disruption budget allows no"
    " eviction now. The syncer tries again."
)
_REFUSED_MESSAGE = (
    "This cluster may no longer use the target that runs the pod. The API of this cluster rejects"
    " its eviction, for example because two disruption budgets select the pod or a webhook denies"
    " it. The syncer tries again."
)

_log: structlog.stdlib.BoundLogger = structlog.get_logger(__name__)


async def evict_from_target(tenant_x: Entry, side: TenantPodState, session: Session) -> Result:
    """Evict a pod from a target that is no longer granted."""
    if not session.scope.is_grant_withdrawn or side.deleting or not side.node:
        return Done()
    if not (side.has_controller or side.is_terminal):
        await session.event_recorder.record(
            PODS, tenant_x, reason=TARGET_WITHDRAWN, message=_WITHDRAWN_MESSAGE
        )
        return Done()
    eviction = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": tenant_x.name, "namespace": tenant_x.namespace},
        "deleteOptions": {"preconditions": {"uid": tenant_x.uid}},
    }
    try:
        await session.writer.create_unguarded(
            PODS, eviction, name=tenant_x.name, subresource="eviction"
        )
    except errors.TooManyRequests as problem:
        if problem.retry_after:
            raise  # the tenant's API is overloaded and names the retry time
        await session.event_recorder.record(
            PODS, tenant_x, reason=EVICTION_BLOCKED, message=_BLOCKED_MESSAGE
        )
        return RequeueAfter(BUDGET_RETRY_SECONDS)
    except (errors.NotFound, errors.Conflict):
        return Done()  # deleted meanwhile, or a different pod has its name
    except (errors.Forbidden, errors.Invalid, errors.ServerError) as problem:
        if isinstance(problem, errors.ServerError) and problem.status != INTERNAL_SERVER_ERROR:
            raise  # that API does not answer
        _log.info("tenant.eviction_refused", problem=str(problem))
        await session.event_recorder.record(
            PODS, tenant_x, reason=EVICTION_BLOCKED, message=_REFUSED_MESSAGE
        )
        return RequeueAfter(REFUSED_RETRY_SECONDS)
    _log.info("tenant.drained")
    return Done()
