"""Choice of the super cluster for a pod: filter, then score.

Pure. A filter answers yes, no or unknown, and only a no excludes a cluster. The scheduler of the
cluster decides the unknown cases. Must not know how the assigned cluster is reserved.

Hazard: the amount of comparison per pod must be limited. A tenant admin writes the pod, and all
other tenants wait while it is evaluated.

Hazard: a message must name clusters only as the tenant's nodes do, with no other detail. Otherwise
it reveals the super cluster to the tenant.
"""

from collections.abc import Collection, Mapping, Sequence
from decimal import Decimal
from enum import IntEnum
from typing import Any, NamedTuple

from syncer.model import builtin_policy, label_selectors
from syncer.model.builtin_policy import REQUIRED
from syncer.model.unstructured import as_mapping, as_mappings, as_strings
from syncer.rules.placement import opt_in
from tenancy import wellknown
from tenancy.quantities import parse_quantity

ResourceAmounts = Mapping[str, Decimal]
NodeTaint = Mapping[str, Any]

COMPARED_RESOURCES = ("cpu", "ephemeral-storage", "memory")
"""Resources that are compared. In addition, each pod uses one of `pods`."""
MAX_COMPARED = 10_000
"""Maximum number of expressions and values of a pod's terms, times nodes."""
MAX_AMOUNT = Decimal(10) ** 18
"""Maximum amount of a pod's request or of a node. A larger quantity is ignored as invalid."""
_OPT_IN_ONLY_TEXT = (
    f"accepts only pods with the annotation {wellknown.ELECT}, in namespaces with the label"
    f" {wellknown.ELECT}={opt_in.ENABLED}"
)
_SCHEDULING_EFFECTS = frozenset({"NoSchedule", "NoExecute"})
_NUMBER_OPERATORS = ("Gt", "Lt")
_MAX_MESSAGE = 900
_MAX_SHOWN_CHARACTERS = 60


class PodRequirements(NamedTuple):
    """Requirements of a pod on the place where it runs."""

    namespace_labels: Mapping[str, str]
    selector: Mapping[str, str]
    terms: Sequence[Mapping[str, Any]] | None
    """Terms of which one must match. None: every node matches."""
    tolerations: Sequence[Mapping[str, Any]]
    requests: ResourceAmounts
    has_opted_in: bool = False
    home_only_reason: str = ""
    """Reason why the pod can run in the home cluster only. Empty if it may run anywhere."""
    needs_dns: bool = True
    """Whether the pod resolves names through the cluster's DNS."""

    @property
    def label_keys(self) -> frozenset[str]:
        """Return the keys of the labels that the pod requires."""
        asked = [item.get("key") for term in self.terms or () for item in _get_expressions(term)]
        return frozenset({*self.selector, *(key for key in asked if isinstance(key, str))})

    @property
    def comparison_size(self) -> int:
        """Return the number of comparisons for each node."""
        items = [
            item
            for term in self.terms or ()
            for item in (*_get_expressions(term), *_get_fields(term))
        ]
        return len(self.selector) + sum(1 + len(as_strings(item.get("values"))) for item in items)


class NodeCapacity(NamedTuple):
    """Node of a super cluster."""

    name: str
    """Name by which the tenant's pods may refer to the node."""
    labels: Mapping[str, str]
    """Labels that the tenant may require."""
    taints: Sequence[NodeTaint]
    free: ResourceAmounts


class CandidateCluster(NamedTuple):
    """Super cluster that is granted to a tenant."""

    name: str
    weight: int
    namespaces: Mapping[str, Any] | None
    """Selector of the tenant namespaces whose pods may run in the cluster. None: all namespaces."""
    accepts_all_pods: bool
    """Whether pods that are not elected may run in the cluster."""
    nodes: Sequence[NodeCapacity]
    free: ResourceAmounts
    """Free amounts of all nodes together, without the amounts that are already promised."""
    labels: Mapping[str, str] = {}
    """Labels of the node that stands for the cluster in the tenant. Empty for the home cluster."""
    taints: Sequence[NodeTaint] = ()
    peers: int = 0
    """Number of pods of the same owner that are already in the cluster."""
    refusal: str = ""
    """Reason why the cluster accepts no pods now, as half a sentence."""
    has_dns: bool = True
    """Whether pods in the cluster can resolve names."""
    is_home: bool = False


class Assignment(NamedTuple):
    """Cluster that a pod is placed in."""

    name: str


class NoFit(NamedTuple):
    """Reason why a pod is not placed, as a sentence for the tenant."""

    message: str


class _FilterResult(IntEnum):
    """Answer of a filter. A better answer is greater."""

    NO = 0
    UNKNOWN = 1
    YES = 2


def build_requirements(
    pod: Mapping[str, Any], namespace_labels: Mapping[str, str]
) -> PodRequirements:
    """Return the requirements of a tenant pod.

    Malformed fields are ignored here, because the verdict table rejects them.
    """
    spec = as_mapping(pod.get("spec"))
    affinity = as_mapping(as_mapping(spec.get("affinity")).get("nodeAffinity")).get(REQUIRED)
    selector = as_mapping(spec.get("nodeSelector"))
    return PodRequirements(
        namespace_labels=namespace_labels,
        selector={key: value for key, value in selector.items() if isinstance(value, str)},
        terms=None
        if affinity is None
        else as_mappings(as_mapping(affinity).get("nodeSelectorTerms")),
        tolerations=as_mappings(spec.get("tolerations")),
        requests=compute_requests(spec),
        has_opted_in=opt_in.has_opted_in(pod, namespace_labels),
        home_only_reason=_find_home_only_reason(spec, pod),
        needs_dns=spec.get("dnsPolicy") != "None",
    )


def compute_requests(spec: Mapping[str, Any]) -> ResourceAmounts:
    """Return the resource requests of a PodSpec.

    Sidecars run at the same time as the main containers. Other init containers run before them.
    """
    total = dict.fromkeys(COMPARED_RESOURCES, Decimal(0))
    before = dict.fromkeys(COMPARED_RESOURCES, Decimal(0))
    for container in as_mappings(spec.get("initContainers")):
        asked = _read_requests(container)
        for name in COMPARED_RESOURCES:
            if container.get("restartPolicy") == "Always":
                total[name] += asked[name]
            before[name] = max(before[name], asked[name])
    for container in as_mappings(spec.get("containers")):
        asked = _read_requests(container)
        for name in COMPARED_RESOURCES:
            total[name] += asked[name]
    overhead = as_mapping(spec.get("overhead"))
    found = {
        name: min(max(total[name], before[name]) + parse_amount(overhead.get(name)), MAX_AMOUNT)
        for name in COMPARED_RESOURCES
    }
    return {**found, "pods": Decimal(1)}


def parse_amount(text: Any) -> Decimal:
    """Return a quantity. Absent, invalid and absurdly large ones are 0."""
    found = (
        parse_quantity(text if isinstance(text, str) else str(text)) if text is not None else None
    )
    return found if found is not None and 0 <= found <= MAX_AMOUNT else Decimal(0)


def choose_cluster(
    requirements: PodRequirements,
    candidates: Sequence[CandidateCluster],
    tried: Collection[str] = frozenset(),
) -> Assignment | NoFit:
    """Return the cluster for a pod. `tried` are the clusters that failed to place it this time."""
    known = {key for each in candidates for key in _list_label_keys(each)}
    is_foreseen = requirements.label_keys <= known
    best: tuple[tuple[Any, ...], str] | None = None
    reasons = []
    for candidate in candidates:
        why = (
            "did not run the pod in time"
            if candidate.name in tried
            else _find_exclusion(requirements, candidate)
        )
        answer = (
            _FilterResult.NO
            if why
            else _evaluate_fit(requirements, candidate, is_foreseen=is_foreseen)
        )
        if answer is _FilterResult.NO:
            reasons.append(f"{candidate.name} {why or _build_no_match_text(requirements)}")
            continue
        rank = (-answer, *_compute_score(candidate), candidate.name)
        if best is None or rank < best[0]:
            best = (rank, candidate.name)
    if best is not None:
        return Assignment(best[1])
    said = f"0/{len(candidates)} clusters are available: {', '.join(reasons) or 'none is granted'}"
    return NoFit(f"{said[:_MAX_MESSAGE]}.")


def _find_home_only_reason(spec: Mapping[str, Any], pod: Mapping[str, Any]) -> str:
    annotations = as_mapping(as_mapping(pod.get("metadata")).get("annotations"))
    if any(annotations.get(key) for key in builtin_policy.POD_NETWORK_REQUESTS):
        return "has no additional networks"
    volumes = as_mappings(spec.get("volumes"))
    if any(volume.get("persistentVolumeClaim") or volume.get("ephemeral") for volume in volumes):
        return "does not support pods with claims yet"
    if as_mappings(spec.get("resourceClaims")):
        return "has no dynamic resources"
    return "has no runtime classes" if spec.get("runtimeClassName") else ""


def _read_requests(container: Mapping[str, Any]) -> dict[str, Decimal]:
    requests = as_mapping(as_mapping(container.get("resources")).get("requests"))
    return {name: parse_amount(requests.get(name)) for name in COMPARED_RESOURCES}


def _list_label_keys(candidate: CandidateCluster) -> Collection[str]:
    return {*candidate.labels, *(key for room in candidate.nodes for key in room.labels)}


def _find_exclusion(requirements: PodRequirements, candidate: CandidateCluster) -> str:
    """Return the reason why a cluster is excluded, as half a sentence. Empty if it is not."""
    if candidate.refusal:
        return candidate.refusal
    if requirements.home_only_reason and not candidate.is_home:
        return requirements.home_only_reason
    if not candidate.has_dns and requirements.needs_dns:
        return "has no DNS server for tenants"
    if why := _find_grant_mismatch(requirements, candidate):
        return why
    for taint in candidate.taints:
        if taint.get("effect") in _SCHEDULING_EFFECTS and not _is_tolerated(
            taint, requirements.tolerations
        ):
            value = f"={taint['value']}" if taint.get("value") else ""
            return f"had untolerated taint {{{taint.get('key')}{value}:{taint.get('effect')}}}"
    return ""


def _find_grant_mismatch(requirements: PodRequirements, candidate: CandidateCluster) -> str:
    """Return the reason why a grant does not apply to a pod. Empty if it applies."""
    selector = candidate.namespaces
    if selector is not None and not label_selectors.matches(
        selector, requirements.namespace_labels
    ):
        return "is not granted to this namespace"
    return "" if candidate.accepts_all_pods or requirements.has_opted_in else _OPT_IN_ONLY_TEXT


def _evaluate_fit(
    requirements: PodRequirements, candidate: CandidateCluster, *, is_foreseen: bool
) -> _FilterResult:
    """Return whether a cluster has a node for a pod, as far as that can be foreseen."""
    if requirements.comparison_size * max(len(candidate.nodes), 1) > MAX_COMPARED:
        return _FilterResult.UNKNOWN
    if not candidate.nodes:
        return _evaluate_without_nodes(requirements, candidate)
    rooms = [room for room in candidate.nodes if _matches_node(requirements, room, candidate)]
    if not rooms:
        return _FilterResult.NO if is_foreseen else _FilterResult.UNKNOWN
    has_room = _has_room_for(candidate.free, requirements.requests) and any(
        _has_room_for(room.free, requirements.requests) and _tolerates_node(room, requirements)
        for room in rooms
    )
    return _FilterResult.YES if has_room else _FilterResult.UNKNOWN


def _evaluate_without_nodes(
    requirements: PodRequirements, candidate: CandidateCluster
) -> _FilterResult:
    """Return the answer by the one node that stands for a cluster without known nodes.

    The labels of nodes that will be created are unknown.
    """
    asked = {key: value for key, value in requirements.selector.items() if key in candidate.labels}
    is_right = all(candidate.labels[key] == value for key, value in asked.items())
    unknown = {key for key in requirements.label_keys if key not in candidate.labels}
    if not is_right or any(wellknown.is_reserved_key(key) for key in unknown):
        return _FilterResult.NO
    return _FilterResult.UNKNOWN


def _build_no_match_text(requirements: PodRequirements) -> str:
    keys = ", ".join(sorted(key[:_MAX_SHOWN_CHARACTERS] for key in requirements.label_keys)[:3])
    return f"has no node that matches the pod's node affinity or selector ({keys})"


def _matches_node(
    requirements: PodRequirements, node: NodeCapacity, candidate: CandidateCluster
) -> bool:
    labels = {**node.labels, **candidate.labels}
    if any(labels.get(key) != value for key, value in requirements.selector.items()):
        return False
    return requirements.terms is None or any(
        matches_term(term, labels, node.name) for term in requirements.terms
    )


def matches_term(term: Mapping[str, Any], labels: Mapping[str, str], name: str) -> bool:
    """Return whether a term of node affinity matches a node. An empty term matches none."""
    expressions, fields = _get_expressions(term), _get_fields(term)
    if not expressions and not fields:
        return False
    return all(matches_expression(item, labels) for item in expressions) and all(
        matches_expression(item, {"metadata.name": name}) for item in fields
    )


def matches_expression(item: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    """Return whether one expression of node affinity matches a node with these labels."""
    if item.get("operator") in _NUMBER_OPERATORS:
        there, asked = labels.get(str(item.get("key"))), as_strings(item.get("values"))
        if there is None or len(asked) != 1 or not (_is_number(there) and _is_number(asked[0])):
            return False
        is_more = int(there) > int(asked[0])
        return is_more if item["operator"] == "Gt" else int(there) < int(asked[0])
    return label_selectors.matches_expression(
        {**item, "values": as_strings(item.get("values"))}, labels
    )


def _is_number(text: str) -> bool:
    return text.removeprefix("-").isdecimal() and len(text) < 20


def _get_expressions(term: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return as_mappings(term.get("matchExpressions"))


def _get_fields(term: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return as_mappings(term.get("matchFields"))


def _tolerates_node(node: NodeCapacity, requirements: PodRequirements) -> bool:
    """Return whether a pod tolerates a node's own taints, with the tolerations that are synced."""
    passing = [
        each
        for each in requirements.tolerations
        if each.get("key") in builtin_policy.TOLERATED_TAINTS
    ]
    return all(
        taint.get("effect") not in _SCHEDULING_EFFECTS or _is_tolerated(taint, passing)
        for taint in node.taints
    )


def _is_tolerated(taint: NodeTaint, tolerations: Sequence[Mapping[str, Any]]) -> bool:
    return any(_tolerates(each, taint) for each in tolerations)


def _tolerates(toleration: Mapping[str, Any], taint: NodeTaint) -> bool:
    if toleration.get("effect") not in (None, "", taint.get("effect")):
        return False
    key, operator = toleration.get("key") or "", toleration.get("operator") or "Equal"
    if not key:
        return operator == "Exists"
    if key != taint.get("key"):
        return False
    value = taint.get("value") or ""
    return operator == "Exists" or (
        operator == "Equal" and (toleration.get("value") or "") == value
    )


def _has_room_for(free: ResourceAmounts, requests: ResourceAmounts) -> bool:
    return all(free.get(name, MAX_AMOUNT) >= asked for name, asked in requests.items() if asked)


def _compute_score(candidate: CandidateCluster) -> tuple[Any, ...]:
    """Return the sort key of a cluster: fewer pods of the owner by weight, then more free CPU."""
    weight = Decimal(max(candidate.weight, 1))
    left = min(
        (candidate.free[name] for name in ("cpu", "memory", "pods") if name in candidate.free),
        default=Decimal(0),
    )
    share = candidate.free.get("cpu", Decimal(0)) * weight
    return (Decimal(candidate.peers + 1) / weight, left <= 0, -share)
