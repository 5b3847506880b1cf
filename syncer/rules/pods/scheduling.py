"""Scheduling fields of a super pod: selectors, affinity, spreading, tolerations and priority.

Pure. Owns the rewriting of every term that selects pods, so that none selects pods of another
tenant. `node_selection` rewrites the terms that select nodes. Must not know containers.

Hazard: every affinity term must have the tenant's label and no namespace selector. Otherwise it
selects pods or namespaces of other tenants.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, NamedTuple

from syncer.model import builtin_policy, label_selectors, object_meta
from syncer.model.builtin_policy import PREFERRED as _PREFERRED
from syncer.model.builtin_policy import REQUIRED as _REQUIRED
from syncer.model.rejections import RejectionProblem
from syncer.rules.nodes import node_pool
from syncer.rules.nodes.tenant_node_changes import NO_CHANGES, TenantNodeChanges
from syncer.rules.pods import node_selection, size_limits
from syncer.rules.pods.node_selection import NodeSelection
from tenancy import wellknown
from tenancy.policies import BASELINE_POLICY, MetadataSpec, NodesSpec, NodeView

Json = Any
NODE_NAME_RULE = "node-name"
"""Rule: a pod names a node that the tenant does not have. The tenant may get the node later."""
_GROUP_FIELDS = ("schedulingGroup", "workloadRef")
_EMPTY_NAMESPACE_PLACEHOLDER = "no-such-namespace"
"""Namespace for an empty selection. Pods in such a namespace never have a tenant's label."""


def _shows_nothing(_: str, __: str) -> bool:
    return False


class SchedulingContext(NamedTuple):
    """Facts of the tenant that the rewriting needs."""

    vc_uid: str
    namespace: str
    super_namespace: Callable[[str], str]
    namespaces: Mapping[str, Mapping[str, str]]
    """Labels of each tenant namespace."""
    nodes: Collection[str]
    """Virtual nodes of the tenant."""
    node_view: NodeView = "Standard"
    tenant_changes: TenantNodeChanges = NO_CHANGES
    """Changes of the tenant to its nodes."""
    is_class_shown: Callable[[str, str], bool] = _shows_nothing
    """Return whether the policy shows a class, by kind and name."""
    pool: NodesSpec = BASELINE_POLICY.nodes
    """Node pool of the tenant, part of its policy."""
    runtime_class: str = ""
    """RuntimeClass that the policy forces. Empty: none."""

    def hides_label(self, key: str) -> bool:
        """Return whether the tenant's nodes hide a label."""
        return not builtin_policy.is_visible_node_label(key, self.node_view)


class SchedulingResult(NamedTuple):
    """Result of the rewriting."""

    rejections: list[RejectionProblem]
    adjustments: list[RejectionProblem]
    node_selection: NodeSelection | None
    """Nodes that the tenant's own changes leave. None if the pod's own requirements apply."""


def rewrite_scheduling(
    tenant_spec: Mapping[str, Any],
    spec: dict[str, Any],
    labels: Mapping[str, str],
    placement: SchedulingContext,
    *,
    controller_kind: str,
    uid: str,
    passing: MetadataSpec = BASELINE_POLICY.metadata,
) -> SchedulingResult:
    """Rewrite `spec` in place. Return the refusals, the omissions and the choice of nodes.

    `uid` is the UID of the tenant pod. `passing` is the part of the policy that decides which
    labels keep their keys.
    """
    refused = _find_node_problems(spec, tenant_spec, placement)
    refused += node_pool.find_problems(tenant_spec, placement.pool)
    choice = None
    if not refused:
        choice = node_selection.select_nodes(
            tenant_spec,
            placement.tenant_changes,
            placement.node_view,
            uid,
            pool_keys=placement.pool.selector.keys(),
        )
    if choice is not None:
        _write_node_selection(spec, choice)
    refused += _write_classes(spec, tenant_spec, placement)
    affinity = spec.get("affinity") or {}
    for field in ("podAffinity", "podAntiAffinity"):
        terms, path = affinity.get(field) or {}, f"spec.affinity.{field}"
        refused += _rewrite_terms(terms, path, placement, passing)
    for constraint in spec.get("topologySpreadConstraints") or ():
        keys = constraint.pop("matchLabelKeys", None) or ()
        _apply_label_keys(constraint.get("labelSelector"), keys, "In", labels)
        _translate_selector(constraint, passing)
    tolerations = spec.pop("tolerations", None) or ()
    pool_keys = node_pool.list_tolerated_keys(placement.pool)
    kept, left_out = filter_tolerations(
        tolerations, controller_kind, own=pool_keys | placement.tenant_changes.taint_keys
    )
    left_out += _find_group_problems(tenant_spec)
    left_out += _find_responder_problems(tenant_spec)
    if kept:
        spec["tolerations"] = kept
    node_pool.write_pool(spec, placement.pool)
    if node := tenant_spec.get("nodeName"):
        _require_node(spec, node)
    return SchedulingResult(refused, left_out, choice)


def _write_node_selection(spec: dict[str, Any], choice: NodeSelection) -> None:
    affinity = dict(spec.get("affinity") or {})
    nodes: dict[str, Json] = {}
    if choice.required is not None:
        nodes[_REQUIRED] = {"nodeSelectorTerms": list(choice.required)}
    if choice.preferred:
        nodes[_PREFERRED] = list(choice.preferred)
    _set_field(affinity, "nodeAffinity", nodes)
    _set_field(spec, "affinity", affinity)
    _set_field(spec, "nodeSelector", dict(choice.selector))


def _set_field(fields: dict[str, Any], field: str, value: Json) -> None:
    """Write a field, or remove it if the value is empty."""
    fields.pop(field, None)
    if value:
        fields[field] = value


def build_default_spread(controller_kind: str, controller_uid: str) -> list[dict[str, Any]]:
    """Return the scheduler's own soft constraints for pods of a controller that it knows.

    The super scheduler cannot derive them, because the ReplicaSet is not in the super cluster.
    """
    if controller_kind not in builtin_policy.SPREAD_OWNERS:
        return []
    return [
        {
            "maxSkew": skew,
            "topologyKey": key,
            "whenUnsatisfiable": "ScheduleAnyway",
            "labelSelector": {
                "matchLabels": {
                    wellknown.CONTROLLER: object_meta.build_controller_label(controller_uid)
                }
            },
        }
        for key, skew in builtin_policy.SPREAD_DEFAULTS
    ]


def filter_tolerations(
    tolerations: Sequence[Mapping[str, Any]],
    controller_kind: str = "",
    *,
    own: Collection[str] = (),
) -> tuple[list[Json], list[RejectionProblem]]:
    """Return the tolerations that are synced, and a problem for each one left out.

    Two sorts are left out without a problem. A controller adds tolerations to all its pods, so no
    user wrote them. Tolerations of `own` taint keys, those of the tenant's taints, are applied on
    the virtual nodes.
    """
    kept: list[Json] = []
    left_out: list[RejectionProblem] = []
    for index, toleration in enumerate(tolerations):
        key = toleration.get("key") or ""
        if key in builtin_policy.TOLERATED_TAINTS:
            kept.append(toleration)
        elif key not in own and key not in builtin_policy.ADDED_TOLERATIONS.get(
            controller_kind, ()
        ):
            text = (
                f"tolerates {key or 'every taint'}, which is not offered. The toleration is left"
                " out"
            )
            left_out.append(RejectionProblem("toleration", f"spec.tolerations[{index}]", text))
    return kept, left_out


def _find_group_problems(tenant_spec: Mapping[str, Any]) -> list[RejectionProblem]:
    """Return a problem for each group that a pod belongs to.

    Each Kubernetes minor version has one field for it. Such pods run without the group. No other
    component knows the field, and a Job's controller may write it.
    """
    text = (
        "names a group, and groups are not offered. The name is left out, and the pod is scheduled"
        " alone"
    )
    return [
        RejectionProblem("scheduling-group", f"spec.{field}", text)
        for field in _GROUP_FIELDS
        if tenant_spec.get(field)
    ]


def _find_responder_problems(tenant_spec: Mapping[str, Any]) -> list[RejectionProblem]:
    """Return a problem for a pod that names eviction responders.

    Hazard: the names must not be synced. The super cluster would wait up to 20 min for each of ten
    responders that a tenant chose, so a tenant could delay the drain of a node.
    """
    if not tenant_spec.get("evictionResponders"):
        return []
    text = (
        "names responders, which take effect for evictions in your cluster only. They are left out"
        " of the running pod, and a drain of its node does not wait for them"
    )
    return [RejectionProblem("eviction-responders", "spec.evictionResponders", text)]


def _write_classes(
    spec: dict[str, Any], tenant_spec: Mapping[str, Any], placement: SchedulingContext
) -> list[RejectionProblem]:
    """Write the classes that the tenant is shown.

    Priority value and preemption are those of the class in the super cluster.
    """
    problems = []
    priority = tenant_spec.get("priorityClassName") or ""
    if str(priority).startswith("system-"):
        text = "is a system class. Use a class of your own, or none"
        problems.append(RejectionProblem("priority-class", "spec.priorityClassName", text))
    elif (
        isinstance(priority, str)
        and priority
        and placement.is_class_shown("PriorityClass", priority)
    ):
        spec["priorityClassName"] = priority
    # Other priority classes have no meaning in the super cluster and are left out.
    runtime, forced = tenant_spec.get("runtimeClassName") or "", placement.runtime_class
    if forced and runtime in ("", forced):
        spec["runtimeClassName"] = forced
    elif forced:
        text = (
            f"must be {forced}, which the TenantPolicy sets in security.runtimeClassName. Use that"
        )
        text += " class, or leave it out"
        problems.append(RejectionProblem("runtime-class", "spec.runtimeClassName", text))
    elif isinstance(runtime, str) and runtime and placement.is_class_shown("RuntimeClass", runtime):
        spec["runtimeClassName"] = runtime
    elif runtime:
        text = f"names {str(runtime)[:60]}, which is not offered. Leave it out, or use one that"
        text += " `kubectl get runtimeclass` lists"
        problems.append(RejectionProblem("runtime-class", "spec.runtimeClassName", text))
    return problems


def _find_node_problems(
    spec: Mapping[str, Any], tenant_spec: Mapping[str, Any], placement: SchedulingContext
) -> list[RejectionProblem]:
    problems = [
        _build_hidden_label_problem(key, f"spec.nodeSelector[{key}]")
        for key in spec.get("nodeSelector") or {}
        if wellknown.is_reserved_key(key)
    ]
    for term in _list_node_terms(spec):
        problems += [
            _build_hidden_label_problem(str(expression.get("key")), "spec.affinity.nodeAffinity")
            for expression in term.get("matchExpressions") or ()
            if wellknown.is_reserved_key(str(expression.get("key")))
        ]
        problems += [
            _build_unknown_node_problem(str(name), "spec.affinity.nodeAffinity")
            for field in term.get("matchFields") or ()
            for name in field.get("values") or ()
            if name not in placement.nodes
        ]
    for constraint in spec.get("topologySpreadConstraints") or ():
        problems += _find_topology_problem(constraint, "spec.topologySpreadConstraints", placement)
    node = tenant_spec.get("nodeName")
    if node and node not in placement.nodes:
        problems.append(_build_unknown_node_problem(str(node), "spec.nodeName"))
    return problems


def _list_node_terms(spec: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the terms of a PodSpec's node affinity, both required and preferred."""
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    terms = [*(affinity.get(_REQUIRED) or {}).get("nodeSelectorTerms", [])]
    return terms + [item.get("preference") or {} for item in affinity.get(_PREFERRED) or ()]


def list_unknown_nodes(tenant_spec: Mapping[str, Any], nodes: Collection[str]) -> list[str]:
    """Return the nodes that a PodSpec names and that the tenant does not have (yet)."""
    named = [tenant_spec.get("nodeName")]
    for term in _list_node_terms(tenant_spec):
        for field in term.get("matchFields") or ():
            named += field.get("values") or ()
    return [name for name in named if isinstance(name, str) and name and name not in nodes]


def _build_unknown_node_problem(name: str, path: str) -> RejectionProblem:
    text = f"names {name}, which is not a node of this cluster. Leave it out"
    return RejectionProblem(NODE_NAME_RULE, path, text)


def _find_topology_problem(
    term: Mapping[str, Any], path: str, placement: SchedulingContext
) -> list[RejectionProblem]:
    key = str(term.get("topologyKey") or "")
    return (
        [_build_hidden_label_problem(key, f"{path}.topologyKey")]
        if placement.hides_label(key)
        else []
    )


def _build_hidden_label_problem(key: str, path: str) -> RejectionProblem:
    text = f"uses the node label {key}, which is hidden here. Use one that `kubectl get nodes"
    return RejectionProblem("node-label", path, f"{text} --show-labels` lists")


def _rewrite_terms(
    affinity: Mapping[str, Any], path: str, placement: SchedulingContext, passing: MetadataSpec
) -> list[RejectionProblem]:
    terms = [*(affinity.get(_REQUIRED) or ())]
    terms += [item["podAffinityTerm"] for item in affinity.get(_PREFERRED) or ()]
    problems = size_limits.check_affinity_size(len(terms), len(placement.namespaces))
    if problems:
        return problems
    for term in terms:
        problems += _find_topology_problem(term, path, placement)
        _translate_selector(term, passing)
        _confine_to_tenant(term, placement)
    return problems


def _translate_selector(term: dict[str, Any], passing: MetadataSpec) -> None:
    """Write the keys of super pods into the selector of a term or constraint, if it has one."""
    if term.get("labelSelector") is not None:
        term["labelSelector"] = label_selectors.translate_selector(term["labelSelector"], passing)


def _confine_to_tenant(term: dict[str, Any], placement: SchedulingContext) -> None:
    """Restrict a term to pods of this tenant, in the super namespaces that it selects.

    The tenant's API server has merged the label keys into the selector at creation. The super API
    server would merge them again and refuse the duplicate.
    """
    term.pop("matchLabelKeys", None)
    term.pop("mismatchLabelKeys", None)
    selector = term.get("labelSelector")
    if selector is not None:  # no selector matches no pod, and must still do so
        selector.setdefault("matchLabels", {})[wellknown.VC_UID] = placement.vc_uid
    meant = set(term.pop("namespaces", None) or ())
    namespace_selector = term.pop("namespaceSelector", None)
    if namespace_selector is not None:
        meant |= {
            name
            for name, labels in placement.namespaces.items()
            if label_selectors.matches(namespace_selector, labels)
        }
    elif not meant:
        return  # the pod's own namespace, on either side
    # An empty list would select the pod's own namespace, but the tenant's term selects none.
    term["namespaces"] = sorted(placement.super_namespace(name) for name in meant) or [
        _EMPTY_NAMESPACE_PLACEHOLDER
    ]


def _apply_label_keys(
    selector: dict[str, Any] | None, keys: Sequence[str], operator: str, labels: Mapping[str, str]
) -> None:
    """Merge label keys into a selector, unless the tenant's API server has done so."""
    if selector is None:
        return
    expressions = selector.setdefault("matchExpressions", []) if keys else []
    there = {expression.get("key") for expression in expressions}
    for key in keys:
        if key not in there and key in labels:
            expressions.append({"key": key, "operator": operator, "values": [labels[key]]})


def _require_node(spec: dict[str, Any], node: str) -> None:
    """Require one node through the scheduler. A nodeName would bypass the scheduler."""
    affinity = spec.setdefault("affinity", {}).setdefault("nodeAffinity", {})
    field = {"key": "metadata.name", "operator": "In", "values": [node]}
    required = affinity.setdefault(_REQUIRED, {})
    terms = required.get("nodeSelectorTerms") or [{}]
    required["nodeSelectorTerms"] = [
        {**term, "matchFields": [*(term.get("matchFields") or ()), field]} for term in terms
    ]
