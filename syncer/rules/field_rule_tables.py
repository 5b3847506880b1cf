"""Registry of the verdict tables, by kind and part of the object.

Pure data. The census compares every table with the schema that an API server publishes. The user's
page `docs/kinds.md` is written from them.

Hazard: every table in use must be listed here. Otherwise it is compared with no schema, so a test
fails for a kind of `syncer.rules.registry` without one.
"""

from collections.abc import Mapping
from typing import NamedTuple

from syncer.model.field_rules import FieldRule
from syncer.rules.configuration.config_maps_secrets import CONFIG_MAP, SECRET
from syncer.rules.disruption_budgets import DISRUPTION_BUDGET_SPEC
from syncer.rules.namespaces import NAMESPACE
from syncer.rules.network.endpoint_slices import ENDPOINT_SLICE
from syncer.rules.network.ingresses import INGRESS_SPEC, INGRESS_STATUS
from syncer.rules.network.network_policies import NETWORK_POLICY_SPEC
from syncer.rules.network.services import SERVICE_SPEC, SERVICE_STATUS
from syncer.rules.pods.ephemeral_containers import EPHEMERAL_CONTAINER
from syncer.rules.pods.pod_fields import POD_SPEC
from syncer.rules.storage.claim_status import CLAIM_STATUS
from syncer.rules.storage.claims import CLAIM_SPEC
from syncer.rules.storage.volumes import VOLUME_SPEC


class RuleTable(NamedTuple):
    """One table, with its position in the object and the schema that it must cover."""

    path: str
    """Empty for the object itself. Its head (apiVersion, kind, metadata) has its own rules."""
    schema: str
    """Name of the definition in the API's OpenAPI document."""
    table: Mapping[str, FieldRule]


_CORE_PREFIX = "io.k8s.api.core.v1."
_NETWORKING_PREFIX = "io.k8s.api.networking.v1."

DOWNWARD_TABLES: Mapping[str, tuple[RuleTable, ...]] = {
    "Namespace": (RuleTable("", f"{_CORE_PREFIX}Namespace", NAMESPACE),),
    "Pod": (
        RuleTable("spec", f"{_CORE_PREFIX}PodSpec", POD_SPEC),
        RuleTable(
            "spec.ephemeralContainers[]", f"{_CORE_PREFIX}EphemeralContainer", EPHEMERAL_CONTAINER
        ),
    ),
    "ConfigMap": (RuleTable("", f"{_CORE_PREFIX}ConfigMap", CONFIG_MAP),),
    "Secret": (RuleTable("", f"{_CORE_PREFIX}Secret", SECRET),),
    "Service": (RuleTable("spec", f"{_CORE_PREFIX}ServiceSpec", SERVICE_SPEC),),
    "PersistentVolumeClaim": (
        RuleTable("spec", f"{_CORE_PREFIX}PersistentVolumeClaimSpec", CLAIM_SPEC),
    ),
    "PersistentVolume": (RuleTable("spec", f"{_CORE_PREFIX}PersistentVolumeSpec", VOLUME_SPEC),),
    "EndpointSlice": (RuleTable("", "io.k8s.api.discovery.v1.EndpointSlice", ENDPOINT_SLICE),),
    "Ingress": (RuleTable("spec", f"{_NETWORKING_PREFIX}IngressSpec", INGRESS_SPEC),),
    "NetworkPolicy": (
        RuleTable("spec", f"{_NETWORKING_PREFIX}NetworkPolicySpec", NETWORK_POLICY_SPEC),
    ),
    "PodDisruptionBudget": (
        RuleTable("spec", "io.k8s.api.policy.v1.PodDisruptionBudgetSpec", DISRUPTION_BUDGET_SPEC),
    ),
}
"""Tables of the fields that are synced to the super cluster."""
UPWARD_TABLES: Mapping[str, tuple[RuleTable, ...]] = {
    "Service": (RuleTable("status", f"{_CORE_PREFIX}ServiceStatus", SERVICE_STATUS),),
    "PersistentVolumeClaim": (
        RuleTable("status", f"{_CORE_PREFIX}PersistentVolumeClaimStatus", CLAIM_STATUS),
    ),
    "Ingress": (RuleTable("status", f"{_NETWORKING_PREFIX}IngressStatus", INGRESS_STATUS),),
}
"""Tables of the fields that are synced back to the tenant. The statuses of other kinds are synced
back as a whole, except for fields that their modules name."""
