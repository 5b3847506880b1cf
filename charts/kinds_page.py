"""Generator of the users' page `docs/kinds.md`: each field of each kind, and how it is synced.

Owns the text around the tables. The tables are the ones that the syncer uses, so the page always
matches its behaviour. Must not decide.
"""

from collections.abc import Iterator, Mapping

from syncer.model.field_rules import (
    AllowMap,
    AllowScalar,
    AllowTree,
    AllowValues,
    BuiltField,
    DropField,
    FieldRule,
    ListOfObjects,
    ObjectFields,
    RefuseField,
)
from syncer.rules import field_rule_tables
from syncer.rules.pods import node_selection
from syncer.rules.registry import KINDS, SyncDirection

_HEAD = """\
# Sync of each field

Written by `python -m charts.generate` from the syncer's tables. Change it there.

The syncer copies your objects to the super cluster, the cluster that runs your pods. It builds each
copy field by field from the tables on this page. A field that no table lists is refused, so no
unchecked field can reach the super cluster.

A refused object gets one Event in your cluster with the field, the reason and the remedy. A new
object is not copied until you change it. If an object was synced before and a change is refused,
its copy keeps the last accepted state. The copy is deleted only if none of it may exist, because
the policy does not allow it, or because it would reach or block other tenants.

| Result | Meaning |
|---|---|
| synced | copied as you wrote it |
| synced if | copied for the listed values. Any other value refuses the object |
| refused | any value refuses the whole object |
| dropped | ignored without an Event, for the reason given |
| special | handled as described |

Rules for every kind:

- The name and namespace stay the same in your cluster.
- Labels are synced, except labels that control Kubernetes or an add-on. A pod has such a label
  under a translated key in the super cluster, and selectors of pods name that key. In your cluster
  nothing differs.
- Annotations without a prefix are synced, and a short list of annotations with a prefix. Any other
  annotation holds back an Ingress, and a Service of type LoadBalancer or NodePort. It is left out
  everywhere else. On a Service an Event names the field of the TenantPolicy that would allow it.
- ConfigMaps and Secrets are synced without labels.
- Finalizers and owner references stay in your cluster.
- In a status that is synced back, conditions and fields of your own controllers stay. The super
  cluster keeps the fields and condition types that it writes.
- Your edit of an object or field that the super cluster owns is reverted. The Event `SyncReverted`
  names the field and its owner.
- A policy of your platform administrator may allow more or less than these tables. The Event of a
  refused object is always right.
"""
_DIRECTION_TEXTS: Mapping[SyncDirection, str] = {
    SyncDirection.DOWN: "Your object is synced to the super cluster. Nothing is synced back.",
    SyncDirection.DOWN_UP: (
        "Your object is synced to the super cluster. Its status is synced back to your cluster."
    ),
}
_OTHER_KINDS_TEXTS = {
    "PersistentVolume": (
        "The volumes of your claims are shown in your cluster. A volume that you create is synced"
        " to the super cluster for a claim of yours that it is for, if the policy lists its source."
        " On the volume of your claim you may set `persistentVolumeReclaimPolicy` to `Retain` or"
        " `Delete`, unless the policy forbids it. Every other edit of such a volume is reverted."
    ),
}
"""Kinds with a flow of their own."""
_NODE_SECTION = """
## Node

Nodes are shown in your cluster, and you cannot create any. Your changes to a node are kept and
respected, although your cluster has no scheduler of its own.

| Your change to a node | Result |
|---|---|
{rows}
Some nodes are shown only while your pods run on them. Such a node stays as long as it has a label,
a taint or a cordon of yours. A node that is not shown yet has none of your labels. A pending pod
follows your labels, taints and cordons. A running pod stays where it is. If more than {named} nodes
match by your labels, each pod can use {named} of them, and different pods can use different nodes.
"""
_NODE_ROWS = {
    "your own labels and annotations": (
        "kept. A pod may select by a key that only your labels have, in a selector or an affinity."
        " Then the pod gets the names of the matching nodes when it is started. While no node"
        " matches, the pod is `Pending` with an Event `FailedScheduling`. It is checked again when"
        " your nodes change"
    ),
    "your own taints": (
        "kept. `NoSchedule` and `NoExecute` keep new pods away that do not tolerate them."
        " `NoExecute` also ends running pods that do not tolerate it. `PreferNoSchedule` is ignored"
    ),
    "`kubectl cordon`": (
        "kept. New pods that do not tolerate `node.kubernetes.io/unschedulable` are not started on"
        " the node. `kubectl drain` works"
    ),
    "labels, annotations, taints, addresses, conditions and capacity of the super cluster": (
        "reset to the values of the super cluster, with an Event `SyncReverted`"
    ),
    "`kubectl delete`": "the node is shown again when it is needed, without your changes",
}
_LARGE_TABLE_FIELDS = 6
"""Number of fields from which a table is referred to, instead of shown a second time."""


def build_page() -> str:
    """Return the whole page."""
    rows = {
        kind.resource.kind: _DIRECTION_TEXTS.get(kind.direction, "") for kind in KINDS
    } | _OTHER_KINDS_TEXTS
    return (
        _HEAD
        + "".join(_build_kind_section(name, flow) for name, flow in rows.items())
        + _build_node_section()
    )


def _build_node_section() -> str:
    rows = "".join(f"| {done} | {outcome} |\n" for done, outcome in _NODE_ROWS.items())
    return _NODE_SECTION.format(rows=rows, named=node_selection.MAX_NAMED_NODES)


def _build_kind_section(name: str, flow: str) -> str:
    lines = [f"\n## {name}\n\n{flow}\n"]
    for part in field_rule_tables.DOWNWARD_TABLES.get(name, ()):
        lines.append("\n| Field | Result |\n|---|---|\n")
        shown: dict[int, str] = {}
        for path, words in _iterate_rows(part.table, part.path, shown):
            lines.append(f"| `{path}` | {words} |\n")
    return "".join(lines)


def _iterate_rows(
    table: Mapping[str, FieldRule], root: str, shown: dict[int, str]
) -> Iterator[tuple[str, str]]:
    for name, verdict in table.items():
        path = f"{root}.{name}" if root else name
        if not isinstance(verdict, ObjectFields | ListOfObjects):
            yield path, describe_rule(verdict)
            continue
        path += "[]" if isinstance(verdict, ListOfObjects) else ""
        before = shown.get(id(verdict.fields))
        if before is not None and len(verdict.fields) >= _LARGE_TABLE_FIELDS:
            yield path, f"as `{before}`"
            continue
        shown.setdefault(id(verdict.fields), path)
        yield from _iterate_rows(verdict.fields, path, shown)


def describe_rule(verdict: FieldRule) -> str:  # noqa: PLR0911 - one for each verdict
    """Return the words for users of one verdict."""
    match verdict:
        case AllowScalar() | AllowMap():
            return "synced"
        case AllowTree():
            return f"synced, except fields of some names below it (rule {verdict.rule})"
        case AllowValues():
            if not verdict.values:
                return f"synced if the policy lists the value (rule {verdict.rule})"
            values = ", ".join(f"`{value}`" for value in sorted(verdict.values, key=str))
            return f"synced if one of {values} (rule {verdict.rule})"
        case RefuseField():
            return f"refused: {verdict.text} (rule {verdict.rule})"
        case DropField():
            return f"dropped: {verdict.reason}"
        case BuiltField():
            return f"special: {verdict.text}" if verdict.text else "special"
        case ObjectFields() | ListOfObjects():
            return "by its own fields"
