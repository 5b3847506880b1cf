"""The layer that holds a pod, as `kubectl vc why` decides it, for the page of the pod.

Owns the choice of the clients. Must not decide anything itself.
"""

from dataclasses import dataclass, replace
from datetime import UTC, datetime

from kubectl_vc.diagnosis import object_collection
from kubectl_vc.diagnosis.layer_table import Diagnosis, diagnose
from kubectl_vc.diagnosis.layers import LAYERS
from kubectl_vc.diagnosis.object_facts import ObjectFacts
from kubectl_vc.diagnosis.object_kinds import ObjectName
from kubectl_vc.output.cli_errors import describe_server_problem
from kubectl_vc.ui.tenant_rows import State, format_age
from kubeio import Object, errors
from kubeio.api.client import Client
from tenancy.ownership import Tenant
from tenancy.resources import PODS


@dataclass(frozen=True, slots=True)
class PodDiagnosis:
    """The answer of `kubectl vc why` about one pod."""

    held_by: State
    since: str
    reason: str
    next_command: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DiagnosedPod:
    """A pod, and the clients that may read about it."""

    super_client: Client
    tenant_client: Client | None
    """None if the user may not read the tenant's API, or it does not answer."""
    tenant_problem: str
    """Reason why the tenant's API does not answer. Empty if it does, or if it was not asked."""
    virtual_cluster: Object
    tenant: Tenant
    manager_namespace: str
    namespace: str
    name: str


async def diagnose_pod(pod: DiagnosedPod) -> PodDiagnosis:
    """Return the layer that holds a pod. Raises KubeError."""
    facts = await _collect_tenant_side(pod)
    super_facts = await object_collection.collect_super_facts(
        pod.super_client,
        pod.virtual_cluster,
        pod.tenant,
        facts,
        PODS,
        manager_namespace=pod.manager_namespace,
    )
    return build_diagnosis(facts, diagnose(replace(facts, super_facts=super_facts), LAYERS))


async def _collect_tenant_side(pod: DiagnosedPod) -> ObjectFacts:
    unread = ObjectFacts(
        kind=PODS.kind,
        name=pod.name,
        namespace=pod.namespace,
        now=datetime.now(UTC),
        tenant_problem=pod.tenant_problem,
        is_tenant_known=False,
    )
    if pod.tenant_client is None:
        return unread
    try:
        return await object_collection.collect_tenant_facts(
            pod.tenant_client, ObjectName(PODS, pod.name), pod.namespace
        )
    except (errors.Unavailable, errors.Unauthorized) as problem:
        return replace(unread, tenant_problem=describe_server_problem(problem))


def build_diagnosis(facts: ObjectFacts, found: Diagnosis) -> PodDiagnosis:
    """Return the answer for the page. Pure."""
    finding = found.finding
    since = f"{format_age(finding.since, facts.now)} ago" if finding.since else ""
    held = State(found.layer, "bad") if found.is_held else State("nothing", "good")
    return PodDiagnosis(held, since, finding.sentence, finding.next_command)
