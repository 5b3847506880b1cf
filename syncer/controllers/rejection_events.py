"""Why an object is not below as its tenant wants it: the sentences that its tenant reads.

Owns what is told of rejected, refused and incomplete objects. Must not decide or write anything but
Events. Hazard: what a super cluster's admission says may name its own things; only texts that went
through here may reach a tenant.
"""

import structlog

from kubeio import Object, errors
from kubeio.cache.store import Entry
from syncer.model import diff, object_meta
from syncer.model.rejections import REASON, Problem
from syncer.rules.registry import Kind
from syncer.tenants.session import Session
from tenancy import names

SYNC_FAILED = "SyncFailed"
ADJUSTED = "SyncAdjusted"
"""Reason of the Event that tells what was changed or left out."""
REFUSALS = (errors.Forbidden, errors.Invalid, errors.BadRequest, errors.TooLarge)
"""What an API server says of a body that it does not take."""

_log: structlog.stdlib.BoundLogger = structlog.get_logger(__name__)


async def tell_rejected(
    kind: Kind, tenant_x: Entry, problems: tuple[Problem, ...], session: Session
) -> None:
    """Tell the tenant why an object does not go down; it is looked at again when it changes."""
    message = "; ".join(str(problem) for problem in problems)
    _log.info("tenant.rejected", rules=sorted({problem.rule for problem in problems}))
    await session.notices.tell(kind.resource, tenant_x, reason=REASON, message=message)


async def tell_dropped(
    kind: Kind, tenant_x: Entry, twin: Object, written: Object, session: Session
) -> None:
    """Tell the tenant which fields the super cluster does not know, being of another version."""
    sent = {field: value for field, value in twin.items() if field not in diff.HEAD}
    dropped = diff.missing(sent, written)
    if dropped:
        message = (
            f"{diff.told(dropped)}: not known where it runs, perhaps because that is"
            " another version; left out there (rule version-skew)"
        )
        await session.notices.tell(kind.resource, tenant_x, reason=ADJUSTED, message=message)


async def tell_refusal(
    kind: Kind, tenant_x: Entry | None, refusal: errors.ApiError | None, session: Session
) -> None:
    """Tell of a refused change and raise it, once what the twin says has gone up all the same."""
    if refusal is None:
        return
    if tenant_x is not None and not kind.is_expected(refusal):
        await tell_failed(kind, tenant_x, refusal, session)
    raise refusal


def _without_names(problem: errors.ApiError) -> str:
    """Return what may be told of a refusal; which quota or webhook refused is not the tenant's."""
    said = problem.said
    if not isinstance(problem, errors.Forbidden):
        return said
    _, found, why = said.partition("violates PodSecurity ")
    if found:
        return f"{found}{why}"
    if "exceeded quota" in said:
        return "the space that this cluster has is used up; ask whoever runs it"
    return "what this cluster runs on refuses it; ask whoever runs that"


async def tell_failed(
    kind: Kind, tenant_x: Entry, problem: errors.ApiError, session: Session
) -> None:
    """Tell the tenant what the super cluster's admission said, without its names."""
    said = _without_names(problem)
    namespace = tenant_x.namespace or tenant_x.name
    below = session.view.super_namespace(namespace)
    pairs = object_meta.names_of(session.tenant, below, namespace)
    pairs.append((names.volume(session.tenant.uid, tenant_x.name), tenant_x.name))
    message = object_meta.scrub(session.scrubber.clean(said), pairs)
    await session.notices.tell(kind.resource, tenant_x, reason=SYNC_FAILED, message=message)
