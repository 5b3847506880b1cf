"""Which verdict table decides on which part of which kind: the one place where a table registers.

Pure data. The census holds every table against the schema that an API server publishes, and the
user's page `docs/kinds.md` is written from them. Hazard: a table that is used and not named here is
held against nothing, so a kind of `syncer.rules.registry` without one fails a test.
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
    """One table: where in the object it begins, and the schema that it has to cover."""

    path: str
    """Empty for the object itself, whose head (apiVersion, kind, metadata) has rules of its own."""
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
"""What goes down."""
UPWARD: Mapping[str, tuple[Part, ...]] = {
    "Service": (Part("status", f"{_CORE}ServiceStatus", SERVICE_STATUS),),
    "PersistentVolumeClaim": (Part("status", f"{_CORE}PersistentVolumeClaimStatus", CLAIM_STATUS),),
    "Ingress": (Part("status", f"{_NETWORKING}IngressStatus", INGRESS_STATUS),),
}
"""What comes up by a table; the statuses of other kinds come up whole, less what is named there."""
