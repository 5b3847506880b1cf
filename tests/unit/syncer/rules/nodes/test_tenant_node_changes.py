import pytest

from syncer.rules.nodes import tenant_node_changes
from syncer.rules.nodes.tenant_node_changes import NO_CHANGES, NodeAdditions, TenantTaint
from tenancy import wellknown

HOST = "kubernetes.io/hostname"
SUPER_LABELS = {HOST: "n", "topology.kubernetes.io/zone": "a", "internal.example/rack": "7"}
SPOT = {"key": "spot", "value": "yes", "effect": "NoSchedule"}


def node(*, labels=None, spec=None, taints_of_ours=""):
    annotations = {wellknown.UID: "n", wellknown.TAINTS: taints_of_ours}
    return {"metadata": {"labels": labels or {}, "annotations": annotations}, "spec": spec or {}}


@pytest.mark.parametrize(
    ("virtual_node", "view"),
    [
        (node(), "Standard"),
        (node(labels={HOST: "n"}), "Standard"),
        (node(labels=SUPER_LABELS), "Full"),
        (node(labels={wellknown.VIRTUAL_NODE: "true"}), "Standard"),
        (node(labels={"tier": 7}), "Standard"),
        (node(spec={"taints": [SPOT]}, taints_of_ours="spot:NoSchedule"), "Standard"),
        (node(spec={"taints": [{**SPOT, "effect": "PreferNoSchedule"}]}), "Standard"),
        (node(spec={"unschedulable": "true"}), "Standard"),
        ({}, "Standard"),
        ({"metadata": [], "spec": 7}, "Standard"),
    ],
    ids=[
        "nothing",
        "a label of the super node",
        "all labels of the super node",
        "a reserved label",
        "a label that is no text",
        "a taint of the super node",
        "a taint that repels no pod",
        "a cordon that is no boolean",
        "an empty object",
        "wrong types",
    ],
)
def test_node_without_changes_that_affect_pods(virtual_node, view):
    assert tenant_node_changes.read_additions(virtual_node, SUPER_LABELS, view) is None


@pytest.mark.parametrize(
    ("virtual_node", "keys", "taints", "is_cordoned"),
    [
        (node(labels={HOST: "n", "tier": "gold"}), {"tier"}, (), False),
        (node(spec={"taints": [SPOT]}), set(), (TenantTaint("spot", "yes", "NoSchedule"),), False),
        (
            node(spec={"taints": [{"key": "k", "effect": "NoExecute"}]}),
            set(),
            (TenantTaint("k", "", "NoExecute"),),
            False,
        ),
        (node(spec={"unschedulable": True}), set(), (), True),
    ],
    ids=["a label", "a taint", "a taint without a value", "a cordon"],
)
def test_changes_that_affect_pods(virtual_node, keys, taints, is_cordoned):
    found = tenant_node_changes.read_additions(virtual_node, SUPER_LABELS, "Standard")
    assert found is not None
    assert (found.own_label_keys, found.taints) == (keys, taints)
    assert found.is_cordoned is is_cordoned
    assert found.labels == virtual_node["metadata"]["labels"]


def test_label_that_a_narrower_view_hides_is_the_tenants():
    label = {"internal.example/rack": "7"}
    found = tenant_node_changes.read_additions(node(labels=label), SUPER_LABELS, "Minimal")
    assert found is not None
    assert found.own_label_keys == set(label)


def test_changes_of_all_nodes_are_combined():
    taint = TenantTaint("spot", "yes", "NoSchedule")
    labelled = NodeAdditions(frozenset({"tier"}), {"tier": "gold"}, (), False)
    tainted = NodeAdditions(frozenset(), {}, (taint,), False)
    cordoned = NodeAdditions(frozenset(), {}, (), True)
    found = tenant_node_changes.combine_additions({"c": cordoned, "b": tainted, "a": labelled})
    assert list(found.nodes) == ["a", "b", "c"]
    assert list(found.closed_nodes) == ["b", "c"]
    assert (found.label_keys, found.taint_keys) == ({"tier"}, {"spot"})
    assert tenant_node_changes.combine_additions({}) == NO_CHANGES
