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
from syncer.model.rejections import Problem, RejectedError
from syncer.rules.nodes.tenant_node_changes import Added, Additions, Taint
from tenancy.policies import NodeView

Json = Any
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
MAX_NAMED = 500
"""Maximum number of nodes that a pod may choose from by name. A pod with more eligible nodes gets a
subset, and another pod gets another subset."""
MAX_LEFT_OUT = 2000
"""Maximum number of node names that the terms of a pod exclude together."""
MAX_COMPARED = 10_000
"""Maximum number of expressions, fields and values in a pod's terms, times the nodes that its
tenant changed. Both the comparison and the result grow with this number, and all other tenants wait
for it."""
MAX_TOLERATED = 100_000
"""Maximum number of tolerations of a pod, times the tenant's own taints. Taints are faster to
compare than terms."""
_CORDON = Taint("node.kubernetes.io/unschedulable", "", "NoSchedule")
"""Taint that the scheduler derives from a cordon."""
_DIGEST_LENGTH = 16
_SHOWN = 60
_MOST_TOLD = 3


class Choice(NamedTuple):
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


class _Term(NamedTuple):
    """Term of node affinity. All its parts must match."""

    expressions: tuple[Json, ...]
    fields: tuple[Json, ...]

    @property
    def is_open(self) -> bool:
        """Return whether the term matches every node."""
        return not self.expressions and not self.fields

    @property
    def named(self) -> frozenset[str]:
        """Return the nodes that the term names. Empty if it names none."""
        found = [field["values"] for field in self.fields if field.get("operator") == "In"]
        return frozenset(name for values in found for name in values)

    def body(self) -> Json:
        parts = {"matchExpressions": self.expressions, "matchFields": self.fields}
        return {field: list(part) for field, part in parts.items() if part}


def choose(
    spec: Mapping[str, Any], additions: Additions, view: NodeView, uid: str = ""
) -> Choice | None:
    """Return the nodes that a PodSpec may run on. None if its own requirements apply unchanged.

    `spec` is the tenant's own, which its verdict table has accepted, and `uid` is the pod's. Raises
    RejectedError for a PodSpec that would name too many nodes.
    """
    selector = spec.get("nodeSelector") or {}
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    if not (additions.closing or selector or affinity):
        return None

    judge = _Judge(additions, view)
    own = [key for key in selector if judge.judges(key)]
    given = [_term(body) for body in (affinity.get(REQUIRED) or {}).get("nodeSelectorTerms") or ()]
    soft = [(item, _term(item.get("preference") or {})) for item in affinity.get(PREFERRED) or ()]
    # A pod with a nodeName has bypassed the scheduler, and so every check of the scheduler.
    closed = {} if spec.get("nodeName") else _closed(spec.get("tolerations") or (), additions)
    shut = frozenset(closed)
    terms = (*given, *(term for _, term in soft))
    if not own and not closed and not any(judge.is_for(term) for term in terms):
        return None
    parts = len(own) + sum(map(_weight, terms))
    if parts * len(additions.nodes) > MAX_COMPARED:
        text = "has more terms of affinity than are compared with your nodes' labels; use fewer"
        raise RejectedError(Problem("too-large", "spec.affinity.nodeAffinity", text))
    wanted = tuple({"key": key, "operator": "In", "values": [selector[key]]} for key in own)
    # An empty term selects no node. An absent list of terms selects every node.
    meant = [term for term in given if not term.is_open] if given else [_Term((), ())]
    labelled = [
        found
        for term in meant
        for found in judge.resolved(_Term((*term.expressions, *wanted), term.fields))
    ]
    left = [rest for term in labelled for rest in _without(term, shut)]
    preferred = [
        {"weight": item["weight"], "preference": found.body()}
        for item, term in soft
        for found in judge.resolved(term)
        if not found.is_open
    ]
    kept = {key: value for key, value in selector.items() if key not in own}
    if not left:
        asked = [*wanted, *(i for t in meant for i in t.expressions if judge.judges(i["key"]))]
        return Choice(kept, [], (), _problem(asked, labelled, closed))
    if any(term.is_open for term in left):
        return Choice(kept, None, preferred)
    return Choice(kept, _bounded(left, uid), preferred)


class _Judge(NamedTuple):
    """Resolver of terms by the labels of the tenant's nodes."""

    additions: Additions
    view: NodeView

    def judges(self, key: str) -> bool:
        """Return whether the super cluster's own labels are not sufficient to evaluate a key."""
        return key in self.additions.label_keys or self.hides(key)

    def hides(self, key: str) -> bool:
        """Return whether the tenant's nodes hide a label of the super cluster."""
        return not builtin_policy.is_visible_node_label(key, self.view)

    def is_for(self, term: _Term) -> bool:
        """Return whether a term has a key that must be resolved here."""
        return any(self.judges(item["key"]) for item in term.expressions)

    def resolved(self, term: _Term) -> list[_Term]:
        """Return terms that together match the same nodes. At most one of them matches a node.

        Nodes that have one of the keys are evaluated here and named. For all other nodes the labels
        of the super cluster are complete.
        """
        keys = {item["key"] for item in term.expressions if self.judges(item["key"])}
        if not keys:
            return [term]
        nodes = self.additions.nodes
        carriers = [name for name, node in nodes.items() if not keys.isdisjoint(node.own)]
        judged = [item for item in term.expressions if item["key"] in keys]
        plain = tuple(item for item in term.expressions if item["key"] not in keys)
        found = [
            _Term(plain, _with(term.fields, "In", [name]))
            for name in carriers
            if _may_be(term, name) and all(_holds(item, nodes[name].labels) for item in judged)
        ]
        hidden = {key for key in keys if self.hides(key)}
        if all(_holds(item, {}) for item in judged if item["key"] in hidden):
            seen = tuple(item for item in term.expressions if item["key"] not in hidden)
            found += _without(_Term(seen, term.fields), frozenset(carriers))
        return found


def _term(body: Mapping[str, Any]) -> _Term:
    return _Term(
        *(
            tuple(
                {leaf: item[leaf] for leaf in ("key", "operator", "values") if item.get(leaf)}
                for item in body.get(field) or ()
            )
            for field in ("matchExpressions", "matchFields")
        )
    )


def _closed(tolerations: Sequence[Mapping[str, Any]], additions: Additions) -> dict[str, Added]:
    """Return the nodes that the tenant itself closed to a pod. Raises RejectedError."""
    taints = sum(1 + len(node.taints) for node in additions.closing.values())
    if taints * len(tolerations) > MAX_TOLERATED:
        text = "has more tolerations than are compared with your nodes' taints; use fewer"
        raise RejectedError(Problem("too-large", "spec.tolerations", text))
    return {
        name: node
        for name, node in additions.closing.items()
        if (node.is_cordoned and not _is_tolerated(_CORDON, tolerations))
        or not all(_is_tolerated(taint, tolerations) for taint in node.taints)
    }


def _is_tolerated(taint: Taint, tolerations: Sequence[Mapping[str, Any]]) -> bool:
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


def _weight(term: _Term) -> int:
    """Return the number of comparisons for a term."""
    items = (*term.expressions, *term.fields)
    return 1 + sum(1 + len(item.get("values") or ()) for item in items)


def _without(term: _Term, left_out: frozenset[str]) -> list[_Term]:
    """Return a term that excludes some nodes. Empty if the term names only such nodes."""
    named = term.named
    if named:
        return [] if named & left_out else [term]
    known = {name for field in term.fields for name in field.get("values") or ()}
    return [_Term(term.expressions, _with(term.fields, "NotIn", sorted(left_out - known)))]


def _with(fields: tuple[Json, ...], operator: str, names: Iterable[str]) -> tuple[Json, ...]:
    """Return the fields of a term with more node names. The API requires one field per name."""
    added = ({"key": "metadata.name", "operator": operator, "values": [each]} for each in names)
    return (*fields, *(field for field in added if field not in fields))


def _may_be(term: _Term, name: str) -> bool:
    """Return whether the fields of a term match a node."""
    return all(
        (name in (field.get("values") or ())) == (field.get("operator") == "In")
        for field in term.fields
    )


def _holds(item: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    """Return whether one expression matches a node with these labels."""
    operator = item.get("operator")
    if operator not in ("Gt", "Lt"):
        return label_selectors.holds(item, labels)
    try:
        there, wanted = int(labels.get(item.get("key", ""), "")), int(item["values"][0])
    except ValueError:
        return False
    return there > wanted if operator == "Gt" else there < wanted


def _bounded(terms: Sequence[_Term], uid: str) -> list[Json]:
    """Return the bodies of terms, each once, limited to a maximum number of named nodes."""
    names = {name for term in terms for name in term.named}
    if len(names) > MAX_NAMED:

        def place(name: str) -> bytes:
            return hashlib.sha256(f"{uid}/{name}".encode()).digest()

        chosen = frozenset(sorted(names, key=place)[:MAX_NAMED])
        terms = [term for term in terms if not term.named or term.named & chosen]
    if sum(len(term.fields) for term in terms if not term.named) > MAX_LEFT_OUT:
        text = f"leaves out more than {MAX_LEFT_OUT} nodes by their labels, taints or cordons; use"
        text += " fewer terms, or a label that the nodes to use have"
        raise RejectedError(Problem("too-large", "spec.affinity.nodeAffinity", text))
    by_text = {orjson.dumps(body): body for body in (term.body() for term in terms)}
    return list(by_text.values())


def _problem(asked: Sequence[Json], labelled: Sequence[_Term], closed: Collection[str]) -> str:
    """Return the reason why no node is left, in the words of a scheduler.

    `asked` are the expressions that were evaluated here, `labelled` the terms that these
    expressions left, and `closed` the nodes that are closed to the pod.
    """
    told = _listed(list(dict.fromkeys(_told(item) for item in asked)))
    if not labelled:
        return (
            f"0 nodes are available: none matches the pod's node affinity/selector {told}; label a"
            " node, or use a label that `kubectl get nodes --show-labels` lists."
        )
    matching = f" that matches {told}" if told else ""
    return (
        f"0 nodes are available: every node{matching} is unschedulable or has a taint that the pod"
        f" does not tolerate ({_listed(sorted(closed))})."
    )


def _listed(texts: Sequence[str]) -> str:
    return ", ".join(texts[:_MOST_TOLD]) + (", ..." if len(texts) > _MOST_TOLD else "")


def _told(item: Mapping[str, Any]) -> str:
    """Return an expression in the usual notation."""
    key, operator = str(item.get("key", "")), str(item.get("operator", ""))
    values = [str(value) for value in item.get("values") or ()]
    if operator == "In" and len(values) == 1:
        text = f"{key}={values[0]}"
    else:
        text = " ".join([key, operator, *([f"({','.join(values)})"] if values else [])])
    return text if len(text) <= 2 * _SHOWN else f"{text[: 2 * _SHOWN]}..."
