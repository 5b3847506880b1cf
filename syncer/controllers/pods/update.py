"""Updates of running pods: narrow patches, each by its subresource.

Owns the order. Metadata is first, so that the node agent knows a new container before it can start.
Resources, readiness conditions and ephemeral containers follow. Must not know how a patch is
computed.

Hazards: a refused part must not stop the other parts, so a refusal is raised last. A container must
be checked before its name is recorded, because the node agent serves every recorded name.
"""

from collections.abc import Sequence

from kubeio import Object, errors
from kubeio.cache.store import Entry
from kubeio.controller.worker import NotReadyYet
from syncer.controllers import rejection_events
from syncer.controllers.pods import create
from syncer.model.keys import Key
from syncer.model.rejections import (
    MALFORMED_OBJECT_ERRORS,
    RejectedError,
    RejectionProblem,
    build_malformed_rejection,
)
from syncer.rules.pods import (
    environment,
    ephemeral_containers,
    lifecycle,
    pod_patch,
    pod_status,
    resize,
)
from syncer.rules.registry import SyncedKind
from syncer.safety.hot_loop_guard import WriteScope
from syncer.safety.parked_differences import SUPER_SIDE
from syncer.tenants.session import Session
from tenancy.resources import PODS

ChangeOutcome = tuple[Object, errors.ApiError | NotReadyYet | None]
"""The twin with its generation after the writes, and the refusal of a part."""


async def sync_pod_down(
    kind: SyncedKind,
    key: Key,
    pod: Object,
    twin: Object,
    session: Session,
    *,
    tenant_x: Entry,
    super_x: Entry,
) -> ChangeOutcome:
    """Write the differences.

    The caller must raise the returned problem and continue with that twin.

    With an older generation, the status would claim that the kubelet has observed an unsent change.
    """
    digests = (tenant_x.metadata_digest, super_x.metadata_digest)
    is_plain = not pod["spec"].get("readinessGates") and not pod["spec"].get(
        ephemeral_containers.EPHEMERAL_CONTAINERS_FIELD
    )
    if is_plain and session.pod_memory.is_in_sync(key, digests):
        return twin, None  # only a status has changed, as in most events
    problem: errors.ApiError | NotReadyYet | None = None
    added: list[Object] = []
    try:
        added = await _select_new_containers(kind, key, pod, twin, session, tenant_x=tenant_x)
    except NotReadyYet as wait:
        problem = wait
    try:
        parts = _build_patches(pod, twin, session, [item["name"] for item in added])
    except RejectedError as rejected:
        await rejection_events.report_rejected(kind, tenant_x, rejected.problems, session)
        return twin, None
    places = [WriteScope(key, SUPER_SIDE, subresource) for subresource, _ in parts]
    in_step = problem is None and not added and not any(body for _, body in parts)
    known = any(session.hot_loop_guard.has_history(place) for place in places)
    there = session.stores["Pod"].get(key.namespace, key.name)
    if is_plain and in_step and not known and there is not None:
        session.pod_memory.record_in_sync(key, digests)
    for subresource, body in parts:
        if body is None:
            session.parked.clear_if_converged(key, SUPER_SIDE, subresource)
            continue
        try:
            twin = await _write_patch(key, tenant_x, twin, body, session, subresource=subresource)
        except rejection_events.REFUSAL_ERRORS as refusal:
            problem = refusal
            if not subresource:
                return twin, problem  # without its name a new container is unreachable
    if added:
        body = ephemeral_containers.build_patch(twin, added)
        try:
            twin = await _write_patch(
                key, tenant_x, twin, body, session, subresource="ephemeralcontainers"
            )
        except rejection_events.REFUSAL_ERRORS as refusal:
            problem = problem or refusal
    return twin, problem


def _build_patches(
    pod: Object, twin: Object, session: Session, adding: list[str]
) -> list[tuple[str, Object | None]]:
    """Return the patches by subresource. Raises RejectedError for malformed pods."""
    policy, metadata = session.view.policy, pod["metadata"]
    try:
        return [
            (
                "",
                pod_patch.build_running_patch(
                    pod,
                    twin,
                    session.tenant,
                    policy=policy,
                    adding=adding,
                    policy_labels=session.namespaces.build_policy_labels(
                        metadata["namespace"], metadata.get("labels") or {}
                    ),
                ),
            ),
            ("resize", None if lifecycle.is_finished(twin) else resize.build_patch(pod, twin)),
            ("status", pod_status.build_gate_patch(pod, twin)),
        ]
    except MALFORMED_OBJECT_ERRORS as stumble:  # etcd may hold objects that no API server accepts
        raise build_malformed_rejection(stumble) from stumble


async def _select_new_containers(
    kind: SyncedKind, key: Key, pod: Object, twin: Object, session: Session, *, tenant_x: Entry
) -> list[Object]:
    """Return the allowed ephemeral containers that the twin lacks, and report the rejected ones.

    Raises Wait until their needs are synced.
    """
    if not pod["spec"].get(
        ephemeral_containers.EPHEMERAL_CONTAINERS_FIELD
    ) or lifecycle.is_finished(twin):
        return []
    found: list[Object] = []
    problems: Sequence[RejectionProblem] = ()
    try:
        if ephemeral_containers.list_added(pod, twin):
            facts = create.build_context(pod, session.namespaces.get_ready(key), [], session)
            found, problems = ephemeral_containers.split_addable(pod, twin, facts)
    except (RejectedError, *MALFORMED_OBJECT_ERRORS) as problem:
        rejected = (
            problem if isinstance(problem, RejectedError) else build_malformed_rejection(problem)
        )
        problems = rejected.problems
    if problems:
        await rejection_events.report_rejected(kind, tenant_x, tuple(problems), session)
    names = {item["name"] for item in found}
    wanted = [
        item
        for item in pod["spec"][ephemeral_containers.EPHEMERAL_CONTAINERS_FIELD]
        if item["name"] in names
    ]
    if wanted:
        await create.wait_for_dependencies(
            key,
            tenant_x,
            {ephemeral_containers.EPHEMERAL_CONTAINERS_FIELD: wanted},
            [],
            session,
            links=environment.has_service_links(pod["spec"]),
        )
    return found


async def _write_patch(
    key: Key,
    tenant_x: Entry,
    twin: Object,
    body: Object,
    session: Session,
    *,
    subresource: str = "",
) -> Object:
    """Write a patch, unless it is parked. Returns the twin with its new generation."""
    written = await session.writer.update_twin(
        WriteScope(key, SUPER_SIDE, subresource),
        PODS,
        body,
        before=twin,
        tenant_x=tenant_x,
        kind="strategic",
    )
    if written is None:
        return twin
    generation = written["metadata"].get("generation")
    if generation is None:
        return twin  # a server without generations
    return {**twin, "metadata": {**twin["metadata"], "generation": generation}}
