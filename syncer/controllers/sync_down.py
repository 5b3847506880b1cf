"""One key of a plain kind: from the tenant into the super cluster, by its row.

Owns the order of effects for every row. Must not know single kinds. It starts from the caches, asks
`decide`, and writes narrowly: POST to create, the row's method to change,
`syncer.safety.proven_deletes` to delete. Hazard: a refused create may mean that our own earlier one
got through, so the live object is read and its owner compared before anything is said.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import NamedTuple

import structlog

from kubeio import Object, errors
from kubeio.cache.store import Entry
from kubeio.controller.worker import Again, Done, Verdict, Wait
from syncer.controllers import (
    adoption,
    live_reads,
    parked_writes,
    rejection_events,
    sync_up,
)
from syncer.model import decide, diff, rejections
from syncer.model.decide import Grounds
from syncer.model.decide import Verdict as Decided
from syncer.model.keys import Key, tenant_namespace
from syncer.model.references import Ref, is_reserved_name, refs_of
from syncer.model.rejections import STUMBLES, RefusedError, RejectedError, malformed
from syncer.rules.configuration import cache_transforms
from syncer.rules.registry import Kind, Method
from syncer.safety.expectations import BEHIND_SECONDS, Side
from syncer.safety.hot_loop_guard import Part
from syncer.safety.proven_deletes import Target
from syncer.tenants.session import Session
from tenancy import wellknown

LOOK_AGAIN_SECONDS = 60.0
"""A foreign object has no watch; this is how often its name is tried again."""
DONE = Done()
NAME_TAKEN = "NameTaken"
WAITING = "WaitingForDeletion"

_log: structlog.stdlib.BoundLogger = structlog.get_logger(__name__)


class Pair(NamedTuple):
    """Both sides of a key as the caches show them."""

    key: Key
    tenant_x: Entry | None
    super_x: Entry | None
    wanted: bool


def look(kind: Kind, key: Key, session: Session) -> Pair:
    """Return both sides of a key.

    What has a reserved name below is ours and no tenant object's twin; taken for one, it would be
    deleted as that of an earlier object of the name.
    """
    name = kind.resource.kind
    tenant_x = session.stores[name].get(key.namespace, key.name)
    super_x: Entry | None = None
    if is_reserved_name(name, key.name):
        pass
    elif kind.resource.namespaced:
        below = session.view.super_namespace(key.namespace)
        super_x = session.super_store(name).get(below, kind.super_name(key.name))
    else:
        super_x = session.super_store(name).get("", session.view.super_namespace(key.name))
    wanted = (
        tenant_x is not None
        and kind.wants(tenant_x, session.view)
        and (session.target is None or session.concerns(name, tenant_x))
    )
    return Pair(key=key, tenant_x=tenant_x, super_x=super_x, wanted=wanted)


def wake(kind: Kind, key: Key, session: Session) -> None:
    """Queue a key whose state is news, once the caches show what we wrote of it last.

    Until then it would be worked on for nothing: the echo wakes it, or its absence after a while.
    """
    pair = look(kind, key, session)
    if not session.is_ready:
        return
    if session.is_behind(key, pair.tenant_x, pair.super_x):
        session.queue.add_after(key, BEHIND_SECONDS)
    else:
        session.queue.add(key)


async def reconcile(kind: Kind, key: Key, session: Session) -> Verdict:
    """Bring one key in step."""
    pair = look(kind, key, session)
    if session.is_behind(key, pair.tenant_x, pair.super_x):
        return Again(BEHIND_SECONDS)
    decision = decide.decide(
        decide.tenant_side(pair.tenant_x),
        session.super_side(pair.super_x, tenant_namespace(key)),
        vc_uid=session.tenant.uid,
        wanted=pair.wanted,
        follows_mark=kind.follows_mark,
    )
    if decision.verdict is Decided.NOTHING:
        await adoption.look(kind, key, session)
        return Done()
    if decision.grounds is not None:
        return await delete(kind, pair, decision.grounds, session)
    return await _STEPS[decision.verdict](kind, pair, session)


async def create(kind: Kind, pair: Pair, session: Session) -> Verdict:
    """Build and post the twin."""
    if kind.resource.namespaced:
        session.ready_namespace(pair.key)
    pair = await _with_values(kind, pair, session)
    twin = await build(kind, pair, session)
    if twin is None:
        return Done()
    return await post(kind, pair, twin, session)


async def build(kind: Kind, pair: Pair, session: Session) -> Object | None:
    """Return the twin, or None after telling the tenant why there is none.

    Raises Wait when there is one after all, out of the cache's sight.
    """
    assert pair.tenant_x is not None  # noqa: S101 - decided on it
    assert kind.build is not None  # noqa: S101 - rows without are run by their own flow
    try:
        return _built(kind, pair.tenant_x, session)
    except RejectedError as rejected:
        await adoption.look(kind, pair.key, session)  # no create will find it
        await rejection_events.tell_rejected(kind, pair.tenant_x, rejected.problems, session)
        if isinstance(rejected, RefusedError):
            await _take_away(kind, pair, session)
        return None


def _built(kind: Kind, tenant_x: Entry, session: Session) -> Object:
    assert kind.build is not None  # noqa: S101 - the caller looked
    try:
        return kind.build(tenant_x.decode(), session.view)
    except STUMBLES as stumble:  # a store may hold what no honest API server takes
        raise malformed(stumble) from stumble


async def _take_away(kind: Kind, pair: Pair, session: Session) -> None:
    """Delete the twin of an object that may have none; the tenant sees that nothing is behind it.

    What is below must not depend on what the object was before it was refused.
    """
    assert pair.tenant_x is not None  # noqa: S101 - it was refused
    if session.is_twin(pair.super_x, pair.tenant_x.uid) and not _is_deleting(pair.super_x):
        await session.deletions.delete(target(kind, pair, Grounds.UNWANTED))
    await carry_up(kind, pair, {}, session)


def _is_deleting(entry: Entry | None) -> bool:
    return entry is not None and entry.deleting


def target(kind: Kind, pair: Pair, grounds: Grounds) -> Target:
    """Return the twin of a key as something to delete."""
    assert pair.super_x is not None  # noqa: S101 - asked only then
    return Target(
        key=pair.key,
        resource=kind.resource,
        entry=pair.super_x,
        grounds=grounds,
        is_hidden=kind.is_hidden,
    )


async def post(kind: Kind, pair: Pair, twin: Object, session: Session) -> Verdict:
    """Create the twin; a name that is taken is looked at live."""
    tenant_x = pair.tenant_x
    assert tenant_x is not None  # noqa: S101 - decided on it
    stamp(twin, tenant_x)
    try:
        written = await session.super_client.create(
            kind.resource, twin, field_manager=wellknown.SYNCER
        )
    except errors.AlreadyExists:
        return await look_live(kind, pair, twin, session)
    except rejection_events.REFUSALS as problem:
        if problem.has_cause("NamespaceTerminating"):
            raise Wait("the super namespace is on its way out") from problem
        broken = rejections.pod_security(problem.said)
        if broken is not None:
            await rejection_events.tell_rejected(kind, tenant_x, (broken,), session)
            return Again(LOOK_AGAIN_SECONDS)  # a level that was just changed may not count yet
        if not kind.is_expected(problem):
            await rejection_events.tell_failed(kind, tenant_x, problem, session)
        raise
    is_taken = not diff.lacking(twin, written)
    noted(pair.key, written, tenant_x, session, taken=is_taken)
    _log.debug("super.created")
    if not is_taken:
        await rejection_events.tell_dropped(kind, tenant_x, twin, written, session)
    return Done()


def stamp(twin: Object, tenant_x: Entry) -> None:
    """Record the tenant revision that a write is made from, for the brake."""
    twin["metadata"].setdefault("annotations", {})[wellknown.STORE_REVISION] = (
        tenant_x.resource_version
    )


def noted(
    key: Key, written: Object, tenant_x: Entry, session: Session, *, taken: bool = False
) -> None:
    """Remember a write until its echo; and the store has to be marked once more.

    `taken`: nothing is to be looked at once more when the echo comes.
    """
    version = written["metadata"]["resourceVersion"]
    session.expectations.wrote(Side.SUPER, key, version, taken=taken)
    session.fuse.wrote(key)
    session.brake.wrote(tenant_x.resource_version)
    session.link.mark_store_soon()


async def look_live(kind: Kind, pair: Pair, twin: Object, session: Session) -> Verdict:
    """The name is taken: by our own earlier create, by an earlier object's twin, or by others.

    Raises NotFound when it is not taken.
    """
    metadata = twin["metadata"]
    live = await session.super_client.get(
        kind.resource,
        metadata["name"],
        namespace=metadata.get("namespace", ""),
        metadata_only=True,
    )
    if not session.tenant.owns(live["metadata"]):
        return await name_taken(kind, pair, session)
    await adoption.put_labels_back(kind, live["metadata"], session)
    raise Wait("a super object of that name is there, the cache is behind", BEHIND_SECONDS)


async def name_taken(kind: Kind, pair: Pair, session: Session) -> Verdict:
    """Tell the tenant that a name cannot be had; nothing of others is ever touched."""
    assert pair.tenant_x is not None  # noqa: S101 - decided on it
    message = (
        f"metadata.name {pair.tenant_x.name} is taken by an object that belongs to somebody else;"
        " choose another name (rule name-taken)"
    )
    await session.notices.tell(kind.resource, pair.tenant_x, reason=NAME_TAKEN, message=message)
    return Again(LOOK_AGAIN_SECONDS)


async def _wait(kind: Kind, pair: Pair, session: Session) -> Verdict:
    if kind.waits_visibly and pair.tenant_x is not None:
        message = "The earlier one of this name is still being removed; this one follows then."
        await session.notices.tell(
            kind.resource, pair.tenant_x, reason=WAITING, message=message, kind="Normal"
        )
    raise Wait("the twin of an earlier object is on its way out")


async def delete(
    kind: Kind,
    pair: Pair,
    grounds: Grounds,
    session: Session,
    *,
    grace_seconds: int | None = None,
) -> Verdict:
    """Delete a twin when that is proved, and as far as nobody below still uses it."""
    assert pair.super_x is not None  # noqa: S101 - decided on it
    if grounds is Grounds.UNWANTED and kind.lingers:
        return await _delete_unneeded(kind, pair, session)
    await session.deletions.delete(
        target(kind, pair, grounds),
        grace_seconds=grace_seconds,
    )
    if pair.tenant_x is not None and pair.wanted and grounds is Grounds.SUCCEEDED:
        return await _wait(kind, pair, session)
    return Done()


async def _delete_unneeded(kind: Kind, pair: Pair, session: Session) -> Verdict:
    assert pair.super_x is not None  # noqa: S101 - decided on it
    ref = Ref(kind.resource.kind, pair.super_x.name)
    if is_used_below(ref, pair.super_x.namespace, session):
        return Done()  # the end of the super pod wakes this key
    left = session.grace_timers.left_to_linger(pair.key)
    if left > 0:
        return Again(left)
    with session.leaving(pair.key, pair.super_x):
        await session.deletions.delete(
            target(kind, pair, Grounds.UNWANTED),
            is_still=lambda: not look(kind, pair.key, session).wanted,
        )
    return Done()


def is_used_below(ref: Ref, super_namespace: str, session: Session) -> bool:
    """Tell whether a super pod still names an object that no tenant pod needs any more."""
    spelled = f'"{ref.name}"'.encode()
    return any(
        spelled in pod.body and ref in refs_of(pod.decode().get("spec") or {})
        for pod in session.super_store("Pod").list(super_namespace)
    )


async def _compare(kind: Kind, pair: Pair, session: Session) -> Verdict:
    assert pair.super_x is not None  # noqa: S101 - decided on it
    session.grace_timers.needed(pair.key)
    twin = await build(kind, pair, session)
    if twin is None:
        return Done()  # frozen: what was let through before stays as it is
    live = pair.super_x.decode()
    if kind.change is not None and cache_transforms.is_any(live, twin) and kind.change(live, twin):
        pair = await _with_values(kind, pair, session)
        assert pair.super_x is not None  # noqa: S101 - it was
        twin, live = await build(kind, pair, session), pair.super_x.decode()
        if twin is None:
            return Done()
    if kind.is_fixed(live, twin):
        return await _make_anew(kind, pair, live, twin, session)
    refusal: errors.ApiError | None = None
    try:
        is_changed = await change(kind, pair, live, twin, session)
    except rejection_events.REFUSALS as problem:
        refusal, is_changed = problem, False
    if not is_changed:
        await carry_up(kind, pair, live, session)
    await rejection_events.tell_refusal(kind, pair.tenant_x, refusal, session)
    return Done()  # after a change its echo wakes the key; what was live before is stale now


async def _make_anew(
    kind: Kind, pair: Pair, live: Object, twin: Object, session: Session
) -> Verdict:
    """Delete a twin that can't be changed any more; its end wakes the key."""
    part = Part(pair.key, parked_writes.SUPER)
    if parked_writes.is_parked(part, twin, live, session):
        return Done()
    await session.deletions.delete(target(kind, pair, Grounds.UNWANTED))
    await parked_writes.tried(
        part,
        twin,
        before=live,
        answer=twin,
        resource=kind.resource,
        tenant_x=pair.tenant_x,
        session=session,
    )
    return Done()


async def _with_values(kind: Kind, pair: Pair, session: Session) -> Pair:
    """Return both sides of a key with what the caches leave out."""
    if kind.reduce is None:
        return pair
    tenant_x, super_x = await live_reads.both(kind.resource, pair.tenant_x, pair.super_x, session)
    return pair._replace(tenant_x=tenant_x, super_x=super_x)


async def carry_up(kind: Kind, pair: Pair, live: Object, session: Session) -> None:
    """Write into the tenant what the live twin says."""
    assert pair.tenant_x is not None  # noqa: S101 - decided on it
    await sync_up.carry(kind, pair.key, pair.tenant_x, live, session)


async def change(kind: Kind, pair: Pair, live: Object, twin: Object, session: Session) -> bool:
    """Write what differs from the twin; tells whether anything did."""
    assert kind.change is not None  # noqa: S101 - rows without are run by their own flow
    assert pair.tenant_x is not None  # noqa: S101 - decided on it
    body, part = kind.change(live, twin), Part(pair.key, parked_writes.SUPER)
    if body is None:
        parked_writes.settled(pair.key, parked_writes.SUPER, session)
        return False
    if parked_writes.is_parked(part, body, live, session):
        return False
    stamp(body, pair.tenant_x)
    if kind.method is Method.REPLACE:
        written = await session.super_client.replace(
            kind.resource, body, field_manager=wellknown.SYNCER
        )
    else:
        written = await session.super_client.patch(
            kind.resource,
            live["metadata"]["name"],
            body,
            namespace=live["metadata"].get("namespace", ""),
            field_manager=wellknown.SYNCER,
        )
    noted(pair.key, written, pair.tenant_x, session)
    _log.debug("super.changed")
    await parked_writes.tried(
        part,
        body,
        before=live,
        answer=written,
        resource=kind.resource,
        tenant_x=pair.tenant_x,
        session=session,
    )
    return True


_STEPS: Mapping[Decided, Callable[[Kind, Pair, Session], Awaitable[Verdict]]] = {
    Decided.CREATE: create,
    Decided.COMPARE: _compare,
    Decided.FOREIGN: name_taken,
    Decided.WAIT: _wait,
}
