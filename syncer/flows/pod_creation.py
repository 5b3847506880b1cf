"""Making a super pod: everything that it needs comes first.

Owns the gathering of facts for the builder and the waiting for namespace, tokens and configuration,
so that a kubelet never meets a pod whose mounts are still on their way. Objects that the tenant has
not made are not waited for: the kubelet says so, as on any cluster. Hazards: whatever is waited for
must wake the pod; and a name that the tenant has not got may be somebody else's below, whose data
the pod would then be given.
"""

from collections.abc import Iterator

from kubeio import Object, errors
from kubeio.store import Entry
from kubeio.worker import Verdict, Wait
from syncer import decide, downward, kinds, policy
from syncer.downward import Pair
from syncer.flows import tokens
from syncer.keys import Key
from syncer.kinds import Kind
from syncer.references import refs_of, token_sources
from syncer.rejections import Problem, RejectedError
from syncer.session import Session
from syncer.special import pod_build, pod_env, token_specs
from syncer.special.pod_build import Built, PodFacts
from syncer.special.pod_scheduling import Placement
from syncer.special.token_specs import TokenSpec
from tenancy import ownership
from tenancy.resources import PODS, SERVICE_ACCOUNTS

ADJUSTED = "SyncAdjusted"
"""Reason of the Event that tells what was changed or left out."""
STRANGER_SECONDS = 60.0
"""How often a pod that refers to somebody else's object is looked at; nothing watches that one."""


async def create(kind: Kind, pair: Pair, pod: Object, session: Session) -> Verdict:
    """Make the twin of a pod, or wait for what it needs."""
    assert pair.tenant_x is not None  # noqa: S101 - the step says so
    if len(pair.tenant_x.body) > policy.MAX_OBJECT_BYTES:
        text = f"has {len(pair.tenant_x.body)} bytes; {policy.MAX_OBJECT_BYTES} are offered"
        problems = (Problem("too-large", "the pod", text),)
        await downward.tell_rejected(kind, pair.tenant_x, problems, session)
        return downward.DONE
    super_namespace = session.ready_namespace(pair.key)
    wanted_tokens = await _tokens(pod, session)
    try:
        built = pod_build.build(pod, _facts(pod, super_namespace, wanted_tokens, session))
    except RejectedError as rejected:
        await downward.tell_rejected(kind, pair.tenant_x, rejected.problems, session)
        return downward.DONE
    await _tell_adjusted(pair.tenant_x, built, session)
    _wait_for_needs(pair.key, pod, wanted_tokens, session)
    await _refuse_strangers(pair, pod, session)
    return await downward.post(kind, pair, built.pod, session)


async def _tokens(pod: Object, session: Session) -> list[TokenSpec]:
    """Return the tokens that a pod's volumes ask for."""
    if not any(True for _ in token_sources(pod["spec"])):
        return []
    namespace = pod["metadata"]["namespace"]
    account = pod["spec"].get("serviceAccountName") or "default"
    entry = session.stores["ServiceAccount"].get(namespace, account)
    if entry is not None:
        return list(token_specs.specs_of(pod, entry.uid).values())
    try:
        live = await session.tenant_client.get(
            SERVICE_ACCOUNTS, account, namespace=namespace, metadata_only=True
        )
    except errors.NotFound as problem:
        raise Wait(f"the account {account} is not there") from problem
    return list(token_specs.specs_of(pod, live["metadata"]["uid"]).values())


def _facts(
    pod: Object, super_namespace: Entry, wanted_tokens: list[TokenSpec], session: Session
) -> PodFacts:
    view, namespace = session.view, pod["metadata"]["namespace"]
    spec = pod["spec"]
    links = spec.get("enableServiceLinks", True)
    is_choosy = bool(spec.get("affinity") or spec.get("nodeName"))
    return PodFacts(
        tenant=session.tenant,
        super_namespace=super_namespace.name,
        super_namespace_uid=super_namespace.uid,
        resolver=view.resolver(),
        placement=Placement(
            vc_uid=session.tenant.uid,
            namespace=namespace,
            super_namespace=view.super_namespace,
            namespaces=view.namespace_labels() if is_choosy else {},
            nodes=view.nodes() if is_choosy else (),
        ),
        variables=pod_env.service_variables(view.services(namespace), namespace, links=links),
        account_uid=wanted_tokens[0].account_uid if wanted_tokens else "",
        provided=lambda container: view.provided_variables(namespace, container),
    )


def _wait_for_needs(
    key: Key, pod: Object, wanted_tokens: list[TokenSpec], session: Session
) -> None:
    """Raise Wait until everything the pod needs is below; have it woken by each."""
    missing = [
        *(tokens.demand(token, session) for token in wanted_tokens),
        *_missing_objects(key, pod, session),
    ]
    pending = [dependency for dependency in missing if dependency is not None]
    for dependency in pending:
        session.wait_for(dependency, key)
        session.queue.add(dependency)
    if pending:
        raise Wait(f"{len(pending)} objects that the pod needs are on their way")


def _missing_objects(key: Key, pod: Object, session: Session) -> Iterator[Key]:
    for ref in sorted(refs_of(pod["spec"])):
        kind = kinds.BY_NAME[ref.kind]
        needed = session.key(ref.kind, key.namespace, ref.name)
        if not _is_below(kind, needed, session):
            yield needed


async def _refuse_strangers(pair: Pair, pod: Object, session: Session) -> None:
    """Raise Wait while a name without a twin, of whatever reason, is somebody else's below."""
    assert pair.tenant_x is not None  # noqa: S101 - the step says so
    for ref in sorted(refs_of(pod["spec"])):
        kind = kinds.BY_NAME[ref.kind]
        key = session.key(ref.kind, pair.key.namespace, ref.name)
        if _is_ours(downward.look(kind, key, session).super_x, session):
            continue
        try:
            live = await session.super_client.get(
                kind.resource,
                kind.super_name(ref.name),
                namespace=session.view.super_namespace(pair.key.namespace),
                metadata_only=True,
            )
        except errors.NotFound:
            continue
        owner = ownership.owner_of(live["metadata"])
        if owner is None or owner.vc_uid != session.tenant.uid:
            message = (
                f"a reference to {ref.kind} {ref.name}: the name is taken by an object that belongs"
                " to somebody else; choose another name (rule name-taken)"
            )
            await session.notices.tell(
                PODS, pair.tenant_x, reason=downward.NAME_TAKEN, message=message
            )
            raise Wait("a name that the pod refers to is somebody else's", STRANGER_SECONDS)


def _is_ours(entry: Entry | None, session: Session) -> bool:
    side = decide.super_side(entry)
    return side is not None and side.vc_uid == session.tenant.uid


def _is_below(kind: Kind, key: Key, session: Session) -> bool:
    """Tell whether an object is below in its newest state, or never will be."""
    pair = downward.look(kind, key, session)
    if pair.tenant_x is None or pair.tenant_x.deleting or kind.build is None:
        return True
    try:
        twin = kind.build(pair.tenant_x.decode(), session.view)
    except RejectedError:
        return True  # its own key tells the tenant
    if pair.super_x is None or not session.is_twin(pair.super_x, pair.tenant_x.uid):
        return False
    return kind.change is not None and kind.change(pair.super_x.decode(), twin) is None


async def _tell_adjusted(tenant_x: Entry, built: Built, session: Session) -> None:
    if built.notices:
        message = "; ".join(str(problem) for problem in built.notices)
        await session.notices.tell(PODS, tenant_x, reason=ADJUSTED, message=message)
