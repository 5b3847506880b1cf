"""Patch of a running super pod: the fields that may still change.

Pure. Must not know clients.

Hazard: the patch must contain only the few leaves that may change, and never a whole list of
containers. The API refuses most changes of a pod.

Hazard: the patch must name only containers that the twin records as the tenant's. Otherwise a
tenant's API server could give its own image to a sidecar that the super cluster injected.
"""

from collections.abc import Collection, Mapping
from typing import Any

import orjson

from kubeio import Object
from syncer.model import builtin_policy, object_meta
from syncer.model.field_rules import ALLOW_SCALAR, FieldRule, FieldWalk, ListOfObjects
from syncer.model.rejections import RejectedError
from syncer.rules import container_limits
from syncer.rules.pods import ephemeral_containers, pod_build, scheduling
from syncer.rules.pods.pod_fields import POD_SPEC
from tenancy import wellknown
from tenancy.ownership import Tenant
from tenancy.policies import BASELINE_POLICY, ImagesSpec, TenantPolicySpec


def build_running_patch(
    pod: Mapping[str, Any],
    twin: Mapping[str, Any],
    tenant: Tenant,
    *,
    policy: TenantPolicySpec = BASELINE_POLICY,
    adding: Collection[str] = (),
    policy_labels: Mapping[str, str] = pod_build.NO_LABELS,
) -> Object | None:
    """Return the strategic merge patch of the fields that may change on a running pod, or None.

    `adding` are the names of the ephemeral containers that are added immediately afterwards.
    `policy_labels` are those of `PodBuildContext`. Raises RejectedError for a field that no pod may
    have, or for an image that the policy does not allow.
    """
    super_namespace = twin["metadata"]["namespace"]
    containers = [
        *_list_template_containers(pod, twin),
        *ephemeral_containers.list_recorded_names(pod, twin, adding),
    ]
    desired = pod_build.build_metadata(
        pod,
        tenant,
        super_namespace,
        containers=containers,
        policy=policy,
        policy_labels=policy_labels,
        networks=_read_networks(twin["metadata"]),
    )
    metadata = object_meta.build_metadata_patch("Pod", twin["metadata"], desired)
    served = ephemeral_containers.list_served_names(twin)
    spec = _build_spec_patch(pod["spec"], twin["spec"], served, policy.images)
    if not metadata and not spec:
        return None
    body: Object = {"metadata": {"uid": twin["metadata"]["uid"], **metadata}}
    return {**body, "spec": spec} if spec else body


def _read_networks(twin_metadata: Mapping[str, Any]) -> dict[str, str]:
    """Return the networks that a twin was created with. They never change while it exists."""
    found = twin_metadata.get("annotations") or {}
    return {key: found[key] for key in builtin_policy.POD_NETWORK_REQUESTS if key in found}


_CONTAINER_LISTS = ("initContainers", "containers")
_MUTABLE_FIELDS: Mapping[str, FieldRule] = {
    **dict.fromkeys(_CONTAINER_LISTS, ListOfObjects({"image": ALLOW_SCALAR, "name": ALLOW_SCALAR})),
    **{field: POD_SPEC[field] for field in ("activeDeadlineSeconds", "tolerations")},
}
"""Fields of a spec that may change while a pod runs."""


def _list_template_containers(pod: Mapping[str, Any], twin: Mapping[str, Any]) -> list[str]:
    """Return the containers of the pod's template that the twin must record.

    No honest API server allows adding one to an existing pod. A hostile one could name a container
    that was injected in the super cluster.
    """
    own = pod_build.list_container_names(pod["spec"])
    if wellknown.CONTAINERS not in (twin["metadata"].get("annotations") or {}):
        return own
    served = ephemeral_containers.list_served_names(twin)
    return [name for name in own if name in served]


def _build_spec_patch(
    own: Mapping[str, Any],
    there: Mapping[str, Any],
    served: Collection[str],
    offered: ImagesSpec,
) -> Object:
    """Return the patch of the spec. Only containers of the names in `served` get an image."""
    walk, patch = FieldWalk(), dict[str, Any]()
    said = {field: own[field] for field in _MUTABLE_FIELDS if field in own}
    for kind in _CONTAINER_LISTS:
        said[kind] = [
            {key: item.get(key) for key in ("name", "image")} for item in own.get(kind) or ()
        ]
    own = walk.walk_fields(said, _MUTABLE_FIELDS, "spec")
    if walk.problems:
        raise RejectedError(*walk.problems)
    for kind in _CONTAINER_LISTS:
        images = {
            item["name"]: item.get("image")
            for item in there.get(kind) or ()
            if item["name"] in served
        }
        changed = [
            {"name": item["name"], "image": item["image"]}
            for item in own.get(kind) or ()
            if item["name"] in images and item.get("image") != images[item["name"]]
        ]
        for item in changed:
            container_limits.check_changed_image(kind, item, offered)
        if changed:
            patch[kind] = changed
    deadline = own.get("activeDeadlineSeconds")
    if deadline is not None and deadline != there.get("activeDeadlineSeconds"):
        patch["activeDeadlineSeconds"] = deadline
    tolerations = there.get("tolerations") or []
    kept, _ = scheduling.filter_tolerations(own.get("tolerations") or ())
    known = {_serialize_toleration(item) for item in tolerations}
    added = [item for item in kept if _serialize_toleration(item) not in known]
    if added:
        patch["tolerations"] = [*tolerations, *added]  # accepted only as a whole, grown list
    return patch


def _serialize_toleration(toleration: Mapping[str, Any]) -> bytes:
    """Return a key that is the same for equal tolerations. A pod may have thousands of them."""
    return orjson.dumps(toleration, option=orjson.OPT_SORT_KEYS)
