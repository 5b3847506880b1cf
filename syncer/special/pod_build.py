"""The super pod of a tenant pod, built leaf by leaf.

Pure: what it needs to know of the world comes in as `PodFacts`. Owns the order of the aspects and
what concerns the pod as a whole. Hazard: nothing of the tenant's object may arrive that no verdict
let through, so every step starts from the walk's copy and never from the tenant's dict.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kubeio import Object
from syncer import policy, translate
from syncer.leaves import Walk
from syncer.references import is_reserved_name, refs_of
from syncer.rejections import Problem, RejectedError
from syncer.special import pod_dns, pod_env, pod_scheduling, token_specs
from syncer.special.pod_dns import Resolver
from syncer.special.pod_env import Mirrors, Variables
from syncer.special.pod_scheduling import Placement
from syncer.special.pod_spec import POD_SPEC
from tenancy import marks, names
from tenancy.ownership import Tenant

_CONTAINERS = ("initContainers", "containers")
_RESERVED = "uses a name that is reserved; choose another"


@dataclass(frozen=True, slots=True, kw_only=True)
class PodFacts:
    """What the builder knows of the world."""

    tenant: Tenant
    super_namespace: str
    super_namespace_uid: str
    resolver: Resolver
    placement: Placement
    variables: Variables
    """Service variables of the pod's namespace."""
    account_uid: str
    provided: Callable[[Mapping[str, Any]], Collection[str]]
    """Variables that an envFrom source of a container brings."""


@dataclass(frozen=True, slots=True)
class Built:
    """A super pod, and what was changed or left out that the tenant should know."""

    pod: Object
    notices: tuple[Problem, ...]


def build(tenant_pod: Mapping[str, Any], facts: PodFacts) -> Built:
    """Return the super pod. Raises RejectedError with every problem found."""
    metadata, tenant_spec = tenant_pod["metadata"], tenant_pod["spec"]
    walk = Walk()
    spec = walk.fields(tenant_spec, POD_SPEC, "spec")
    if walk.problems:
        raise RejectedError(*walk.problems)  # the rest would stumble over what is malformed
    problems = [*_reserved_names(tenant_spec), *_gate_problems(tenant_spec)]
    refused, notices = pod_scheduling.scheduling(
        tenant_spec, spec, metadata.get("labels") or {}, facts.placement
    )
    problems += refused
    if problems:
        raise RejectedError(*problems)
    mirrors = Mirrors(metadata)
    _write_containers(spec, tenant_spec, facts, mirrors)
    _write_volumes(spec, tenant_pod, facts, mirrors)
    notices += _write_whole(spec, tenant_pod, facts)
    controller = translate.controller_of(metadata)
    if controller is not None and not spec.get("topologySpreadConstraints"):
        defaults = pod_scheduling.spread_defaults(controller.get("kind", ""), controller["uid"])
        if defaults:
            spec["topologySpreadConstraints"] = defaults
    super_metadata = build_metadata(tenant_pod, facts.tenant, facts.super_namespace, mirrors)
    if controller is not None:
        super_metadata["ownerReferences"] = [_owner(facts)]
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": super_metadata, "spec": spec}
    return Built(pod, tuple(notices))


def build_metadata(
    tenant_pod: Mapping[str, Any],
    tenant: Tenant,
    super_namespace: str,
    mirrors: Mirrors | None = None,
) -> Object:
    """Return the metadata that the super pod should have now; for running pods, too."""
    metadata = tenant_pod["metadata"]
    controller = translate.controller_of(metadata)
    if mirrors is None:
        mirrors = mirrors_of(tenant_pod)
    return translate.super_metadata(
        "Pod",
        tenant,
        metadata,
        super_namespace=super_namespace,
        extra_labels={marks.CONTROLLER: controller["uid"]} if controller else None,
        extra_annotations={
            **mirrors.needed,
            marks.CONTAINERS: ",".join(container_names(tenant_pod["spec"])),
        },
    )


def mirrors_of(tenant_pod: Mapping[str, Any]) -> Mirrors:
    """Return the mirror annotations that a pod's field references need, as they are now."""
    mirrors = Mirrors(tenant_pod["metadata"])
    spec = tenant_pod["spec"]
    for kind in _CONTAINERS:
        for container in spec.get(kind) or ():
            pod_env.environment(container, {}, (), account="", mirrors=mirrors)
    for volume in spec.get("volumes") or ():
        for part in [volume, *((volume.get("projected") or {}).get("sources") or ())]:
            pod_env.downward_items((part.get("downwardAPI") or {}).get("items") or (), mirrors)
    return mirrors


def container_names(spec: Mapping[str, Any]) -> list[str]:
    """Return the containers that the tenant wrote, init and ephemeral ones included."""
    kinds = (*_CONTAINERS, "ephemeralContainers")
    return [container["name"] for kind in kinds for container in spec.get(kind) or ()]


def _owner(facts: PodFacts) -> Object:
    """Return a controller reference: without one, no drain and no autoscaler moves the pod."""
    return {
        "apiVersion": "v1",
        "kind": "Namespace",
        "name": facts.super_namespace,
        "uid": facts.super_namespace_uid,
        "controller": True,
        "blockOwnerDeletion": False,
    }


def _write_whole(
    spec: dict[str, Any], tenant_pod: Mapping[str, Any], facts: PodFacts
) -> list[Problem]:
    metadata, tenant_spec = tenant_pod["metadata"], tenant_pod["spec"]
    namespace, domain = metadata["namespace"], facts.resolver.domain
    spec.update(pod_dns.resolution(tenant_spec, namespace, facts.resolver))
    spec.update(pod_dns.host_name(tenant_spec, metadata["name"], namespace, domain))
    spec["serviceAccountName"] = names.WORKLOAD_ACCOUNT
    spec["automountServiceAccountToken"] = False
    spec["enableServiceLinks"] = False
    grace = tenant_spec.get("terminationGracePeriodSeconds")
    if not isinstance(grace, int):
        return []
    spec["terminationGracePeriodSeconds"] = min(grace, policy.MAX_GRACE_SECONDS)
    if grace <= policy.MAX_GRACE_SECONDS:
        return []
    text = f"is shortened to {policy.MAX_GRACE_SECONDS} seconds, the longest that is offered"
    return [Problem("grace", "spec.terminationGracePeriodSeconds", text)]


def _write_containers(
    spec: dict[str, Any],
    tenant_spec: Mapping[str, Any],
    facts: PodFacts,
    mirrors: Mirrors,
) -> None:
    account = tenant_spec.get("serviceAccountName") or "default"
    for kind in _CONTAINERS:
        for container in spec.get(kind) or ():
            provided = facts.provided(container) if container.get("envFrom") else ()
            container["env"] = pod_env.environment(
                container, facts.variables, provided, account=account, mirrors=mirrors
            )
            for variable in container["env"]:
                _rename((variable.get("valueFrom") or {}).get("configMapKeyRef"))
            for source in container.get("envFrom") or ():
                _rename(source.get("configMapRef"))


def _write_volumes(
    spec: dict[str, Any], tenant_pod: Mapping[str, Any], facts: PodFacts, mirrors: Mirrors
) -> None:
    tokens = token_specs.specs_of(tenant_pod, facts.account_uid)
    for volume in spec.get("volumes") or ():
        _rename(volume.get("configMap"))
        _rewrite_downward(volume, mirrors)
        projected = volume.get("projected")
        if projected is None:
            continue
        for source in projected.get("sources") or ():
            _rename(source.get("configMap"))
            _rewrite_downward(source, mirrors)
            token = source.pop("serviceAccountToken", None)
            if token is not None:
                name = tokens[token_specs.wanted_of(token)].secret_name
                items = [{"key": token_specs.DATA_KEY, "path": token["path"]}]
                source["secret"] = {"name": name, "items": items}


def _rewrite_downward(part: dict[str, Any], mirrors: Mirrors) -> None:
    downward = part.get("downwardAPI")
    if downward is not None and downward.get("items"):
        downward["items"] = pod_env.downward_items(downward["items"], mirrors)


def _rename(ref: dict[str, Any] | None) -> None:
    """Point at the tenant's root CA: the super cluster publishes its own under the usual name."""
    if ref is not None and ref.get("name") == names.TENANT_ROOT_CA:
        ref["name"] = names.SUPER_ROOT_CA


def _reserved_names(tenant_spec: Mapping[str, Any]) -> list[Problem]:
    """Refuse references to names of ours: a token Secret of another account would be open."""
    return [
        Problem("reserved-name", f"spec, a reference to {ref.kind} {ref.name},", _RESERVED)
        for ref in sorted(refs_of(tenant_spec))
        if is_reserved_name(ref.kind, ref.name)
    ]


def _gate_problems(tenant_spec: Mapping[str, Any]) -> list[Problem]:
    gates: Sequence[Any] = tenant_spec.get("readinessGates") or ()
    problems = []
    if len(gates) > policy.MAX_READINESS_GATES:
        text = f"has {len(gates)} gates; {policy.MAX_READINESS_GATES} are offered"
        problems.append(Problem("readiness-gates", "spec.readinessGates", text))
    for index, gate in enumerate(gates):
        kind = gate.get("conditionType", "") if isinstance(gate, dict) else ""
        if not marks.key_domain(kind) or marks.is_reserved(kind):
            text = f"names {kind!r}; use a condition of a domain of your own"
            problems.append(Problem("readiness-gates", f"spec.readinessGates[{index}]", text))
    return problems
