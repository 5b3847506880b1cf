"""A tenant's store, and what is said about the tenant: one key for each session.

Owns when the brake looks, when a person's word is taken, when the epoch is counted up, and the
conditions on the VirtualCluster. Must not judge: `syncer.brake` does. Hazard: a confirmation is
used up by being taken, or it would release the next loss, too.
"""

import structlog

from kubeio import errors
from kubeio.store import Entry
from kubeio.worker import Again, Done, Verdict
from syncer import conditions, parking
from syncer.brake import LOOK_AGAIN_SECONDS
from syncer.keys import Key
from syncer.session import Session
from tenancy import marks
from tenancy.resources import VIRTUAL_CLUSTERS

_log: structlog.stdlib.BoundLogger = structlog.get_logger(__name__)


async def reconcile(_: Key, session: Session) -> Verdict:
    """Judge the store if there is a doubt, and say how things are."""
    if session.problem:
        await _say(session)
        return Done()  # the tenant's return wakes this key
    try:
        goes_on = await _judge(session)
    finally:
        await _say(session)  # whatever the tenant's API refuses: how things are is known
    if not goes_on:
        session.restart()
        return Done()
    return Again(LOOK_AGAIN_SECONDS) if session.holds_deletes else Done()


async def _judge(session: Session) -> bool:
    """Judge the store and mark it; tells whether the session's caches are still of that store."""
    brake, tenant = session.brake, session.tenant
    if session.store_in_doubt or brake.is_held:
        await _look(session)
    if brake.is_replaced:
        return False
    entry = session.super_cluster.virtual_clusters.get(tenant.namespace, tenant.name)
    confirmed = entry.annotations.get(marks.CONFIRM_DELETES, "") if entry is not None else ""
    if confirmed and entry is not None:
        taken = await brake.confirm(confirmed)
        await _use_up(entry, confirmed, session)
        if taken:
            return False
    if brake.is_count_due:
        await brake.count_up()
    return True


async def _look(session: Session) -> None:
    """Look at the store; the doubt stays until that worked."""
    session.store_in_doubt, is_judged = False, False
    try:
        await session.brake.look()
        is_judged = True
    finally:
        session.store_in_doubt |= not is_judged


async def _use_up(entry: Entry, confirmed: str, session: Session) -> None:
    """Take a confirmation off the VirtualCluster, unless it says something else by now."""
    path = f"/metadata/annotations/{marks.CONFIRM_DELETES.replace('/', '~1')}"
    operations = [
        {"op": "test", "path": "/metadata/uid", "value": entry.uid},
        {"op": "test", "path": path, "value": confirmed},
        {"op": "remove", "path": path},
    ]
    try:
        await session.super_client.patch(
            VIRTUAL_CLUSTERS,
            entry.name,
            operations,
            kind="json",
            namespace=entry.namespace,
            field_manager=marks.SYNCER,
        )
    except (errors.Invalid, errors.NotFound) as problem:
        _log.info("brake.confirmation_changed", problem=str(problem))


async def _say(session: Session) -> None:
    tenant, brake = session.tenant, session.brake
    entry = session.super_cluster.virtual_clusters.get(tenant.namespace, tenant.name)
    if entry is None or entry.uid != tenant.uid or entry.deleting:
        return
    if session.problem:
        reason, message = conditions.UNREACHABLE, f"The tenant's API: {session.problem}"
    elif session.refusing:
        reason, message = conditions.REFUSING, f"In the tenant, {session.refusing}"
    else:
        reason = conditions.ENGAGED
        message = f"All of the tenant's objects are followed.{parking.sentence(session)}"
    held = brake.message if brake.is_held else ""
    await conditions.say(
        session.super_client,
        entry,
        [
            conditions.synced(reason=reason, message=message, generation=entry.generation),
            conditions.deletes_held(message=held, generation=entry.generation),
        ],
    )
