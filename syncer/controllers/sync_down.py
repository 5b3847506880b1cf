"""Reconciler of plain kinds: from the tenant to the super cluster, by their row in the table.

Owns the order of writes for every row. Must not know single kinds. It reads the caches, calls
`decide`, and writes narrowly: POST to create, the row's method to update,
`syncer.safety.proven_deletes` to delete. Hazard: after a refused create, the live object must be
read and its owner compared before any report. An earlier create of the syncer may have succeeded.
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
"""Retry interval in seconds for a name that a foreign object has, because no watch shows it."""
DONE = Done()
NAME_TAKEN = "NameTaken"
WAITING = "WaitingForDeletion"

_log: structlog.stdlib.BoundLogger = structlog.get_logger(__name__)


class Pair(NamedTuple):
    """Both sides of a key from the caches."""

    key: Key
    tenant_x: Entry | None
    super_x: Entry | None
    wanted: bool


def look(kind: Kind, key: Key, session: Session) -> Pair:
    """Return both sides of a key.

    An object with a reserved name in the super cluster is the syncer's, without tenant object.
    Otherwise it would be deleted as the twin of an earlier object.
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
    """Queue a key with a relevant event, once the caches show the syncer's last write.

    Before that its reconcile would be useless. The echo wakes it, or a timer if the echo is
    missing.
    """
    pair = look(kind, key, session)
    if not session.is_ready:
        return
    if session.is_behind(key, pair.tenant_x, pair.super_x):
        session.queue.add_after(key, BEHIND_SECONDS)
    else:
        session.queue.add(key)


async def reconcile(kind: Kind, key: Key, session: Session) -> Verdict:
    """Reconcile one key."""
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
    """Build and create the twin."""
    if kind.resource.namespaced:
        session.ready_namespace(pair.key)
    pair = await _with_values(kind, pair, session)
    twin = await build(kind, pair, session)
    if twin is None:
        return Done()
    return await post(kind, pair, twin, session)


async def build(kind: Kind, pair: Pair, session: Session) -> Object | None:
    """Return the twin, or None after reporting the rejection to the tenant.

    Raises Wait if a vanished twin still exists.
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
    except STUMBLES as stumble:  # etcd may hold objects that no API server accepts
        raise malformed(stumble) from stumble


async def _take_away(kind: Kind, pair: Pair, session: Session) -> None:
    """Delete the twin of a refused object, and sync an empty status back to the tenant.

    The state of the super cluster must not depend on what the object was before the refusal.
    """
    assert pair.tenant_x is not None  # noqa: S101 - it was refused
    if session.is_twin(pair.super_x, pair.tenant_x.uid) and not _is_deleting(pair.super_x):
        await session.deletions.delete(target(kind, pair, Grounds.UNWANTED))
    await carry_up(kind, pair, {}, session)


def _is_deleting(entry: Entry | None) -> bool:
    return entry is not None and entry.deleting


def target(kind: Kind, pair: Pair, grounds: Grounds) -> Target:
    """Return the twin of a key as a deletion target."""
    assert pair.super_x is not None  # noqa: S101 - asked only then
    return Target(
        key=pair.key,
        resource=kind.resource,
        entry=pair.super_x,
        grounds=grounds,
        is_hidden=kind.is_hidden,
    )


async def post(kind: Kind, pair: Pair, twin: Object, session: Session) -> Verdict:
    """Create the twin. If the name is taken, its object is read live."""
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
            return Again(LOOK_AGAIN_SECONDS)  # a level that just changed may not be in effect yet
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
    """Record the tenant revision of a write, for the delete protection."""
    twin["metadata"].setdefault("annotations", {})[wellknown.STORE_REVISION] = (
        tenant_x.resource_version
    )


def noted(
    key: Key, written: Object, tenant_x: Entry, session: Session, *, taken: bool = False
) -> None:
    """Remember a write until its echo, and schedule an increase of the store's epoch.

    `taken`: the echo needs no work.
    """
    version = written["metadata"]["resourceVersion"]
    session.expectations.wrote(Side.SUPER, key, version, taken=taken)
    session.fuse.wrote(key)
    session.brake.wrote(tenant_x.resource_version)
    session.link.mark_store_soon()


async def look_live(kind: Kind, pair: Pair, twin: Object, session: Session) -> Verdict:
    """Read the object with a taken name.

    It is an earlier create, an earlier object's twin, or foreign.

    Raises NotFound if the name is not taken.
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
    """Report to the tenant that a name is taken. Foreign objects are never changed."""
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
    """Delete a twin if that is proved and no super pod still uses it."""
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
    """Return True if a super pod still names an object that no tenant pod needs any longer."""
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
        return Done()  # rejected: what was accepted before stays
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
    return Done()  # a change wakes the key, and `live` is out of date


async def _make_anew(
    kind: Kind, pair: Pair, live: Object, twin: Object, session: Session
) -> Verdict:
    """Delete a twin that cannot be changed. Its end wakes the key."""
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
    """Return both sides of a key with the values that the caches leave out."""
    if kind.reduce is None:
        return pair
    tenant_x, super_x = await live_reads.both(kind.resource, pair.tenant_x, pair.super_x, session)
    return pair._replace(tenant_x=tenant_x, super_x=super_x)


async def carry_up(kind: Kind, pair: Pair, live: Object, session: Session) -> None:
    """Sync the live twin back to the tenant."""
    assert pair.tenant_x is not None  # noqa: S101 - decided on it
    await sync_up.carry(kind, pair.key, pair.tenant_x, live, session)


async def change(kind: Kind, pair: Pair, live: Object, twin: Object, session: Session) -> bool:
    """Write the differences to the twin. Returns True if there were any."""
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
