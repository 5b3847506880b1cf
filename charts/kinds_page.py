"""The user's page `docs/kinds.md`: for each kind, every field and what becomes of it.

Owns the words around the tables. The tables are those that the syncer works by, so the page cannot
promise anything else. Must not decide.
"""

from collections.abc import Iterator, Mapping

from syncer.model.field_rules import (
    Allow,
    Drop,
    Each,
    Fields,
    Free,
    Only,
    Refuse,
    Verdict,
    Written,
)
from syncer.rules import field_rule_tables
from syncer.rules.pods import node_selection
from syncer.rules.registry import KINDS, Flow

_HEAD = """\
# What becomes of each field

Written by `python -m charts.generate` from the tables that the syncer works by; change it there.

What you create in your cluster is made anew where pods run, field by field, by these tables. A
field that no table names is refused, so that nothing slips through that nobody has thought of. A
refused object gets one Event in your cluster that says which field, why, and what would do. A new
one is not made until you change it. One that was let through before, and is refused after a change,
stays in force as it was let through; it is taken away only when nothing of it may be there, because
the policy does not offer it, or because it would reach or hold up others.

| Words | Meaning |
|---|---|
| goes down | as you wrote it |
| goes down, when | one of the listed values goes down, any other refuses the object |
| refused | any value refuses the whole object |
| left out | without a word, for the reason given |
| followed | not copied: it becomes what the sentence says |

For every kind: name and namespace stay what they are in your cluster. Labels go down, except those
that make Kubernetes or an add-on act; so do annotations without a prefix and a short list of
prefixed ones. ConfigMaps and Secrets go down without labels. Finalizers and owners stay in your
cluster. A policy of whoever runs this cluster may allow more or less than these tables say; the
Event of a refused object is always right.
"""
_FLOWS: Mapping[Flow, str] = {
    Flow.DOWN: "What you write goes down; nothing of it is changed in your cluster.",
    Flow.DOWN_UP: "What you write goes down, and its status comes up.",
}
_OTHERS = {
    "PersistentVolume": (
        "The volumes of your claims are shown in your cluster. One that you write goes down when a"
        " claim of yours is to have it, as far as the policy lists its source."
    ),
}
"""Kinds with a flow of their own."""
_NODE = """
## Node

Nodes come up; you make none. What you add to one stays, and your cluster goes by it although it has
no scheduler of its own.

| What you do to a node | What becomes of it |
|---|---|
{rows}
A node that is shown only while pods run on it stays for as long as it has a label, a taint or a
cordon of yours. One that you do not see yet has none of your labels. A pod that waits for a node
follows your labels, taints and cordons; one that runs stays where it is. Of more than {named} nodes
that match by your labels, a pod gets {named}, another pod others.
"""
_NODE_ROWS = {
    "labels and annotations of your own": (
        "stay. A selector or affinity of a pod on a key that only your labels have is resolved into"
        " the names of the nodes that match when the pod is started; while none does, the pod is"
        " `Pending` with an Event `FailedScheduling`, and is looked at again when your nodes change"
    ),
    "taints of your own": (
        "stay. `NoSchedule` and `NoExecute` keep new pods off that do not tolerate them,"
        " `NoExecute` also ends such pods that run; `PreferNoSchedule` is not heeded"
    ),
    "`kubectl cordon`": (
        "stays, and keeps new pods off that do not tolerate `node.kubernetes.io/unschedulable`;"
        " `kubectl drain` works"
    ),
    "labels, annotations, taints, addresses, conditions and amounts that came up": (
        "come back as they were"
    ),
    "`kubectl delete`": "it comes back without what you had added, when it has to be shown",
}
_MANY = 6
"""A table of this many fields that was shown before is named instead of shown again."""


def text() -> str:
    """Return the whole page."""
    rows = {kind.resource.kind: _FLOWS.get(kind.flow, "") for kind in KINDS} | _OTHERS
    return _HEAD + "".join(_kind(name, flow) for name, flow in rows.items()) + _node()


def _node() -> str:
    rows = "".join(f"| {done} | {outcome} |\n" for done, outcome in _NODE_ROWS.items())
    return _NODE.format(rows=rows, named=node_selection.MAX_NAMED)


def _kind(name: str, flow: str) -> str:
    lines = [f"\n## {name}\n\n{flow}\n"]
    for part in field_rule_tables.TABLES.get(name, ()):
        lines.append("\n| Field | What becomes of it |\n|---|---|\n")
        shown: dict[int, str] = {}
        for path, words in _rows(part.table, part.path, shown):
            lines.append(f"| `{path}` | {words} |\n")
    return "".join(lines)


def _rows(
    table: Mapping[str, Verdict], root: str, shown: dict[int, str]
) -> Iterator[tuple[str, str]]:
    for name, verdict in table.items():
        path = f"{root}.{name}" if root else name
        if not isinstance(verdict, Fields | Each):
            yield path, words(verdict)
            continue
        path += "[]" if isinstance(verdict, Each) else ""
        before = shown.get(id(verdict.fields))
        if before is not None and len(verdict.fields) >= _MANY:
            yield path, f"as `{before}`"
            continue
        shown.setdefault(id(verdict.fields), path)
        yield from _rows(verdict.fields, path, shown)


def words(verdict: Verdict) -> str:  # noqa: PLR0911 - one for each verdict
    """Return a verdict in words for users."""
    match verdict:
        case Allow() | Free():
            return "goes down"
        case Only():
            if not verdict.values:
                return f"goes down, when the policy lists the value (rule {verdict.rule})"
            values = ", ".join(f"`{value}`" for value in sorted(verdict.values, key=str))
            return f"goes down, when one of {values} (rule {verdict.rule})"
        case Refuse():
            return f"refused: {verdict.text} (rule {verdict.rule})"
        case Drop():
            return f"left out: {verdict.why}"
        case Written():
            return f"followed: {verdict.text}" if verdict.text else "followed"
        case Fields() | Each():
            return "by its own fields"
