"""Verdict table of a PodSpec under a TenantPolicy.

Pure. Owns the mapping from policy fields to lifted rules of the table in `pod_fields`, which is the
level baseline. The level restricted has the same table, because the super cluster's own admission
checks the additional rules.

Hazard: a verdict is lifted by the name of its rule, so a new leaf must not reuse the name of a
liftable rule by mistake. Otherwise the leaf is lifted as well.
"""

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from syncer.model.field_rules import (
    ALLOW_MAP,
    ALLOW_SCALAR,
    AllowValues,
    ListOfObjects,
    ObjectFields,
    lift_rules,
)
from syncer.model.rejections import RejectionProblem
from syncer.rules import resource_claims
from syncer.rules.pods.container_fields import FieldRules
from syncer.rules.pods.pod_fields import POD_SPEC
from tenancy.policies import SecurityLevel, TenantPolicySpec

HOST_PORT_RULES = frozenset({"host-port"})
PRIVILEGED_RULES = HOST_PORT_RULES | {
    "capabilities",
    "handler-host",
    "host-namespace",
    "mount-propagation",
    "privileged",
    "proc-mount",
    "profile",
    "selinux",
    "sysctls",
}
"""Rules that protect the node from a pod. None of them applies at the level privileged."""

_HOST_NAMESPACE_FIELDS = ("hostNetwork", "hostPID", "hostIPC")
_HOST_PATH_RULE = ObjectFields({"path": ALLOW_SCALAR, "type": ALLOW_SCALAR})
_IMAGE_VOLUME_RULE = ObjectFields({"pullPolicy": ALLOW_SCALAR, "reference": ALLOW_SCALAR})


def get_table(policy: TenantPolicySpec, *, device_claims: bool = False) -> FieldRules:
    """Return the verdicts on a tenant's pods. The verdicts on a container are in `containers`.

    `device_claims` is whether a SyncRule copies ResourceClaims of the tenant.
    """
    return _build_table(
        policy.security.level,
        policy.network.host_ports == "Allow",
        policy.storage.image_volumes == "Allow",
        policy.storage.inline_csi_drivers,
        device_claims,
    )


@lru_cache(maxsize=128)
def _build_table(
    level: SecurityLevel,
    host_ports: bool,
    image_volumes: bool,
    csi_drivers: tuple[str, ...],
    device_claims: bool,
) -> FieldRules:
    rules = (
        PRIVILEGED_RULES
        if level == "privileged"
        else HOST_PORT_RULES
        if host_ports
        else frozenset()
    )
    found = dict(lift_rules(POD_SPEC, rules))
    volumes = found["volumes"]
    assert isinstance(volumes, ListOfObjects)  # noqa: S101 - the table says so
    sources = dict(volumes.fields)
    if level == "privileged":
        sources["hostPath"] = _HOST_PATH_RULE
    if image_volumes:
        sources["image"] = _IMAGE_VOLUME_RULE
    if csi_drivers:
        sources["csi"] = _build_csi_rule(csi_drivers)
    if device_claims:
        found |= resource_claims.open_fields(found)
    return {**found, "volumes": ListOfObjects(sources)}


def write_user_namespace(spec: dict[str, Any], policy: TenantPolicySpec) -> list[RejectionProblem]:
    """Write `hostUsers: false` into the spec of a super pod, in place, if the policy forbids true.

    Returns a problem for each field that the API server refuses together with it.
    """
    if policy.security.host_users != "Forbid":
        return []
    cause = "because the TenantPolicy forbids host users in security.hostUsers"
    problems = [
        RejectionProblem("host-users", f"spec.{field}", f"must not be true, {cause}. Leave it out")
        for field in ("hostUsers", *_HOST_NAMESPACE_FIELDS)
        if spec.get(field)
    ]
    problems += [
        RejectionProblem(
            "host-users",
            f"spec.{kind}[{container.get('name', '')}].volumeDevices",
            f"must be empty, {cause}. Mount the volume with a file system",
        )
        for kind in ("initContainers", "containers")
        for container in _list_containers(spec, kind)
        if container.get("volumeDevices")
    ]
    spec["hostUsers"] = False
    return problems


def _list_containers(spec: Mapping[str, Any], kind: str) -> list[Mapping[str, Any]]:
    return [each for each in spec.get(kind) or () if isinstance(each, dict)]


def _build_csi_rule(drivers: tuple[str, ...]) -> ObjectFields:
    offered = ", ".join(drivers)
    return ObjectFields(
        {
            "driver": AllowValues(
                frozenset(drivers), "volume-source", f"Use a driver of {offered}"
            ),
            "fsType": ALLOW_SCALAR,
            "nodePublishSecretRef": ObjectFields({"name": ALLOW_SCALAR}),
            "readOnly": ALLOW_SCALAR,
            "volumeAttributes": ALLOW_MAP,
        }
    )
