"""Creation of super pods, after everything that they need.

Owns the facts for the builder and the waiting for namespace, tokens and configuration. So a kubelet
never meets a pod whose mounts are still missing. Objects that the tenant has not created are not
waited for, because the kubelet reports them, as in any cluster.

Hazards: every object that a pod waits for must wake the pod. Otherwise the pod waits for its retry
delay. A name without a tenant object must be checked in the super cluster. It may be a foreign
object's, whose data the pod would get.
"""

from collections.abc import Iterator

from kubeio import Object, errors
from kubeio.cache.store import Entry
from kubeio.controller.worker import NotReadyYet, Result
from syncer.controllers import adoption, cached_objects, quotas, rejection_events, sync_down
from syncer.controllers.pods import (
    node_selection,
    pod_claims,
    pod_networks,
    pod_variables,
    tokens,
)
from syncer.model import builtin_policy
from syncer.model.keys import NODE, SERVICE_VARIABLES, TOKEN, Key
from syncer.model.references import (
    CLAIM,
    ObjectReference,
    is_made_for,
    is_reserved_name,
    iterate_token_sources,
    list_ephemeral_claims,
    list_references,
)
from syncer.model.rejections import (
    MALFORMED_OBJECT_ERRORS,
    SYNC_REJECTED,
    RejectedError,
    RejectionProblem,
    UnschedulableError,
    build_malformed_rejection,
)
from syncer.rules.configuration import config_maps_secrets
from syncer.rules.placement import cluster_scheduler
from syncer.rules.pods import (
    dns,
    environment,
    pod_build,
    scheduling,
    size_limits,
    token_specs,
)
from syncer.rules.pods.pod_build import BuiltPod, PodBuildContext
from syncer.rules.pods.scheduling import SchedulingContext
from syncer.rules.pods.token_specs import TokenSpec
from syncer.rules.registry import SyncedKind
from syncer.safety.expectations import ClusterSide
from syncer.tenants.session import Session
from tenancy import names, wellknown
from tenancy.resources import PODS, SECRETS, SERVICE_ACCOUNTS

FOREIGN_RETRY_SECONDS = 60.0
"""Retry interval in seconds for a pod that names a foreign object, because no watch shows that."""


async def create_pod_twin(
    kind: SyncedKind, key: Key, tenant_x: Entry, pod: Object, session: Session
) -> Result:
    """Create the twin of a pod, or wait for its needs."""
    if len(tenant_x.body) > builtin_policy.MAX_OBJECT_BYTES:
        text = (
            f"has {len(tenant_x.body)} bytes, and the limit is {builtin_policy.MAX_OBJECT_BYTES}."
            " Make it smaller"
        )
        problems = (RejectionProblem("too-large", "the pod", text),)
        await rejection_events.report_rejected(kind, tenant_x, problems, session)
        return sync_down.RECONCILED
    super_namespace = await _get_ready_namespace(key, tenant_x, session)
    session.quota.check_not_waiting(key)
    try:
        _refuse_home_only(pod, session)
        wanted_tokens = await _list_tokens(pod, session)
        built = _build_super_pod(pod, super_namespace, wanted_tokens, session)
    except RejectedError as rejected:
        await adoption.find_vanished_twin(kind, key, session)  # no create will find it
        if any(problem.rule == scheduling.NODE_NAME_RULE for problem in rejected.problems):
            for node in scheduling.list_unknown_nodes(pod["spec"], session.view.list_shown_nodes()):
                session.work.add_waiter(session.build_key(NODE, "", node), key)
        await rejection_events.report_rejected(kind, tenant_x, rejected.problems, session)
        _wait_for_class(key, pod, session)
        return sync_down.RECONCILED
    except UnschedulableError as unplaced:
        await node_selection.report_unschedulable(
            kind, key, pod, str(unplaced), session, tenant_x=tenant_x
        )
        return sync_down.RECONCILED
    await _report_withheld_secrets(tenant_x, pod, session)
    await _report_adjusted(tenant_x, built, session)
    await _wait_for_own_claims(key, tenant_x, pod, session)
    await pod_networks.wait_for_networks(key, tenant_x, pod, session)
    await pod_claims.wait_for_claims(key, tenant_x, pod, session)
    links = environment.has_service_links(pod["spec"])
    await wait_for_dependencies(key, tenant_x, pod["spec"], wanted_tokens, session, links=links)
    record = session.connection.assignments.read_record(tenant_x)
    if record:
        built.pod["metadata"]["annotations"][wellknown.ASSIGNED_CLUSTER] = record
    return await sync_down.post_twin(kind, key, tenant_x, built.pod, session)


def _refuse_home_only(pod: Object, session: Session) -> None:
    """Raise RejectedError for a pod that no target may run, by any writer's assignment."""
    if session.is_home:
        return
    why = cluster_scheduler.build_requirements(pod, {}).home_only_reason
    if why:
        text = (
            f"runs in {session.name}, which {why}. Remove its election, or use another nodeSelector"
        )
        raise RejectedError(RejectionProblem("target", "the pod", text))


def _build_super_pod(
    pod: Object, super_namespace: Entry, wanted_tokens: list[TokenSpec], session: Session
) -> BuiltPod:
    """Return the twin. Raises UnplacedError, and RejectedError also for malformed pods."""
    try:
        return pod_build.build_super_pod(
            pod, build_context(pod, super_namespace, wanted_tokens, session)
        )
    except MALFORMED_OBJECT_ERRORS as stumble:  # etcd may hold objects that no API server accepts
        raise build_malformed_rejection(stumble) from stumble


def _wait_for_class(key: Key, pod: Object, session: Session) -> None:
    """Queue a rejected pod again when its RuntimeClass exists."""
    name = pod["spec"].get("runtimeClassName")
    if isinstance(name, str) and name:
        session.work.add_waiter(session.build_key("RuntimeClass", "", name), key)


async def _get_ready_namespace(key: Key, tenant_x: Entry, session: Session) -> Entry:
    """Return the super namespace.

    A pod that waits for the end of an earlier namespace gets an Event.

    An Event about the namespace itself would be in namespace `default`, where few users check.
    """
    try:
        return session.namespaces.get_ready(key)
    except NotReadyYet:
        space = session.stores["Namespace"].get("", key.namespace)
        below = session.twins.get_store("Namespace").get(
            "", session.view.get_super_namespace(key.namespace)
        )
        if (
            space is not None
            and _is_own_object(below, session)
            and not session.twins.is_twin(below, space.uid)
        ):
            message = (
                f"An earlier namespace {key.namespace} is still being deleted where pods run. The"
                " pod starts afterwards."
            )
            await session.event_recorder.record(
                PODS,
                tenant_x,
                reason=sync_down.WAITING_FOR_DELETION,
                message=message,
                kind="Normal",
            )
        raise


async def _report_withheld_secrets(tenant_x: Entry, pod: Object, session: Session) -> None:
    """Report named Secrets that are never synced, so that the kubelet finds none.

    Most of them are not watched. A name that is not in the cache is read live once.
    """
    for ref in sorted(list_references(pod["spec"])):
        if ref.kind != "Secret":
            continue
        entry = session.stores["Secret"].get(tenant_x.namespace, ref.name)
        if entry is not None:
            secret = entry.decode()
        else:
            try:
                secret = await session.tenant_client.get(
                    SECRETS, ref.name, namespace=tenant_x.namespace
                )
            except errors.NotFound:
                continue
        if config_maps_secrets.is_withheld(secret):
            message = (
                f"Secret {ref.name}, which the pod refers to, is of type {secret['type']}, which"
                " is never synced. Refer to a secret of another type (rule secret-type)."
            )
            await session.event_recorder.record(
                PODS, tenant_x, reason=SYNC_REJECTED, message=message
            )


async def _list_tokens(pod: Object, session: Session) -> list[TokenSpec]:
    """Return the tokens that a pod's volumes request. Raises RejectedError, too."""
    namespace = pod["metadata"]["namespace"]
    account = pod["spec"].get("serviceAccountName") or "default"
    try:
        if not any(True for _ in iterate_token_sources(pod["spec"])):
            return []
        token_specs.list_token_specs(pod, "")
        if not names.is_dns_subdomain(account):
            raise ValueError("no ServiceAccount has such a name")
    except MALFORMED_OBJECT_ERRORS as stumble:
        raise build_malformed_rejection(stumble) from stumble
    entry = session.stores["ServiceAccount"].get(namespace, account)
    if entry is not None:
        return list(token_specs.list_token_specs(pod, entry.uid).values())
    try:
        live = await session.tenant_client.get(
            SERVICE_ACCOUNTS, account, namespace=namespace, metadata_only=True
        )
    except errors.NotFound as problem:
        raise NotReadyYet(f"the ServiceAccount {account} does not exist") from problem
    return list(token_specs.list_token_specs(pod, live["metadata"]["uid"]).values())


async def enqueue_missing_needs(pod: Object, twin: Object, session: Session) -> None:
    """Queue deleted tokens and service variables that a super pod names, to recreate them."""
    pod_variables.enqueue_missing(pod["metadata"]["namespace"], twin, session)
    namespace, below = twin["metadata"]["namespace"], session.twins.get_store("Secret")
    missing = {
        ref.name
        for ref in list_references(twin["spec"])
        if ref.kind == SECRETS.kind
        and is_reserved_name(ref.kind, ref.name)
        and below.get(namespace, ref.name) is None
    }
    for token in await _list_tokens(pod, session) if missing else ():
        key = tokens.get_missing_token_key(token, session) if token.secret_name in missing else None
        if key is not None:
            session.queue.add(key)


def build_context(
    pod: Object, super_namespace: Entry, wanted_tokens: list[TokenSpec], session: Session
) -> PodBuildContext:
    """Return the facts that the builder needs for a pod.

    Raises RejectedError if the variables of its Services are too large.
    """
    view, namespace = session.view, pod["metadata"]["namespace"]
    spec = pod["spec"]
    is_choosy = bool(spec.get("affinity") or spec.get("nodeName"))
    large = size_limits.check_variables_size(
        pod_variables.count_bytes(
            namespace, links=environment.has_service_links(spec), session=session
        )
    )
    if large:
        raise RejectedError(*large)
    return PodBuildContext(
        tenant=session.tenant,
        super_namespace=super_namespace.name,
        super_namespace_uid=super_namespace.uid,
        resolver=dns.resolver_of(view),
        scheduling=SchedulingContext(
            vc_uid=session.tenant.uid,
            namespace=namespace,
            super_namespace=view.get_super_namespace,
            namespaces=view.list_namespace_labels() if is_choosy else {},
            nodes=view.list_shown_nodes() if is_choosy else (),
            node_view=view.policy.nodes.view,
            tenant_changes=session.node_index.additions,
            is_class_shown=view.shows_class,
            pool=view.policy.nodes,
            runtime_class=view.policy.security.runtime_class_name,
        ),
        account_uid=wanted_tokens[0].account_uid if wanted_tokens else "",
        policy=view.policy,
        policy_labels=session.namespaces.build_policy_labels(
            namespace, pod["metadata"].get("labels") or {}
        ),
        networks=pod_networks.build_context(namespace, session),
        device_claims=pod_claims.is_offered(session),
    )


async def wait_for_dependencies(
    key: Key,
    tenant_x: Entry,
    spec: Object,
    wanted_tokens: list[TokenSpec],
    session: Session,
    *,
    links: bool,
) -> None:
    """Raise Wait until everything that a PodSpec needs is synced. Each of them wakes the pod.

    `links` is whether the pod gets the variables of the Services of its namespace.
    """
    missing = [
        pod_variables.get_outdated_key(key.namespace, links=links, session=session),
        *(tokens.get_missing_token_key(token, session) for token in wanted_tokens),
        *_list_missing_objects(key, spec, session),
    ]
    pending = [dependency for dependency in missing if dependency is not None]
    for dependency in pending:
        session.work.add_waiter(dependency, key)
        if await quotas.report_held_need(tenant_x, dependency, session):
            continue
        if not _is_write_in_flight(dependency, session):
            session.queue.add(dependency, first=True)
    if pending:
        raise NotReadyYet(f"{len(pending)} objects that the pod needs are being created")
    await _refuse_foreign_objects(key, tenant_x, spec, session)


def _is_write_in_flight(dependency: Key, session: Session) -> bool:
    """Return True if a needed object is being written, or was written and is not cached yet."""
    if session.queue.is_processing(dependency):
        return True
    if dependency.kind == SERVICE_VARIABLES:
        entry = pod_variables.get_super_config_map(dependency, session)
    elif dependency.kind == TOKEN:
        below = session.view.get_super_namespace(dependency.namespace)
        entry = session.twins.get_store(SECRETS.kind).get(below, dependency.name)
    else:
        entry = cached_objects.read_pair(
            session.kinds[dependency.kind], dependency, session
        ).super_x
    return session.expectations.is_behind(ClusterSide.SUPER, dependency, entry)


async def _wait_for_own_claims(key: Key, tenant_x: Entry, pod: Object, session: Session) -> None:
    """Raise Wait until the claims of a pod's ephemeral volumes exist and are the pod's."""
    for name in list_ephemeral_claims(pod).values():
        claim = session.stores[CLAIM].get(key.namespace, name)
        if claim is not None and is_made_for(claim.decode(), tenant_x.uid):
            continue
        session.work.add_waiter(session.build_key(CLAIM, key.namespace, name), key)
        if claim is None:
            raise NotReadyYet(f"the claim {name} of an ephemeral volume does not exist yet")
        message = (
            f"spec.volumes: the claim {name} of an ephemeral volume was not created for this pod."
            " Rename the volume, or delete the claim (rule ephemeral-claim)."
        )
        await session.event_recorder.record(
            PODS, tenant_x, reason=cached_objects.NAME_TAKEN, message=message
        )
        raise NotReadyYet(
            "the claim of an ephemeral volume is not the pod's", FOREIGN_RETRY_SECONDS
        )


def _list_missing_objects(key: Key, spec: Object, session: Session) -> Iterator[Key]:
    for ref in sorted(list_references(spec)):
        if ref.kind == CLAIM:
            continue  # the super cluster's scheduler waits for claims
        kind = session.kinds[ref.kind]
        needed = session.build_key(ref.kind, key.namespace, ref.name)
        if not _is_synced_down(kind, needed, session):
            yield needed


async def _refuse_foreign_objects(
    key: Key, tenant_x: Entry, spec: Object, session: Session
) -> None:
    """Raise Wait while a name without a twin belongs to a foreign object in the super cluster."""
    ephemeral = list_ephemeral_claims({"metadata": {"name": key.name}, "spec": spec})
    for ref in sorted(
        list_references(spec) | {ObjectReference(CLAIM, name) for name in ephemeral.values()}
    ):
        kind = session.kinds[ref.kind]
        needed = session.build_key(ref.kind, key.namespace, ref.name)
        if _is_own_object(cached_objects.read_pair(kind, needed, session).super_x, session):
            continue
        try:
            live = await session.super_client.get(
                kind.resource,
                kind.super_name(ref.name),
                namespace=session.view.get_super_namespace(key.namespace),
                metadata_only=True,
            )
        except errors.NotFound:
            continue
        if not session.tenant.owns(live["metadata"]):
            message = (
                f"a reference to {ref.kind} {ref.name}: the name is used by an object of another"
                " owner. Choose another name (rule name-taken)."
            )
            await session.event_recorder.record(
                PODS, tenant_x, reason=cached_objects.NAME_TAKEN, message=message
            )
            raise NotReadyYet(
                "a name that the pod refers to is used by an object of another owner",
                FOREIGN_RETRY_SECONDS,
            )


def _is_own_object(entry: Entry | None, session: Session) -> bool:
    return entry is not None and session.tenant.owns({"annotations": entry.annotations})


def _is_synced_down(kind: SyncedKind, key: Key, session: Session) -> bool:
    """Return True if an object is synced in its newest state, or never will be."""
    pair = cached_objects.read_pair(kind, key, session)
    if pair.tenant_x is None or pair.tenant_x.deleting:
        return True
    try:
        twin = kind.build(pair.tenant_x.decode(), session.view)
    except RejectedError:
        return True  # its own key reports that
    if pair.super_x is None or not session.twins.is_twin(pair.super_x, pair.tenant_x.uid):
        return False
    if session.twins.is_leaving(key, pair.super_x):
        return False
    return kind.change(pair.super_x.decode(), twin) is None


async def _report_adjusted(tenant_x: Entry, built: BuiltPod, session: Session) -> None:
    if built.adjustments:
        message = " ".join(str(problem) for problem in built.adjustments)
        await session.event_recorder.record(
            PODS, tenant_x, reason=rejection_events.ADJUSTED, message=message
        )
