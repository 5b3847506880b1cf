"""Verdict table of a PodSpec under a TenantPolicy.

Pure. Owns the mapping from policy fields to lifted rules of the table in `pod_fields`, which is the
level baseline. The level restricted has the same table, because the super cluster's own admission
checks the additional rules.

Hazard: a verdict is lifted by the name of its rule, so a new leaf must not reuse the name of a
liftable rule by mistake. Otherwise the leaf is lifted as well.
"""

from functools import lru_cache

from syncer.model.field_rules import ALLOW, FREE, Each, Fields, Only, lifted
from syncer.rules.pods.container_fields import Table
from syncer.rules.pods.pod_fields import POD_SPEC
from tenancy.policies import SecurityLevel, TenantPolicySpec

HOST_PORTS = frozenset({"host-port"})
PRIVILEGED = HOST_PORTS | {
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

_HOST_PATH = Fields({"path": ALLOW, "type": ALLOW})
_IMAGE = Fields({"pullPolicy": ALLOW, "reference": ALLOW})


def table(policy: TenantPolicySpec) -> Table:
    """Return the verdicts on a tenant's pods. The verdicts on a container are in `containers`."""
    return _table(
        policy.security.level,
        policy.network.host_ports == "Allow",
        policy.storage.image_volumes == "Allow",
        policy.storage.inline_csi_drivers,
    )


@lru_cache(maxsize=64)
def _table(
    level: SecurityLevel,
    host_ports: bool,
    image_volumes: bool,
    csi_drivers: tuple[str, ...],
) -> Table:
    rules = PRIVILEGED if level == "privileged" else HOST_PORTS if host_ports else frozenset()
    found = dict(lifted(POD_SPEC, rules))
    volumes = found["volumes"]
    assert isinstance(volumes, Each)  # noqa: S101 - the table says so
    sources = dict(volumes.fields)
    if level == "privileged":
        sources["hostPath"] = _HOST_PATH
    if image_volumes:
        sources["image"] = _IMAGE
    if csi_drivers:
        sources["csi"] = _csi(csi_drivers)
    return {**found, "volumes": Each(sources)}


def _csi(drivers: tuple[str, ...]) -> Fields:
    offered = ", ".join(drivers)
    return Fields(
        {
            "driver": Only(frozenset(drivers), "volume-source", f"use a driver of {offered}"),
            "fsType": ALLOW,
            "nodePublishSecretRef": Fields({"name": ALLOW}),
            "readOnly": ALLOW,
            "volumeAttributes": FREE,
        }
    )
