"""One key of a plain kind: from the tenant into the super cluster, by its row.

Owns the order of effects for every row. Must not know single kinds. It starts from the caches, asks
`decide`, and writes narrowly: POST to create, the row's method to change, `syncer.deletion` to
delete. Hazard: a refused create may mean that our own earlier one got through, so the live object
is read and its owner compared before anything is said.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

import structlog

from kubeio import Object, errors
from kubeio.store import Entry
from kubeio.worker import Again, Done, Verdict, Wait
from syncer import decide, translate, upward
from syncer.decide import Grounds
from syncer.decide import Verdict as Decided
from syncer.deletion import Target
from syncer.expectations import Side
from syncer.keys import Key
from syncer.kinds import Kind, Method
from syncer.references import is_reserved_name
from syncer.rejections import REASON, Problem, RejectedError
from syncer.session import Session
from tenancy import marks, ownership

LOOK_AGAIN_SECONDS = 60.0
"""A foreign object has no watch; this is how often its name is tried again."""
BEHIND_SECONDS = 2.0
DONE = Done()
NAME_TAKEN = "NameTaken"
WAITING = "WaitingForDeletion"
SYNC_FAILED = "SyncFailed"

REFUSALS = (errors.Forbidden, errors.Invalid, errors.BadRequest, errors.TooLarge)

_log: structlog.stdlib.BoundLogger = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
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
    wanted = tenant_x is not None and kind.wants(tenant_x, session.view)
    return Pair(key=key, tenant_x=tenant_x, super_x=super_x, wanted=wanted)


async def reconcile(kind: Kind, key: Key, session: Session) -> Verdict:
    """Bring one key in step."""
    pair = look(kind, key, session)
    if session.is_behind(key, pair.tenant_x, pair.super_x):
        return Again(BEHIND_SECONDS)
    decision = decide.decide(
        decide.tenant_side(pair.tenant_x),
        decide.super_side(pair.super_x),
        vc_uid=session.tenant.uid,
        wanted=pair.wanted,
        follows_mark=kind.follows_mark,
    )
    if decision.verdict is Decided.NOTHING:
        return Done()
    if decision.grounds is not None:
        return await delete(kind, pair, decision.grounds, session)
    return await _STEPS[decision.verdict](kind, pair, session)


async def create(kind: Kind, pair: Pair, session: Session) -> Verdict:
    """Build and post the twin."""
    if kind.resource.namespaced:
        session.ready_namespace(pair.key)
    twin = await build(kind, pair, session)
    if twin is None:
        return Done()
    return await post(kind, pair, twin, session)


async def build(kind: Kind, pair: Pair, session: Session) -> Object | None:
    """Return the twin, or None after telling the tenant why there is none."""
    assert pair.tenant_x is not None  # noqa: S101 - decided on it
    assert kind.build is not None  # noqa: S101 - rows without are run by their own flow
    try:
        return kind.build(pair.tenant_x.decode(), session.view)
    except RejectedError as rejected:
        await tell_rejected(kind, pair.tenant_x, rejected.problems, session)
        return None


async def tell_rejected(
    kind: Kind, tenant_x: Entry, problems: tuple[Problem, ...], session: Session
) -> None:
    """Tell the tenant why an object does not go down; it is looked at again when it changes."""
    message = "; ".join(str(problem) for problem in problems)
    _log.info("tenant.rejected", rules=sorted({problem.rule for problem in problems}))
    await session.notices.tell(kind.resource, tenant_x, reason=REASON, message=message)


async def post(kind: Kind, pair: Pair, twin: Object, session: Session) -> Verdict:
    """Create the twin; a name that is taken is looked at live."""
    tenant_x = pair.tenant_x
    assert tenant_x is not None  # noqa: S101 - decided on it
    stamp(twin, tenant_x)
    try:
        written = await session.super_client.create(kind.resource, twin, field_manager=marks.SYNCER)
    except errors.AlreadyExists:
        return await _look_live(kind, pair, twin, session)
    except REFUSALS as problem:
        if problem.has_cause("NamespaceTerminating"):
            raise Wait("the super namespace is on its way out") from problem
        if not kind.is_expected(problem):
            await tell_failed(kind, tenant_x, problem, session)
        raise
    noted(pair.key, written, tenant_x, session)
    _log.info("super.created")
    return Done()


def stamp(twin: Object, tenant_x: Entry) -> None:
    """Record the tenant revision that a write is made from, for the brake."""
    twin["metadata"].setdefault("annotations", {})[marks.STORE_REVISION] = tenant_x.resource_version


def noted(key: Key, written: Object, tenant_x: Entry, session: Session) -> None:
    """Remember a write until its echo; and the store has to be marked once more."""
    session.expectations.wrote(Side.SUPER, key, written["metadata"]["resourceVersion"])
    session.fuse.wrote(key)
    session.brake.wrote(tenant_x.resource_version)
    session.mark_store_soon()


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
    message = translate.scrub(said, translate.names_of(session.tenant, below, namespace))
    await session.notices.tell(kind.resource, tenant_x, reason=SYNC_FAILED, message=message)


async def _look_live(kind: Kind, pair: Pair, twin: Object, session: Session) -> Verdict:
    """The name is taken: by our own earlier create, by an earlier object's twin, or by others."""
    metadata = twin["metadata"]
    live = await session.super_client.get(
        kind.resource,
        metadata["name"],
        namespace=metadata.get("namespace", ""),
        metadata_only=True,
    )
    owner = ownership.owner_of(live["metadata"])
    if owner is None or owner.vc_uid != session.tenant.uid:
        return await name_taken(kind, pair, session)
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
    if grounds is Grounds.UNWANTED:
        if is_used_below(pair, session):
            return Done()  # the end of the super pod wakes this key
        left = session.reminders.left_to_linger(pair.key)
        if left > 0:
            return Again(left)
    await session.deletions.delete(
        Target(key=pair.key, resource=kind.resource, entry=pair.super_x, grounds=grounds),
        grace_seconds=grace_seconds,
    )
    if pair.tenant_x is not None and pair.wanted and grounds is Grounds.SUCCEEDED:
        return await _wait(kind, pair, session)
    return Done()


def is_used_below(pair: Pair, session: Session) -> bool:
    """Tell whether a super pod still names an object that no tenant pod needs any more."""
    assert pair.super_x is not None  # noqa: S101 - decided on it
    spelled = f'"{pair.super_x.name}"'.encode()
    pods = session.super_store("Pod").list(pair.super_x.namespace)
    return any(spelled in pod.body for pod in pods)


async def _compare(kind: Kind, pair: Pair, session: Session) -> Verdict:
    assert pair.super_x is not None  # noqa: S101 - decided on it
    session.reminders.needed(pair.key)
    twin = await build(kind, pair, session)
    if twin is None:
        return Done()  # frozen: what was let through before stays as it is
    live = pair.super_x.decode()
    refusal: errors.ApiError | None = None
    try:
        is_changed = await change(kind, pair, live, twin, session)
    except REFUSALS as problem:
        refusal, is_changed = problem, False
    if not is_changed:
        await carry_up(kind, pair, live, session)
    await tell_refusal(kind, pair.tenant_x, refusal, session)
    return Done()  # after a change its echo wakes the key; what was live before is stale now


async def carry_up(kind: Kind, pair: Pair, live: Object, session: Session) -> None:
    """Write into the tenant what the live twin says."""
    assert pair.tenant_x is not None  # noqa: S101 - decided on it
    await upward.carry(kind, pair.key, pair.tenant_x, live, session)


async def change(kind: Kind, pair: Pair, live: Object, twin: Object, session: Session) -> bool:
    """Write what differs from the twin; tells whether anything did."""
    assert kind.change is not None  # noqa: S101 - rows without are run by their own flow
    assert pair.tenant_x is not None  # noqa: S101 - decided on it
    body = kind.change(live, twin)
    if body is None:
        return False
    stamp(body, pair.tenant_x)
    if kind.method is Method.REPLACE:
        written = await session.super_client.replace(
            kind.resource, body, field_manager=marks.SYNCER
        )
    else:
        written = await session.super_client.patch(
            kind.resource,
            live["metadata"]["name"],
            body,
            namespace=live["metadata"].get("namespace", ""),
            field_manager=marks.SYNCER,
        )
    noted(pair.key, written, pair.tenant_x, session)
    _log.info("super.changed")
    return True


_STEPS: Mapping[Decided, Callable[[Kind, Pair, Session], Awaitable[Verdict]]] = {
    Decided.CREATE: create,
    Decided.COMPARE: _compare,
    Decided.FOREIGN: name_taken,
    Decided.WAIT: _wait,
}
