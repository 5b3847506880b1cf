"""Node selection by a tenant's own labels, taints and cordons: selectors become node names.

Pure. The super cluster's scheduler does not know a tenant's changes to its virtual nodes. A
requirement on a key that only these nodes have is resolved here, and a node that the tenant closed
is excluded by its name. A requirement that the super cluster can evaluate stays as written. Must
not know how a pod is built.

Hazard: a node that the tenant is not shown has none of the tenant's labels, and must stay eligible
for a pod that does not require them. Otherwise pods stay pending.

Hazard: a term must not be left empty. An empty term selects no node, where the term was meant to
select every node.
"""

import hashlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import orjson

from syncer.model import builtin_policy, label_selectors
from syncer.model.builtin_policy import PREFERRED, REQUIRED
from syncer.model.rejections import RejectedError, RejectionProblem
from syncer.rules.nodes.tenant_node_changes import NodeAdditions, TenantNodeChanges, TenantTaint
from tenancy.policies import NodeView

Json = Any
MAX_NAMED_NODES = 500
"""Maximum number of nodes that a pod may choose from by name. A pod with more eligible nodes gets a
subset, and another pod gets another subset."""
MAX_EXCLUDED_NODES = 2000
"""Maximum number of node names that the terms of a pod exclude together."""
MAX_COMPARED_EXPRESSIONS = 10_000
"""Maximum number of expressions, fields and values in a pod's terms, times the nodes that its
tenant changed. Both the comparison and the result grow with this number, and all other tenants wait
for it."""
MAX_COMPARED_TOLERATIONS = 100_000
"""Maximum number of tolerations of a pod, times the tenant's own taints. Taints are faster to
compare than terms."""
_CORDON_TAINT = TenantTaint("node.kubernetes.io/unschedulable", "", "NoSchedule")
"""Taint that the scheduler derives from a cordon."""
_DIGEST_LENGTH = 16
_MAX_SHOWN_CHARACTERS = 60
_MAX_SHOWN_NODES = 3


class NodeSelection(NamedTuple):
    """Node requirements of a PodSpec, as they are in the super cluster."""

    selector: Mapping[str, str]
    required: Sequence[Json] | None
    """Terms of which one must match. None: every node matches."""
    preferred: Sequence[Json]
    problem: str = ""
    """Reason why no node is left, as a sentence for the tenant. The other fields have no meaning
    then."""

    @property
    def digest(self) -> str:
        """Return a digest that differs between two choices."""
        said = [self.selector, self.required, self.preferred, bool(self.problem)]
        text = orjson.dumps(said, option=orjson.OPT_SORT_KEYS)
        return hashlib.sha256(text).hexdigest()[:_DIGEST_LENGTH]


class _NodeSelectorTerm(NamedTuple):
    """Term of node affinity. All its parts must match."""

    expressions: tuple[Json, ...]
    fields: tuple[Json, ...]

    @property
    def matches_all(self) -> bool:
        """Return whether the term matches every node."""
        return not self.expressions and not self.fields

    @property
    def named_nodes(self) -> frozenset[str]:
        """Return the nodes that the term names. Empty if it names none."""
        found = [field["values"] for field in self.fields if field.get("operator") == "In"]
        return frozenset(name for values in found for name in values)

    def build_body(self) -> Json:
        parts = {"matchExpressions": self.expressions, "matchFields": self.fields}
        return {field: list(part) for field, part in parts.items() if part}


def select_nodes(
    spec: Mapping[str, Any],
    additions: TenantNodeChanges,
    view: NodeView,
    uid: str = "",
    *,
    pool_keys: Collection[str] = (),
) -> NodeSelection | None:
    """Return the nodes that a PodSpec may run on. None if its own requirements apply unchanged.

    `spec` is the tenant's own, which its verdict table has accepted, and `uid` is the pod's.
    `pool_keys` are the labels of the tenant's node pool. A pod may name them although its nodes
    hide them. Raises RejectedError for a PodSpec that would name too many nodes.
    """
    selector = spec.get("nodeSelector") or {}
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    if not (additions.closed_nodes or selector or affinity):
        return None

    judge = _TermResolver(additions, view, pool_keys)
    own = [key for key in selector if judge.is_tenant_key(key)]
    given = [
        _parse_term(body) for body in (affinity.get(REQUIRED) or {}).get("nodeSelectorTerms") or ()
    ]
    soft = [
        (item, _parse_term(item.get("preference") or {})) for item in affinity.get(PREFERRED) or ()
    ]
    # A pod with a nodeName has bypassed the scheduler, and so every check of the scheduler.
    closed = (
        {} if spec.get("nodeName") else _list_closed_nodes(spec.get("tolerations") or (), additions)
    )
    shut = frozenset(closed)
    terms = (*given, *(term for _, term in soft))
    if not own and not closed and not any(judge.concerns_term(term) for term in terms):
        return None
    parts = len(own) + sum(map(_compute_weight, terms))
    if parts * len(additions.nodes) > MAX_COMPARED_EXPRESSIONS:
        text = (
            "has more terms of affinity than the syncer compares with your nodes' labels. Use fewer"
        )
        raise RejectedError(RejectionProblem("too-large", "spec.affinity.nodeAffinity", text))
    wanted = tuple({"key": key, "operator": "In", "values": [selector[key]]} for key in own)
    # An empty term selects no node. An absent list of terms selects every node.
    meant = (
        [term for term in given if not term.matches_all] if given else [_NodeSelectorTerm((), ())]
    )
    labelled = [
        found
        for term in meant
        for found in judge.resolve_term(
            _NodeSelectorTerm((*term.expressions, *wanted), term.fields)
        )
    ]
    left = [rest for term in labelled for rest in _exclude_nodes(term, shut)]
    preferred = [
        {"weight": item["weight"], "preference": found.build_body()}
        for item, term in soft
        for found in judge.resolve_term(term)
        if not found.matches_all
    ]
    kept = {key: value for key, value in selector.items() if key not in own}
    if not left:
        asked = [
            *wanted,
            *(i for t in meant for i in t.expressions if judge.is_tenant_key(i["key"])),
        ]
        return NodeSelection(kept, [], (), _build_problem(asked, labelled, closed))
    if any(term.matches_all for term in left):
        return NodeSelection(kept, None, preferred)
    return NodeSelection(kept, _limit_terms(left, uid), preferred)


class _TermResolver(NamedTuple):
    """Resolver of terms by the labels of the tenant's nodes."""

    additions: TenantNodeChanges
    view: NodeView
    pool_keys: Collection[str]

    def is_tenant_key(self, key: str) -> bool:
        """Return whether the super cluster's own labels are not sufficient to evaluate a key."""
        return key in self.additions.label_keys or self.hides_key(key)

    def hides_key(self, key: str) -> bool:
        """Return whether the tenant's nodes hide a label of the super cluster."""
        return key not in self.pool_keys and not builtin_policy.is_visible_node_label(
            key, self.view
        )

    def concerns_term(self, term: _NodeSelectorTerm) -> bool:
        """Return whether a term has a key that must be resolved here."""
        return any(self.is_tenant_key(item["key"]) for item in term.expressions)

    def resolve_term(self, term: _NodeSelectorTerm) -> list[_NodeSelectorTerm]:
        """Return terms that together match the same nodes. At most one of them matches a node.

        Nodes that have one of the keys are evaluated here and named. For all other nodes the labels
        of the super cluster are complete.
        """
        keys = {item["key"] for item in term.expressions if self.is_tenant_key(item["key"])}
        if not keys:
            return [term]
        nodes = self.additions.nodes
        carriers = [
            name for name, node in nodes.items() if not keys.isdisjoint(node.own_label_keys)
        ]
        judged = [item for item in term.expressions if item["key"] in keys]
        plain = tuple(item for item in term.expressions if item["key"] not in keys)
        found = [
            _NodeSelectorTerm(plain, _add_name_requirement(term.fields, "In", [name]))
            for name in carriers
            if _may_match_node(term, name)
            and all(_matches_expression(item, nodes[name].labels) for item in judged)
        ]
        hidden = {key for key in keys if self.hides_key(key)}
        if all(_matches_expression(item, {}) for item in judged if item["key"] in hidden):
            seen = tuple(item for item in term.expressions if item["key"] not in hidden)
            found += _exclude_nodes(_NodeSelectorTerm(seen, term.fields), frozenset(carriers))
        return found


def _parse_term(body: Mapping[str, Any]) -> _NodeSelectorTerm:
    return _NodeSelectorTerm(
        *(
            tuple(
                {leaf: item[leaf] for leaf in ("key", "operator", "values") if item.get(leaf)}
                for item in body.get(field) or ()
            )
            for field in ("matchExpressions", "matchFields")
        )
    )


def _list_closed_nodes(
    tolerations: Sequence[Mapping[str, Any]], additions: TenantNodeChanges
) -> dict[str, NodeAdditions]:
    """Return the nodes that the tenant itself closed to a pod. Raises RejectedError."""
    taints = sum(1 + len(node.taints) for node in additions.closed_nodes.values())
    if taints * len(tolerations) > MAX_COMPARED_TOLERATIONS:
        text = "has more tolerations than the syncer compares with your nodes' taints. Use fewer"
        raise RejectedError(RejectionProblem("too-large", "spec.tolerations", text))
    return {
        name: node
        for name, node in additions.closed_nodes.items()
        if (node.is_cordoned and not _is_tolerated(_CORDON_TAINT, tolerations))
        or not all(_is_tolerated(taint, tolerations) for taint in node.taints)
    }


def _is_tolerated(taint: TenantTaint, tolerations: Sequence[Mapping[str, Any]]) -> bool:
    """Return the result of the scheduler's TaintToleration. The tolerated duration is ignored."""
    for item in tolerations:
        operator = item.get("operator") or "Equal"
        if (
            (item.get("effect") or taint.effect) == taint.effect
            and (item.get("key") or taint.key) == taint.key
            and (
                operator == "Exists"
                or (operator == "Equal" and (item.get("value") or "") == taint.value)
            )
        ):
            return True
    return False


def _compute_weight(term: _NodeSelectorTerm) -> int:
    """Return the number of comparisons for a term."""
    items = (*term.expressions, *term.fields)
    return 1 + sum(1 + len(item.get("values") or ()) for item in items)


def _exclude_nodes(term: _NodeSelectorTerm, left_out: frozenset[str]) -> list[_NodeSelectorTerm]:
    """Return a term that excludes some nodes. Empty if the term names only such nodes."""
    named = term.named_nodes
    if named:
        return [] if named & left_out else [term]
    known = {name for field in term.fields for name in field.get("values") or ()}
    return [
        _NodeSelectorTerm(
            term.expressions, _add_name_requirement(term.fields, "NotIn", sorted(left_out - known))
        )
    ]


def _add_name_requirement(
    fields: tuple[Json, ...], operator: str, names: Iterable[str]
) -> tuple[Json, ...]:
    """Return the fields of a term with more node names. The API requires one field per name."""
    added = ({"key": "metadata.name", "operator": operator, "values": [each]} for each in names)
    return (*fields, *(field for field in added if field not in fields))


def _may_match_node(term: _NodeSelectorTerm, name: str) -> bool:
    """Return whether the fields of a term match a node."""
    return all(
        (name in (field.get("values") or ())) == (field.get("operator") == "In")
        for field in term.fields
    )


def _matches_expression(item: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    """Return whether one expression matches a node with these labels."""
    operator = item.get("operator")
    if operator not in ("Gt", "Lt"):
        return label_selectors.matches_expression(item, labels)
    try:
        there, wanted = int(labels.get(item.get("key", ""), "")), int(item["values"][0])
    except ValueError:
        return False
    return there > wanted if operator == "Gt" else there < wanted


def _limit_terms(terms: Sequence[_NodeSelectorTerm], uid: str) -> list[Json]:
    """Return the bodies of terms, each once, limited to a maximum number of named nodes."""
    names = {name for term in terms for name in term.named_nodes}
    if len(names) > MAX_NAMED_NODES:

        def place(name: str) -> bytes:
            return hashlib.sha256(f"{uid}/{name}".encode()).digest()

        chosen = frozenset(sorted(names, key=place)[:MAX_NAMED_NODES])
        terms = [term for term in terms if not term.named_nodes or term.named_nodes & chosen]
    if sum(len(term.fields) for term in terms if not term.named_nodes) > MAX_EXCLUDED_NODES:
        text = (
            f"excludes more than {MAX_EXCLUDED_NODES} nodes by their labels, taints or cordons. Use"
        )
        text += " fewer terms, or a label of the nodes to use"
        raise RejectedError(RejectionProblem("too-large", "spec.affinity.nodeAffinity", text))
    by_text = {orjson.dumps(body): body for body in (term.build_body() for term in terms)}
    return list(by_text.values())


def _build_problem(
    asked: Sequence[Json], labelled: Sequence[_NodeSelectorTerm], closed: Collection[str]
) -> str:
    """Return the reason why no node is left, in the words of a scheduler.

    `asked` are the expressions that were evaluated here, `labelled` the terms that these
    expressions left, and `closed` the nodes that are closed to the pod.
    """
    told = _join_texts(list(dict.fromkeys(_format_expression(item) for item in asked)))
    if not labelled:
        return (
            f"0 nodes are available: no node matches the pod's node affinity/selector {told}."
            " Label a node, or use a label that `kubectl get nodes --show-labels` lists."
        )
    matching = f" that matches {told}" if told else ""
    return (
        f"0 nodes are available: every node{matching} is unschedulable or has a taint that the pod"
        f" does not tolerate ({_join_texts(sorted(closed))})."
    )


def _join_texts(texts: Sequence[str]) -> str:
    return ", ".join(texts[:_MAX_SHOWN_NODES]) + (", ..." if len(texts) > _MAX_SHOWN_NODES else "")


def _format_expression(item: Mapping[str, Any]) -> str:
    """Return an expression in the usual notation."""
    key, operator = str(item.get("key", "")), str(item.get("operator", ""))
    values = [str(value) for value in item.get("values") or ()]
    if operator == "In" and len(values) == 1:
        text = f"{key}={values[0]}"
    else:
        text = " ".join([key, operator, *([f"({','.join(values)})"] if values else [])])
    return (
        text
        if len(text) <= 2 * _MAX_SHOWN_CHARACTERS
        else f"{text[: 2 * _MAX_SHOWN_CHARACTERS]}..."
    )
