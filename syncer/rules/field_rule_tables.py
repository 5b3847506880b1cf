"""Registry of the verdict tables, by kind and part of the object.

Pure data. The census compares every table with the schema that an API server publishes. The user's
page `docs/kinds.md` is written from them.

Hazard: every table in use must be listed here. Otherwise it is compared with no schema, so a test
fails for a kind of `syncer.rules.registry` without one.
"""

from collections.abc import Mapping
from typing import NamedTuple

from syncer.model.field_rules import Verdict
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


class Part(NamedTuple):
    """One table, with its position in the object and the schema that it must cover."""

    path: str
    """Empty for the object itself. Its head (apiVersion, kind, metadata) has its own rules."""
    schema: str
    """Name of the definition in the API's OpenAPI document."""
    table: Mapping[str, Verdict]


_CORE = "io.k8s.api.core.v1."
_NETWORKING = "io.k8s.api.networking.v1."

TABLES: Mapping[str, tuple[Part, ...]] = {
    "Namespace": (Part("", f"{_CORE}Namespace", NAMESPACE),),
    "Pod": (
        Part("spec", f"{_CORE}PodSpec", POD_SPEC),
        Part("spec.ephemeralContainers[]", f"{_CORE}EphemeralContainer", EPHEMERAL_CONTAINER),
    ),
    "ConfigMap": (Part("", f"{_CORE}ConfigMap", CONFIG_MAP),),
    "Secret": (Part("", f"{_CORE}Secret", SECRET),),
    "Service": (Part("spec", f"{_CORE}ServiceSpec", SERVICE_SPEC),),
    "PersistentVolumeClaim": (Part("spec", f"{_CORE}PersistentVolumeClaimSpec", CLAIM_SPEC),),
    "PersistentVolume": (Part("spec", f"{_CORE}PersistentVolumeSpec", VOLUME_SPEC),),
    "EndpointSlice": (Part("", "io.k8s.api.discovery.v1.EndpointSlice", ENDPOINT_SLICE),),
    "Ingress": (Part("spec", f"{_NETWORKING}IngressSpec", INGRESS_SPEC),),
    "NetworkPolicy": (Part("spec", f"{_NETWORKING}NetworkPolicySpec", NETWORK_POLICY_SPEC),),
    "PodDisruptionBudget": (
        Part("spec", "io.k8s.api.policy.v1.PodDisruptionBudgetSpec", DISRUPTION_BUDGET_SPEC),
    ),
}
"""Tables of the fields that are synced to the super cluster."""
UPWARD: Mapping[str, tuple[Part, ...]] = {
    "Service": (Part("status", f"{_CORE}ServiceStatus", SERVICE_STATUS),),
    "PersistentVolumeClaim": (Part("status", f"{_CORE}PersistentVolumeClaimStatus", CLAIM_STATUS),),
    "Ingress": (Part("status", f"{_NETWORKING}IngressStatus", INGRESS_STATUS),),
}
"""Tables of the fields that are synced back to the tenant. The statuses of other kinds are synced
back as a whole, except for fields that their modules name."""
