"""Which verdict table decides on which part of which kind: the one place where a table registers.

Pure data. The census holds every table against the schema that an API server publishes, and the
user's page `docs/kinds.md` is written from them. Hazard: a table that is used and not named here is
held against nothing, so a kind of `syncer.kinds` without one fails a test.
"""

from collections.abc import Mapping
from typing import NamedTuple

from syncer.leaves import Verdict
from syncer.special.claim_status import CLAIM_STATUS
from syncer.special.claims import CLAIM_SPEC
from syncer.special.configuration import CONFIG_MAP, SECRET
from syncer.special.disruption_budgets import DISRUPTION_BUDGET_SPEC
from syncer.special.endpoint_slices import ENDPOINT_SLICE
from syncer.special.ingresses import INGRESS_SPEC, INGRESS_STATUS
from syncer.special.namespaces import NAMESPACE
from syncer.special.network_policies import NETWORK_POLICY_SPEC
from syncer.special.pod_ephemeral import EPHEMERAL_CONTAINER
from syncer.special.pod_spec import POD_SPEC
from syncer.special.services import SERVICE_SPEC, SERVICE_STATUS
from syncer.special.volumes import VOLUME_SPEC


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
