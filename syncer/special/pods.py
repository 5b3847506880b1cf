"""A pod and its twin: the facts that its life depends on, and what may change on a running twin.

Pure. Owns the reading of both bodies for `pod_life`, and the patch of a running super pod. Must not
know clients. Hazard: the API refuses most changes of a pod, so the patch holds the few leaves that
may change and never a whole list of containers.
"""

from collections.abc import Mapping
from typing import Any

from kubeio import Object
from syncer import policy, translate
from syncer.special import pod_build, pod_scheduling
from syncer.special.pod_life import PodSide, TwinSide
from syncer.special.pod_status import TERMINAL
from tenancy.ownership import Tenant

LOST_REASON = "SuperPodLost"


def pod_side(pod: Mapping[str, Any]) -> PodSide:
    """Return what a tenant pod's life depends on."""
    metadata, spec, status = pod["metadata"], pod["spec"], pod.get("status") or {}
    phase = status.get("phase") or "Pending"
    return PodSide(
        node=spec.get("nodeName") or "",
        deleting=bool(metadata.get("deletionTimestamp")),
        grace_seconds=metadata.get("deletionGracePeriodSeconds"),
        is_terminal=phase in TERMINAL,
        was_below=phase != "Pending" or bool(status.get("startTime")),
        is_lost=phase == "Failed" and status.get("reason") == LOST_REASON,
        has_controller=translate.controller_of(metadata) is not None,
    )


def twin_side(twin: Mapping[str, Any]) -> TwinSide:
    """Return what a super pod says about its life."""
    metadata = twin["metadata"]
    return TwinSide(
        node=twin["spec"].get("nodeName") or "",
        deleting=bool(metadata.get("deletionTimestamp")),
        grace_seconds=metadata.get("deletionGracePeriodSeconds"),
    )


def is_held(pod: Mapping[str, Any]) -> bool:
    """Tell whether scheduling gates hold a pod in the tenant."""
    return bool(pod["spec"].get("schedulingGates"))


def was_forced(last: Mapping[str, Any]) -> bool:
    """Tell, from a pod's last state, whether it went at once although a node ran it.

    A pod without a node always goes at once; that asks for nothing.
    """
    spec = last.get("spec")
    is_bound = isinstance(spec, dict) and bool(spec.get("nodeName"))
    return is_bound and last["metadata"].get("deletionGracePeriodSeconds") == 0


def grace_down(pod: PodSide) -> int | None:
    """Return the grace that the twin is deleted with: the tenant's, within the limit.

    None stands for the twin's own: a pod without a node goes at once whatever was asked.
    """
    if pod.grace_seconds is None or not pod.node:
        return None
    return min(pod.grace_seconds, policy.MAX_GRACE_SECONDS)


def running_patch(pod: Mapping[str, Any], twin: Mapping[str, Any], tenant: Tenant) -> Object | None:
    """Return the strategic merge patch of what may change on a running pod, or None."""
    super_namespace = twin["metadata"]["namespace"]
    desired = pod_build.build_metadata(pod, tenant, super_namespace)
    metadata = translate.metadata_patch("Pod", twin["metadata"], desired)
    spec = _spec_patch(pod["spec"], twin["spec"])
    if not metadata and not spec:
        return None
    body: Object = {"metadata": {"uid": twin["metadata"]["uid"], **metadata}}
    return {**body, "spec": spec} if spec else body


def _spec_patch(own: Mapping[str, Any], there: Mapping[str, Any]) -> Object:
    patch: Object = {}
    for kind in ("initContainers", "containers"):
        images = {item["name"]: item.get("image") for item in there.get(kind) or ()}
        changed = [
            {"name": item["name"], "image": item["image"]}
            for item in own.get(kind) or ()
            if item["name"] in images and item.get("image") != images[item["name"]]
        ]
        if changed:
            patch[kind] = changed
    deadline = own.get("activeDeadlineSeconds")
    if deadline is not None and deadline != there.get("activeDeadlineSeconds"):
        patch["activeDeadlineSeconds"] = deadline
    tolerations = there.get("tolerations") or []
    kept, _ = pod_scheduling.passed_tolerations(own.get("tolerations") or ())
    added = [item for item in kept if not _is_tolerated(item, tolerations)]
    if added:
        patch["tolerations"] = [*tolerations, *added]  # the API takes the whole list, only grown
    return patch


def _is_tolerated(item: Mapping[str, Any], there: list[Mapping[str, Any]]) -> bool:
    return any(dict(item) == dict(other) for other in there)


def names_between(
    pod: Mapping[str, Any], twin: Mapping[str, Any], tenant: Tenant
) -> list[tuple[str, str]]:
    """Return the replacements for texts about a pod on their way up."""
    own, below = pod["metadata"], twin["metadata"]
    uids = (below["uid"], own["uid"])
    return translate.names_of(tenant, below["namespace"], own["namespace"], uids)
