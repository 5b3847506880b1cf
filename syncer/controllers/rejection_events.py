"""Events about rejected, refused and incomplete objects, for the tenant.

Owns their texts. Must not decide, and must not write anything but Events. Hazard: all texts for a
tenant must pass through this module. A message from the super cluster's admission may contain names
of the super cluster.
"""

from collections.abc import Collection

import orjson
import structlog

from kubeio import Object, errors
from kubeio.cache.store import Entry
from syncer.model import diff, object_meta
from syncer.model.rejections import SYNC_REJECTED, RejectionProblem
from syncer.rules.registry import SyncedKind
from syncer.safety.quota_accounting import QuotaExceededError
from syncer.tenants.session import Session
from tenancy import names

SYNC_FAILED = "SyncFailed"
ADJUSTED = "SyncAdjusted"
"""Reason of the Event that reports changed or omitted fields."""
MAX_STORED_BYTES = 1_572_864
"""Maximum size in bytes of a stored object (`--max-request-bytes` of etcd)."""
_LEVELS_POLICY = "virtual-cluster-syncer-levels"
"""Admission policy that knows a tenant's level a moment later than the syncer (ADR 32)."""
REFUSAL_ERRORS = (errors.Forbidden, errors.Invalid, errors.BadRequest, errors.TooLarge)
"""Errors of an API server that refuses a body."""

_log: structlog.stdlib.BoundLogger = structlog.get_logger(__name__)


async def report_rejected(
    kind: SyncedKind, tenant_x: Entry, problems: tuple[RejectionProblem, ...], session: Session
) -> None:
    """Report why an object is not synced. It is checked again when it changes."""
    message = " ".join(str(problem) for problem in problems)
    _log.info("tenant.rejected", rules=sorted({problem.rule for problem in problems}))
    await session.event_recorder.record(
        kind.resource, tenant_x, reason=SYNC_REJECTED, message=message
    )


async def report_adjusted(
    kind: SyncedKind, tenant_x: Entry, problems: Collection[RejectionProblem], session: Session
) -> None:
    """Report the parts of an object that are left out, if any, while the rest is synced."""
    if not problems:
        return
    message = "; ".join(str(problem) for problem in problems)
    await session.event_recorder.record(kind.resource, tenant_x, reason=ADJUSTED, message=message)


async def report_dropped_fields(
    kind: SyncedKind, tenant_x: Entry, twin: Object, written: Object, session: Session
) -> None:
    """Report the fields that the super cluster does not know, because its version differs."""
    sent = {field: value for field, value in twin.items() if field not in diff.HEAD_FIELDS}
    dropped = diff.find_missing(sent, written)
    if dropped:
        message = (
            f"{diff.format_paths(dropped)}: not known where the pod or object runs, perhaps"
            " because of another version. The copy there lacks it (rule version-skew)."
        )
        await session.event_recorder.record(
            kind.resource, tenant_x, reason=ADJUSTED, message=message
        )


async def report_refusal(
    kind: SyncedKind,
    tenant_x: Entry | None,
    refusal: errors.ApiError | None,
    session: Session,
    *,
    twin: Object | None = None,
) -> None:
    """Report a refused change and raise it. The status must have been synced back before.

    `twin` is as in `report_failed`.
    """
    if refusal is None:
        return
    if tenant_x is not None and not kind.is_expected(refusal):
        await report_failed(kind, tenant_x, refusal, session, twin=twin)
    raise refusal


def is_own_quota(problem: errors.ApiError) -> bool:
    """Return whether the ResourceQuota of the syncer refused a write."""
    return f"exceeded quota: {names.QUOTA}," in problem.server_message


def _redact_message(problem: errors.ApiError, size: int) -> str:
    """Return the public part of a refusal. The name of a quota or webhook is not for the tenant."""
    said = problem.server_message
    if isinstance(problem, errors.TooLarge):
        return (
            f"The object has {size} bytes as JSON with what is added where it runs. An API server"
            f" stores at most about {MAX_STORED_BYTES}. Make it smaller (rule too-large)."
        )
    if _LEVELS_POLICY in said:
        return (
            "A change of your TenantPolicy is not in effect yet. The object is synced afterwards."
            " If this lasts, contact your platform administrator."
        )
    if not isinstance(problem, errors.Forbidden):
        return said
    _, found, why = said.partition("violates PodSecurity ")
    if found:
        return f"{found}{why}"
    if "exceeded quota" in said:
        return "The space of this cluster is used up. Contact your platform administrator."
    return "The super cluster rejected this object. Contact your platform administrator."


async def report_failed(
    kind: SyncedKind,
    tenant_x: Entry,
    problem: errors.ApiError,
    session: Session,
    *,
    twin: Object | None = None,
) -> None:
    """Report the admission message of the super cluster, without its names.

    `twin` is the object that was refused, if it was written as a whole. A refusal by the tenant's
    own quota is reported by `syncer.controllers.quotas`.
    """
    if isinstance(problem, QuotaExceededError):
        return
    size = len(tenant_x.body) if twin is None else len(orjson.dumps(twin))
    said = _redact_message(problem, size)
    namespace = tenant_x.namespace or tenant_x.name
    below = session.view.get_super_namespace(namespace)
    pairs = object_meta.build_name_pairs(session.tenant, below, namespace)
    pairs.append((names.build_volume_name(session.tenant.uid, tenant_x.name), tenant_x.name))
    message = object_meta.replace_names(session.sanitizer.sanitize_text(said), pairs)
    await session.event_recorder.record(
        kind.resource, tenant_x, reason=SYNC_FAILED, message=message
    )
