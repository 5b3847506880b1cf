"""Verdict table of a PodSpec under a TenantPolicy.

Pure. Owns the mapping from policy fields to lifted rules of the table in `pod_fields`, which is the
level baseline. The level restricted has the same table, because the super cluster's own admission
checks the additional rules.

Hazard: a verdict is lifted by the name of its rule, so a new leaf must not reuse the name of a
liftable rule by mistake. Otherwise the leaf is lifted as well.
"""

from functools import lru_cache

from syncer.model.field_rules import (
    ALLOW_MAP,
    ALLOW_SCALAR,
    AllowValues,
    ListOfObjects,
    ObjectFields,
    lift_rules,
)
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

_HOST_PATH_RULE = ObjectFields({"path": ALLOW_SCALAR, "type": ALLOW_SCALAR})
_IMAGE_VOLUME_RULE = ObjectFields({"pullPolicy": ALLOW_SCALAR, "reference": ALLOW_SCALAR})


def get_table(policy: TenantPolicySpec) -> FieldRules:
    """Return the verdicts on a tenant's pods. The verdicts on a container are in `containers`."""
    return _build_table(
        policy.security.level,
        policy.network.host_ports == "Allow",
        policy.storage.image_volumes == "Allow",
        policy.storage.inline_csi_drivers,
    )


@lru_cache(maxsize=64)
def _build_table(
    level: SecurityLevel,
    host_ports: bool,
    image_volumes: bool,
    csi_drivers: tuple[str, ...],
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
    return {**found, "volumes": ListOfObjects(sources)}


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
