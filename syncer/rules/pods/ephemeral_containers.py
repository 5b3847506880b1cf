"""Ephemeral containers of a running pod (`kubectl debug`), synced one by one.

Pure. Owns the selection of containers that are still missing in the super pod, their verdict table,
and the limits on their access. Must not know how they are written.

Hazard: a tenant's container must not have the name of a container that the tenant did not write.
Such a container is a sidecar or the debugger of a platform administrator, and the tenant's exec
would reach it.

Hazard: a name may be recorded as the tenant's only for a container that is about to be added.
Otherwise a later container of that name would be open to the tenant.
"""

from collections.abc import Collection, Mapping
from typing import Any

from kubeio import Object
from syncer.model.field_rules import ALLOW_SCALAR, FieldRule, FieldWalk, ListOfObjects
from syncer.model.rejections import (
    MALFORMED_OBJECT_ERRORS,
    RejectedError,
    RejectionProblem,
    build_malformed_rejection,
)
from syncer.rules import container_limits
from syncer.rules.pods import pod_build, security_levels
from syncer.rules.pods.container_fields import CONTAINER
from syncer.rules.pods.environment import FieldRefRewriter
from syncer.rules.pods.pod_build import PodBuildContext
from tenancy import names, wellknown
from tenancy.policies import TenantPolicySpec

EPHEMERAL_CONTAINERS_FIELD = "ephemeralContainers"
_EPHEMERAL_FIELDS: Mapping[str, FieldRule] = {"targetContainerName": ALLOW_SCALAR}
EPHEMERAL_CONTAINER: Mapping[str, FieldRule] = {**CONTAINER, **_EPHEMERAL_FIELDS}
"""Verdicts at the pod security level baseline."""
_CONTAINER_LISTS = ("initContainers", "containers", EPHEMERAL_CONTAINERS_FIELD)


def get_table(policy: TenantPolicySpec) -> Mapping[str, FieldRule]:
    """Return the verdicts on a tenant's ephemeral containers: those on any container, and more."""
    containers = security_levels.get_table(policy)["containers"]
    assert isinstance(containers, ListOfObjects)  # noqa: S101 - the table says so
    return {**containers.fields, **_EPHEMERAL_FIELDS}


def list_served_names(twin: Mapping[str, Any]) -> frozenset[str]:
    """Return the containers that a super pod records as the tenant's. The agent serves these."""
    annotations = twin["metadata"].get("annotations") or {}
    return frozenset(str(annotations.get(wellknown.CONTAINERS) or "").split(",")) - {""}


def list_added(pod: Mapping[str, Any], twin: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the tenant's ephemeral containers that the twin does not record as the tenant's.

    Raises RejectedError if the list is malformed.
    """
    own = pod["spec"].get(EPHEMERAL_CONTAINERS_FIELD) or []
    if not isinstance(own, list) or not all(_is_named(item) for item in own):
        text = "must be a list of containers whose names are DNS labels. Correct the object"
        raise RejectedError(
            RejectionProblem("malformed", f"spec.{EPHEMERAL_CONTAINERS_FIELD}", text)
        )
    ours = list_served_names(twin) & _list_present(twin)
    return [item for item in own if item["name"] not in ours]


def _list_present(twin: Mapping[str, Any]) -> frozenset[str]:
    return frozenset(
        item["name"] for kind in _CONTAINER_LISTS for item in twin["spec"].get(kind) or ()
    )


def _is_named(item: Any) -> bool:
    if not isinstance(item, dict) or not isinstance(item.get("name"), str):
        return False
    return names.is_dns_label(item["name"])


def list_recorded_names(
    pod: Mapping[str, Any], twin: Mapping[str, Any], adding: Collection[str]
) -> list[str]:
    """Return the names of the tenant's ephemeral containers that the twin must record.

    These are the containers that it has and records, and the containers that are added immediately
    afterwards. Any other name belongs to another owner, now or when a platform administrator debugs
    the pod.
    """
    there = {item.get("name") for item in twin["spec"].get(EPHEMERAL_CONTAINERS_FIELD) or ()}
    kept = (list_served_names(twin) & there) | set(adding)
    wanted = pod["spec"].get(EPHEMERAL_CONTAINERS_FIELD)
    own = wanted if isinstance(wanted, list) else []
    return [item["name"] for item in own if _is_named(item) and item["name"] in kept]


def split_addable(
    pod: Mapping[str, Any], twin: Mapping[str, Any], facts: PodBuildContext
) -> tuple[list[Object], list[RejectionProblem]]:
    """Return the containers to add as the super pod gets them, and the problems of the rest.

    A container can never be removed from a pod, so a refused container must not block the next
    ones. Raises RejectedError if the list is malformed.
    """
    found: list[Object] = []
    problems: list[RejectionProblem] = []
    there = _list_present(twin)
    for item in list_added(pod, twin):
        if item["name"] in there:
            text = f"takes the name {item['name']}, which is in use where the pod runs. Choose"
            problems.append(
                RejectionProblem(
                    "name-taken", f"spec.{EPHEMERAL_CONTAINERS_FIELD}", f"{text} another"
                )
            )
            continue
        try:
            found += build_containers(pod, [item], facts)
        except RejectedError as rejected:
            problems += rejected.problems
        except MALFORMED_OBJECT_ERRORS as stumble:
            problems += build_malformed_rejection(stumble).problems
    return found, problems


def build_containers(
    pod: Mapping[str, Any], wanted: Collection[Mapping[str, Any]], facts: PodBuildContext
) -> list[Object]:
    """Return the containers as the super pod gets them. Raises RejectedError."""
    if not facts.policy.access.ephemeral_containers:
        text = "is not offered. Contact your platform administrator"
        raise RejectedError(
            RejectionProblem("ephemeral-containers", f"spec.{EPHEMERAL_CONTAINERS_FIELD}", text)
        )
    positions = {
        item["name"]: index for index, item in enumerate(pod["spec"][EPHEMERAL_CONTAINERS_FIELD])
    }
    walk, verdicts = FieldWalk(), get_table(facts.policy)
    found = [
        walk.walk_fields(
            item, verdicts, f"spec.{EPHEMERAL_CONTAINERS_FIELD}[{positions[item['name']]}]"
        )
        for item in wanted
    ]
    problems = [
        *walk.problems,
        *pod_build.find_reference_problems(
            {EPHEMERAL_CONTAINERS_FIELD: list(wanted)}, f"spec.{EPHEMERAL_CONTAINERS_FIELD}"
        ),
    ]
    problems += pod_build.find_mount_problems(pod["spec"], {EPHEMERAL_CONTAINERS_FIELD: found})
    problems += pod_build.find_address_problems({EPHEMERAL_CONTAINERS_FIELD: found}, facts.policy)
    problems += _find_target_problems(pod["spec"], found)
    limited: Object = {EPHEMERAL_CONTAINERS_FIELD: found}
    problems += container_limits.find_problems(limited, facts.policy)
    if problems:
        raise RejectedError(*problems)
    container_limits.write_limits(limited, facts.policy)
    mirrors = FieldRefRewriter(pod["metadata"], facts.policy.metadata)
    pod_build.write_containers(found, pod["spec"], mirrors)
    return found


def _find_target_problems(
    spec: Mapping[str, Any], found: Collection[Object]
) -> list[RejectionProblem]:
    """Return a problem for each container that targets one that the tenant did not write.

    It would share the processes of that container.
    """
    own = [item.get("name") for kind in _CONTAINER_LISTS[:2] for item in spec.get(kind) or ()]
    return [
        RejectionProblem(
            "target-container",
            f"spec.{EPHEMERAL_CONTAINERS_FIELD}, targetContainerName"
            f" {item['targetContainerName']},",
            "is not a container of the pod. Use the name of a container",
        )
        for item in found
        if item.get("targetContainerName") and item["targetContainerName"] not in own
    ]


def build_patch(twin: Mapping[str, Any], containers: list[Object]) -> Object:
    """Return the strategic merge patch that adds containers to a running super pod."""
    return {
        "metadata": {"uid": twin["metadata"]["uid"]},
        "spec": {EPHEMERAL_CONTAINERS_FIELD: containers},
    }
