"""Super pod of a tenant pod, built leaf by leaf.

Pure: all outside facts are in `PodBuildContext`. Owns the order of the steps, and the fields of the
pod as a whole.

Hazard: every step must start from the walk's copy and never from the tenant's dict. Otherwise a
field without a verdict reaches the super cluster.
"""

import contextlib
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from kubeio import Object
from syncer.model import builtin_policy, object_meta
from syncer.model.field_rules import FieldWalk
from syncer.model.metadata import transparent_record
from syncer.model.references import is_reserved_name, list_ephemeral_claims, list_references
from syncer.model.rejections import (
    MALFORMED_OBJECT_ERRORS,
    RejectedError,
    RejectionProblem,
    UnschedulableError,
)
from syncer.model.unstructured import as_strings
from syncer.rules import autoscaler_annotations, container_limits, resource_claims
from syncer.rules.network.attachments import network_limits, selections
from syncer.rules.network.attachments.selections import SelectionContext
from syncer.rules.pods import (
    dns,
    environment,
    scheduling,
    security_levels,
    size_limits,
    token_specs,
)
from syncer.rules.pods.dns import DnsResolver
from syncer.rules.pods.environment import FieldRefRewriter
from syncer.rules.pods.scheduling import SchedulingContext
from tenancy import names, wellknown
from tenancy.ownership import Tenant
from tenancy.policies import BASELINE_POLICY, MetadataSpec, TenantPolicySpec

_CONTAINER_LISTS = ("initContainers", "containers")
_ALL_CONTAINER_LISTS = (*_CONTAINER_LISTS, "ephemeralContainers")
_NODE_ADDRESSES = ("status.hostIP", "status.hostIPs")
_RESERVED_NAME_TEXT = "uses a name that is reserved. Choose another"
_IMPOSSIBLE_NAME_TEXT = "is not a valid object name. Correct it"
_MAX_SHOWN_CHARACTERS = 60
_OWN_KEYS = frozenset({wellknown.ASSIGNED_CLUSTER, wellknown.TRANSPARENT_KEYS})
"""Annotations with which the syncer itself marks pods of the tenant."""
NO_LABELS: Mapping[str, str] = {}


class PodBuildContext(NamedTuple):
    """Outside facts that the builder needs."""

    tenant: Tenant
    super_namespace: str
    super_namespace_uid: str
    resolver: DnsResolver
    scheduling: SchedulingContext
    account_uid: str
    policy: TenantPolicySpec = BASELINE_POLICY
    policy_labels: Mapping[str, str] = NO_LABELS
    """Labels for the directions in which a network policy of the tenant selects the pod."""
    networks: SelectionContext | None = None
    """Additional networks. None: they are not offered."""
    device_claims: bool = False
    """Whether a SyncRule copies ResourceClaims of the tenant."""


class BuiltPod(NamedTuple):
    """A super pod, and the changes and omissions that the tenant should know of."""

    pod: Object
    adjustments: tuple[RejectionProblem, ...]


def build_super_pod(tenant_pod: Mapping[str, Any], context: PodBuildContext) -> BuiltPod:
    """Return the super pod.

    Raises RejectedError with every problem found. Raises UnplacedError if the only problem is that
    no node is left for the pod.
    """
    metadata, tenant_spec = tenant_pod["metadata"], tenant_pod["spec"]
    walk = FieldWalk()
    table = security_levels.get_table(context.policy, device_claims=context.device_claims)
    spec = walk.walk_fields(tenant_spec, table, "spec")
    if walk.problems:
        raise RejectedError(*walk.problems)  # later steps would fail on malformed fields
    large = size_limits.check_written_size(spec)
    if large:
        raise RejectedError(*large)
    problems = [
        *find_reference_problems(tenant_spec),
        *_find_gate_problems(tenant_spec),
        *find_mount_problems(tenant_spec, spec),
        *find_address_problems(spec, context.policy),
        *_find_owner_problems(metadata, context.policy),
        *token_specs.find_problems(spec),
        *resource_claims.find_problems(spec),
        *resource_claims.find_class_requests(spec),
        *container_limits.find_problems(spec, context.policy),
        *security_levels.write_user_namespace(spec, context.policy),
        *size_limits.check_memory_volumes(spec, context.policy.quota),
    ]
    networks, refused = _translate_networks(tenant_pod, context)
    problems += refused
    controller = object_meta.get_controller(metadata)
    controller_kind = str((controller or {}).get("kind", ""))
    refused, notices, choice = scheduling.rewrite_scheduling(
        tenant_spec,
        spec,
        metadata.get("labels") or {},
        context.scheduling,
        controller_kind=controller_kind,
        uid=metadata["uid"],
        passing=context.policy.metadata,
    )
    problems += refused
    if problems:
        raise RejectedError(*problems)
    if choice is not None and choice.problem:
        raise UnschedulableError(choice.problem)
    notices += _find_reserved_keys(metadata)
    if context.networks is None:
        notices += selections.find_left_out(metadata.get("annotations") or {})
    notices += _find_dotted_annotations(metadata, context.policy.metadata)
    notices += autoscaler_annotations.find_left_out(metadata, context.policy)
    notices += container_limits.write_limits(spec, context.policy)
    mirrors = FieldRefRewriter(metadata, context.policy.metadata)
    for kind in _CONTAINER_LISTS:
        write_containers(spec.get(kind) or (), tenant_spec, mirrors)
    _write_volumes(spec, tenant_pod, context, mirrors)
    notices += _write_spec(spec, tenant_pod, context)
    resource_claims.write_claims(spec, tenant_pod)
    if controller is not None and not spec.get("topologySpreadConstraints"):
        defaults = scheduling.build_default_spread(controller_kind, controller["uid"])
        if defaults:
            spec["topologySpreadConstraints"] = defaults
    super_metadata = build_metadata(
        tenant_pod,
        context.tenant,
        context.super_namespace,
        mirrors,
        policy=context.policy,
        policy_labels=context.policy_labels,
        networks=networks,
    )
    notices += object_meta.find_left_out("Pod", metadata, super_metadata, context.policy.metadata)
    if choice is not None:
        super_metadata["annotations"][wellknown.NODE_CHOICE] = choice.digest
    if controller is not None:
        super_metadata["ownerReferences"] = [_build_owner_reference(context)]
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": super_metadata, "spec": spec}
    return BuiltPod(pod, tuple(notices))


def build_metadata(
    tenant_pod: Mapping[str, Any],
    tenant: Tenant,
    super_namespace: str,
    mirrors: FieldRefRewriter | None = None,
    *,
    containers: Sequence[str] | None = None,
    policy: TenantPolicySpec = BASELINE_POLICY,
    policy_labels: Mapping[str, str] = NO_LABELS,
    networks: Mapping[str, str] = NO_LABELS,
) -> Object:
    """Return the metadata that the super pod should have now. It applies to running pods as well.

    `containers` are the names of containers that the node agent may serve. The default is the
    containers of the template. `policy_labels` are those of `PodBuildContext`. `networks` are the
    translated annotations for additional networks.
    """
    metadata, passing = tenant_pod["metadata"], policy.metadata
    controller = object_meta.get_controller(metadata)
    if mirrors is None:
        mirrors = build_field_mirrors(tenant_pod, passing)
    if containers is None:
        containers = list_container_names(tenant_pod["spec"])
    return object_meta.build_super_metadata(
        "Pod",
        tenant,
        metadata,
        super_namespace=super_namespace,
        passing=passing,
        extra_labels={**_build_controller_labels(controller), **policy_labels},
        extra_annotations={
            **mirrors.needed_annotations,
            wellknown.CONTAINERS: ",".join(containers),
        },
        decided_annotations=autoscaler_annotations.build_annotations(metadata, policy),
        referenced=mirrors.referenced_annotations,
        rewritten=networks,
    )


def _translate_networks(
    tenant_pod: Mapping[str, Any], context: PodBuildContext
) -> tuple[Mapping[str, str], list[RejectionProblem]]:
    """Return the annotations for additional networks, and what is wrong with the tenant's."""
    metadata, spec = tenant_pod["metadata"], tenant_pod["spec"]
    offered = context.networks
    if offered is None or spec.get("hostNetwork"):
        return NO_LABELS, []
    problems = list(network_limits.find_pod_problems(spec)) if offered.primary else []
    try:
        found = selections.translate_annotations(
            metadata.get("annotations") or {}, metadata["namespace"], offered
        )
    except RejectedError as refused:
        return NO_LABELS, [*problems, *refused.problems]
    return found, problems


def _build_controller_labels(controller: Mapping[str, Any] | None) -> dict[str, str]:
    if controller is None:
        return {}
    return {wellknown.CONTROLLER: object_meta.build_controller_label(str(controller["uid"]))}


def build_field_mirrors(tenant_pod: Mapping[str, Any], passing: MetadataSpec) -> FieldRefRewriter:
    """Return the mirror annotations that a pod's field references need at present."""
    mirrors = FieldRefRewriter(tenant_pod["metadata"], passing)
    spec = tenant_pod["spec"]
    for kind in _CONTAINER_LISTS:
        for container in spec.get(kind) or ():
            environment.build_environment(container, account="", mirrors=mirrors)
    with contextlib.suppress(
        *MALFORMED_OBJECT_ERRORS
    ):  # malformed ones are refused when they are added
        for container in spec.get("ephemeralContainers") or ():
            environment.build_environment(container, account="", mirrors=mirrors)
    for volume in spec.get("volumes") or ():
        for part in [volume, *((volume.get("projected") or {}).get("sources") or ())]:
            environment.rewrite_downward_items(
                (part.get("downwardAPI") or {}).get("items") or (), mirrors
            )
    return mirrors


def list_container_names(spec: Mapping[str, Any]) -> list[str]:
    """Return the containers in the tenant's pod template, including init containers."""
    return [container["name"] for kind in _CONTAINER_LISTS for container in spec.get(kind) or ()]


def _build_owner_reference(context: PodBuildContext) -> Object:
    """Return a controller reference.

    Without a controller, `kubectl drain` would refuse the pod. The owner must exist, or the garbage
    collector would delete the pod.
    """
    return {
        "apiVersion": "v1",
        "kind": "Namespace",
        "name": context.super_namespace,
        "uid": context.super_namespace_uid,
        "controller": True,
        "blockOwnerDeletion": False,
    }


def _write_spec(
    spec: dict[str, Any], tenant_pod: Mapping[str, Any], facts: PodBuildContext
) -> list[RejectionProblem]:
    metadata, tenant_spec = tenant_pod["metadata"], tenant_pod["spec"]
    namespace, domain = metadata["namespace"], facts.resolver.domain
    spec.update(dns.build_dns_config(tenant_spec, namespace, facts.resolver))
    spec.update(dns.build_host_name(tenant_spec, metadata["name"], namespace, domain))
    spec["serviceAccountName"] = names.WORKLOAD_ACCOUNT
    spec["automountServiceAccountToken"] = False
    spec["enableServiceLinks"] = False
    notices: list[RejectionProblem] = []
    image = facts.policy.pods.hosts_file.image
    if image and dns.needs_hosts_file(tenant_spec):
        notices += dns.write_hosts_file(
            spec,
            image=image,
            super_namespace=facts.super_namespace,
            namespace=namespace,
            domain=domain,
        )
    grace = tenant_spec.get("terminationGracePeriodSeconds")
    if not isinstance(grace, int):
        return notices
    spec["terminationGracePeriodSeconds"] = min(grace, builtin_policy.MAX_GRACE_SECONDS)
    if grace <= builtin_policy.MAX_GRACE_SECONDS:
        return notices
    text = (
        f"is shortened to {builtin_policy.MAX_GRACE_SECONDS} seconds, the longest that is offered"
    )
    return [*notices, RejectionProblem("grace", "spec.terminationGracePeriodSeconds", text)]


def write_containers(
    containers: Sequence[dict[str, Any]],
    tenant_spec: Mapping[str, Any],
    mirrors: FieldRefRewriter,
) -> None:
    """Write the environment of containers and the names that they refer to, in place."""
    account = tenant_spec.get("serviceAccountName") or "default"
    links = environment.has_service_links(tenant_spec)
    for container in containers:
        container["env"] = environment.build_environment(
            container, account=account, mirrors=mirrors
        )
        for variable in container["env"]:
            _rename_root_ca((variable.get("valueFrom") or {}).get("configMapKeyRef"))
        for source in container.get("envFrom") or ():
            _rename_root_ca(source.get("configMapRef"))
        container["envFrom"] = environment.build_sources(container, links=links)


def _write_volumes(
    spec: dict[str, Any],
    tenant_pod: Mapping[str, Any],
    facts: PodBuildContext,
    mirrors: FieldRefRewriter,
) -> None:
    tokens = token_specs.list_token_specs(tenant_pod, facts.account_uid)
    claims = list_ephemeral_claims(tenant_pod)
    for volume in spec.get("volumes") or ():
        if volume.get("name") in claims:
            volume["persistentVolumeClaim"] = {"claimName": claims[volume["name"]]}
        _rename_root_ca(volume.get("configMap"))
        _rewrite_downward(volume, mirrors)
        projected = volume.get("projected")
        if projected is None:
            continue
        for source in projected.get("sources") or ():
            _rename_root_ca(source.get("configMap"))
            _rewrite_downward(source, mirrors)
            token = source.pop("serviceAccountToken", None)
            if token is not None:
                name = tokens[token_specs.parse_source(token)].secret_name
                item = {"key": token_specs.DATA_KEY, "path": token["path"]}
                if "user" in token:
                    item["user"] = token["user"]
                source["secret"] = {"name": name, "items": [item]}


def _rewrite_downward(part: dict[str, Any], mirrors: FieldRefRewriter) -> None:
    downward = part.get("downwardAPI")
    if downward is not None and downward.get("items"):
        downward["items"] = environment.rewrite_downward_items(downward["items"], mirrors)


def _rename_root_ca(ref: dict[str, Any] | None) -> None:
    """Replace the name of the tenant's root CA.

    The super cluster publishes its own root CA under the usual name.
    """
    if ref is not None and ref.get("name") == names.TENANT_ROOT_CA:
        ref["name"] = names.SUPER_ROOT_CA


def find_reference_problems(
    tenant_spec: Mapping[str, Any], path: str = "spec"
) -> list[RejectionProblem]:
    """Return a problem for each reference to a reserved or invalid name.

    A reserved name could refer to the token Secret of another account. Kubernetes allows a pod to
    name `../x`, and the syncer uses the name in a lookup.
    """
    refs = sorted(list_references(tenant_spec))
    problems = size_limits.check_reference_count(len(refs))
    for ref in refs:
        if is_reserved_name(ref.kind, ref.name):
            where = f"{path}, a reference to {ref.kind} {ref.name},"
            problems.append(RejectionProblem("reserved-name", where, _RESERVED_NAME_TEXT))
        elif not names.is_dns_subdomain(ref.name):
            where = f"{path}, a reference to {ref.kind} {ref.name[:_MAX_SHOWN_CHARACTERS]!r},"
            problems.append(RejectionProblem("reference-name", where, _IMPOSSIBLE_NAME_TEXT))
    return problems


def _find_reserved_keys(metadata: Mapping[str, Any]) -> list[RejectionProblem]:
    """Return a notice for each annotation that only the syncer may set, because it is left out.

    A reserved label gets a translated key, as each label that is not synced under its own.
    """
    text = "is reserved and left out. Remove it"
    return [
        RejectionProblem("reserved-key", f"metadata.annotations[{key}]", text)
        for key in sorted(metadata.get("annotations") or {})
        if wellknown.is_reserved_key(key) and key not in _OWN_KEYS
    ]


def _find_dotted_annotations(
    metadata: Mapping[str, Any], passing: MetadataSpec
) -> list[RejectionProblem]:
    """Return the notice of the dotted annotations without a prefix that are left out.

    Prefixed annotations of pods are left out without a notice, because nearly every pod has some.
    """
    own = transparent_record.strip_super_keys(metadata)
    dotted = {
        key: value
        for key, value in (own.get("annotations") or {}).items()
        if "/" not in key and not object_meta.is_plain_key(key)
    }
    found = object_meta.find_left_out_annotations("Pod", dotted, passing)
    return [found] if found is not None else []


def _find_owner_problems(
    metadata: Mapping[str, Any], policy: TenantPolicySpec
) -> list[RejectionProblem]:
    controller = object_meta.get_controller(metadata) or {}
    if policy.daemon_sets == "Refuse" and controller.get("kind") == "DaemonSet":
        text = "belongs to a DaemonSet, and DaemonSets are not offered. Use a Deployment"
        return [RejectionProblem("daemon-set", "metadata.ownerReferences", text)]
    return []


def find_address_problems(
    spec: Mapping[str, Any], policy: TenantPolicySpec
) -> list[RejectionProblem]:
    """Return a problem for each variable with the node's address, if the policy hides addresses."""
    if policy.nodes.view != "Minimal":
        return []
    text = "would show the node's address, which is hidden here. Leave it out"
    return [
        RejectionProblem("node-view", f"spec.{kind}[{container.get('name', '')}].env", text)
        for kind, containers in spec.items()
        if kind in _ALL_CONTAINER_LISTS
        for container in containers
        for variable in container.get("env") or ()
        if _get_field_path(variable) in _NODE_ADDRESSES
    ]


def _get_field_path(variable: Mapping[str, Any]) -> str:
    return str(((variable.get("valueFrom") or {}).get("fieldRef") or {}).get("fieldPath"))


def find_mount_problems(
    tenant_spec: Mapping[str, Any], spec: Mapping[str, Any]
) -> list[RejectionProblem]:
    """Return a problem for each mount and file of a volume that the tenant did not write.

    A webhook of the super cluster may add such a volume.
    """
    own = frozenset(as_strings([volume.get("name") for volume in tenant_spec.get("volumes") or ()]))
    return [
        RejectionProblem(
            "volume-mount",
            f"spec.{kind}[{container.get('name', '')}], the {use} {name},",
            "does not name a volume of the pod. Add the volume",
        )
        for kind, containers in spec.items()
        if kind in _ALL_CONTAINER_LISTS
        for container in containers
        for use, name in _list_volume_uses(container)
        if name not in own
    ]


def _list_volume_uses(container: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """Return the uses of volumes by a container, each in words and with the volume's name."""
    mounts = [*(container.get("volumeMounts") or ()), *(container.get("volumeDevices") or ())]
    sources = [variable.get("valueFrom") or {} for variable in container.get("env") or ()]
    files = [source["fileKeyRef"] for source in sources if source.get("fileKeyRef")]
    return [
        *(("mount of", mount.get("name", "")) for mount in mounts),
        *(("variable from a file of", file.get("volumeName", "")) for file in files),
    ]


def _find_gate_problems(tenant_spec: Mapping[str, Any]) -> list[RejectionProblem]:
    gates: Sequence[Any] = tenant_spec.get("readinessGates") or ()
    problems = []
    if len(gates) > builtin_policy.MAX_READINESS_GATES:
        text = (
            f"has {len(gates)} gates, and the limit is {builtin_policy.MAX_READINESS_GATES}. Use"
            " fewer"
        )
        problems.append(RejectionProblem("readiness-gates", "spec.readinessGates", text))
    for index, gate in enumerate(gates):
        kind = gate.get("conditionType", "") if isinstance(gate, dict) else ""
        if not wellknown.get_key_domain(kind) or wellknown.is_reserved_key(kind):
            text = f"names {kind!r}. Use a condition with your own domain"
            problems.append(
                RejectionProblem("readiness-gates", f"spec.readinessGates[{index}]", text)
            )
    return problems
