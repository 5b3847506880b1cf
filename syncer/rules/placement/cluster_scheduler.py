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
from syncer.model.unstructured import mapping, mappings, texts
from syncer.rules.placement import opt_in
from syncer.rules.pods.node_selection import REQUIRED
from tenancy import wellknown
from tenancy.quantities import quantity

Amounts = Mapping[str, Decimal]
Taint = Mapping[str, Any]

COUNTED = ("cpu", "ephemeral-storage", "memory")
"""Resources that are compared. In addition, each pod uses one of `pods`."""
MAX_COMPARED = 10_000
"""Maximum number of expressions and values of a pod's terms, times nodes."""
MOST = Decimal(10) ** 18
"""Maximum amount of a pod's request or of a node. A larger quantity is ignored as invalid."""
_ELECTED_ONLY = (
    f"takes only pods with the annotation {wellknown.ELECT}, in namespaces with the label"
    f" {wellknown.ELECT}={opt_in.ENABLED}"
)
_KEEPS_OFF = frozenset({"NoSchedule", "NoExecute"})
_NUMBERS = ("Gt", "Lt")
_MAX_MESSAGE = 900
_SHOWN = 60


class Ask(NamedTuple):
    """Requirements of a pod on the place where it runs."""

    namespace_labels: Mapping[str, str]
    selector: Mapping[str, str]
    terms: Sequence[Mapping[str, Any]] | None
    """Terms of which one must match. None: every node matches."""
    tolerations: Sequence[Mapping[str, Any]]
    requests: Amounts
    is_elected: bool = False
    homely: str = ""
    """Reason why the pod can run in the home cluster only. Empty if it may run anywhere."""
    asks_names: bool = True
    """Whether the pod resolves names through the cluster's DNS."""

    @property
    def keys(self) -> frozenset[str]:
        """Return the keys of the labels that the pod requires."""
        asked = [item.get("key") for term in self.terms or () for item in _expressions(term)]
        return frozenset({*self.selector, *(key for key in asked if isinstance(key, str))})

    @property
    def size(self) -> int:
        """Return the number of comparisons for each node."""
        items = [
            item for term in self.terms or () for item in (*_expressions(term), *_fields(term))
        ]
        return len(self.selector) + sum(1 + len(texts(item.get("values"))) for item in items)


class Room(NamedTuple):
    """Node of a super cluster."""

    name: str
    """Name by which the tenant's pods may refer to the node."""
    labels: Mapping[str, str]
    """Labels that the tenant may require."""
    taints: Sequence[Taint]
    free: Amounts


class Candidate(NamedTuple):
    """Super cluster that is granted to a tenant."""

    name: str
    weight: int
    namespaces: Mapping[str, Any] | None
    """Selector of the tenant namespaces whose pods may run in the cluster. None: all namespaces."""
    takes_all: bool
    """Whether pods that are not elected may run in the cluster."""
    rooms: Sequence[Room]
    free: Amounts
    """Free amounts of all nodes together, without the amounts that are already promised."""
    labels: Mapping[str, str] = {}
    """Labels of the node that stands for the cluster in the tenant. Empty for the home cluster."""
    taints: Sequence[Taint] = ()
    peers: int = 0
    """Number of pods of the same owner that are already in the cluster."""
    refuses: str = ""
    """Reason why the cluster accepts no pods now, as half a sentence."""
    resolves: bool = True
    """Whether pods in the cluster can resolve names."""
    is_home: bool = False


class Seat(NamedTuple):
    """Cluster that a pod is placed in."""

    name: str


class Nowhere(NamedTuple):
    """Reason why a pod is not placed, as a sentence for the tenant."""

    message: str


class _Answer(IntEnum):
    """Answer of a filter. A better answer is greater."""

    NO = 0
    UNKNOWN = 1
    YES = 2


def ask_of(pod: Mapping[str, Any], namespace_labels: Mapping[str, str]) -> Ask:
    """Return the requirements of a tenant pod.

    Malformed fields are ignored here, because the verdict table rejects them.
    """
    spec = mapping(pod.get("spec"))
    affinity = mapping(mapping(spec.get("affinity")).get("nodeAffinity")).get(REQUIRED)
    selector = mapping(spec.get("nodeSelector"))
    return Ask(
        namespace_labels=namespace_labels,
        selector={key: value for key, value in selector.items() if isinstance(value, str)},
        terms=None if affinity is None else mappings(mapping(affinity).get("nodeSelectorTerms")),
        tolerations=mappings(spec.get("tolerations")),
        requests=requests_of(spec),
        is_elected=opt_in.is_elected(pod, namespace_labels),
        homely=_homely(spec),
        asks_names=spec.get("dnsPolicy") != "None",
    )


def requests_of(spec: Mapping[str, Any]) -> Amounts:
    """Return the resource requests of a PodSpec.

    Sidecars run at the same time as the main containers. Other init containers run before them.
    """
    total = dict.fromkeys(COUNTED, Decimal(0))
    before = dict.fromkeys(COUNTED, Decimal(0))
    for container in mappings(spec.get("initContainers")):
        asked = _requested(container)
        for name in COUNTED:
            if container.get("restartPolicy") == "Always":
                total[name] += asked[name]
            before[name] = max(before[name], asked[name])
    for container in mappings(spec.get("containers")):
        asked = _requested(container)
        for name in COUNTED:
            total[name] += asked[name]
    overhead = mapping(spec.get("overhead"))
    found = {
        name: min(max(total[name], before[name]) + amount(overhead.get(name)), MOST)
        for name in COUNTED
    }
    return {**found, "pods": Decimal(1)}


def amount(text: Any) -> Decimal:
    """Return a quantity. Absent, invalid and absurdly large ones are 0."""
    found = quantity(text if isinstance(text, str) else str(text)) if text is not None else None
    return found if found is not None and 0 <= found <= MOST else Decimal(0)


def choose(
    ask: Ask, candidates: Sequence[Candidate], tried: Collection[str] = frozenset()
) -> Seat | Nowhere:
    """Return the cluster for a pod. `tried` are the clusters that failed to place it this time."""
    known = {key for each in candidates for key in _keys_of(each)}
    is_foreseen = ask.keys <= known
    best: tuple[tuple[Any, ...], str] | None = None
    reasons = []
    for candidate in candidates:
        why = "was tried" if candidate.name in tried else _excludes(ask, candidate)
        answer = _Answer.NO if why else _fits(ask, candidate, is_foreseen=is_foreseen)
        if answer is _Answer.NO:
            reasons.append(f"{candidate.name} {why or _no_match(ask)}")
            continue
        rank = (-answer, *_score(candidate), candidate.name)
        if best is None or rank < best[0]:
            best = (rank, candidate.name)
    if best is not None:
        return Seat(best[1])
    said = f"0/{len(candidates)} clusters are available: {'; '.join(reasons) or 'none is granted'}"
    return Nowhere(f"{said[:_MAX_MESSAGE]}.")


def _homely(spec: Mapping[str, Any]) -> str:
    volumes = mappings(spec.get("volumes"))
    if any(volume.get("persistentVolumeClaim") or volume.get("ephemeral") for volume in volumes):
        return "takes no pods with claims yet"
    return "offers no runtime classes" if spec.get("runtimeClassName") else ""


def _requested(container: Mapping[str, Any]) -> dict[str, Decimal]:
    requests = mapping(mapping(container.get("resources")).get("requests"))
    return {name: amount(requests.get(name)) for name in COUNTED}


def _keys_of(candidate: Candidate) -> Collection[str]:
    return {*candidate.labels, *(key for room in candidate.rooms for key in room.labels)}


def _excludes(ask: Ask, candidate: Candidate) -> str:
    """Return the reason why a cluster is excluded, as half a sentence. Empty if it is not."""
    if candidate.refuses:
        return candidate.refuses
    if ask.homely and not candidate.is_home:
        return ask.homely
    if not candidate.resolves and ask.asks_names:
        return "has no resolver for names"
    if why := _is_not_meant(ask, candidate):
        return why
    for taint in candidate.taints:
        if taint.get("effect") in _KEEPS_OFF and not _is_tolerated(taint, ask.tolerations):
            value = f"={taint['value']}" if taint.get("value") else ""
            return f"had untolerated taint {{{taint.get('key')}{value}:{taint.get('effect')}}}"
    return ""


def _is_not_meant(ask: Ask, candidate: Candidate) -> str:
    """Return the reason why a grant does not apply to a pod. Empty if it applies."""
    selector = candidate.namespaces
    if selector is not None and not label_selectors.matches(selector, ask.namespace_labels):
        return "is not granted to this namespace"
    return "" if candidate.takes_all or ask.is_elected else _ELECTED_ONLY


def _fits(ask: Ask, candidate: Candidate, *, is_foreseen: bool) -> _Answer:
    """Return whether a cluster has a node for a pod, as far as that can be foreseen."""
    if ask.size * max(len(candidate.rooms), 1) > MAX_COMPARED:
        return _Answer.UNKNOWN
    if not candidate.rooms:
        return _without_rooms(ask, candidate)
    rooms = [room for room in candidate.rooms if _matches(ask, room, candidate)]
    if not rooms:
        return _Answer.NO if is_foreseen else _Answer.UNKNOWN
    has_room = _holds(candidate.free, ask.requests) and any(
        _holds(room.free, ask.requests) and _is_open(room, ask) for room in rooms
    )
    return _Answer.YES if has_room else _Answer.UNKNOWN


def _without_rooms(ask: Ask, candidate: Candidate) -> _Answer:
    """Return the answer by the one node that stands for a cluster without known nodes.

    The labels of nodes that will be created are unknown.
    """
    asked = {key: value for key, value in ask.selector.items() if key in candidate.labels}
    is_right = all(candidate.labels[key] == value for key, value in asked.items())
    unknown = {key for key in ask.keys if key not in candidate.labels}
    if not is_right or any(wellknown.is_reserved(key) for key in unknown):
        return _Answer.NO
    return _Answer.UNKNOWN


def _no_match(ask: Ask) -> str:
    keys = ", ".join(sorted(key[:_SHOWN] for key in ask.keys)[:3])
    return f"has no node that matches the pod's node affinity or selector ({keys})"


def _matches(ask: Ask, room: Room, candidate: Candidate) -> bool:
    labels = {**room.labels, **candidate.labels}
    if any(labels.get(key) != value for key, value in ask.selector.items()):
        return False
    return ask.terms is None or any(term_holds(term, labels, room.name) for term in ask.terms)


def term_holds(term: Mapping[str, Any], labels: Mapping[str, str], name: str) -> bool:
    """Return whether a term of node affinity matches a node. An empty term matches none."""
    expressions, fields = _expressions(term), _fields(term)
    if not expressions and not fields:
        return False
    return all(expression_holds(item, labels) for item in expressions) and all(
        expression_holds(item, {"metadata.name": name}) for item in fields
    )


def expression_holds(item: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    """Return whether one expression of node affinity matches a node with these labels."""
    if item.get("operator") in _NUMBERS:
        there, asked = labels.get(str(item.get("key"))), texts(item.get("values"))
        if there is None or len(asked) != 1 or not (_is_number(there) and _is_number(asked[0])):
            return False
        is_more = int(there) > int(asked[0])
        return is_more if item["operator"] == "Gt" else int(there) < int(asked[0])
    return label_selectors.holds({**item, "values": texts(item.get("values"))}, labels)


def _is_number(text: str) -> bool:
    return text.removeprefix("-").isdecimal() and len(text) < 20


def _expressions(term: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return mappings(term.get("matchExpressions"))


def _fields(term: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return mappings(term.get("matchFields"))


def _is_open(room: Room, ask: Ask) -> bool:
    """Return whether a pod tolerates a node's own taints, with the tolerations that are synced."""
    passing = [
        each for each in ask.tolerations if each.get("key") in builtin_policy.TOLERATED_TAINTS
    ]
    return all(
        taint.get("effect") not in _KEEPS_OFF or _is_tolerated(taint, passing)
        for taint in room.taints
    )


def _is_tolerated(taint: Taint, tolerations: Sequence[Mapping[str, Any]]) -> bool:
    return any(_tolerates(each, taint) for each in tolerations)


def _tolerates(toleration: Mapping[str, Any], taint: Taint) -> bool:
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


def _holds(free: Amounts, requests: Amounts) -> bool:
    return all(free.get(name, MOST) >= asked for name, asked in requests.items() if asked)


def _score(candidate: Candidate) -> tuple[Any, ...]:
    """Return the sort key of a cluster: fewer pods of the owner by weight, then more free CPU."""
    weight = Decimal(max(candidate.weight, 1))
    left = min(
        (candidate.free[name] for name in ("cpu", "memory", "pods") if name in candidate.free),
        default=Decimal(0),
    )
    share = candidate.free.get("cpu", Decimal(0)) * weight
    return (Decimal(candidate.peers + 1) / weight, left <= 0, -share)
