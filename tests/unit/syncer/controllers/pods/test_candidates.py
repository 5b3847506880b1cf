"""Labels of the clusters that a pod may be assigned to."""

from __future__ import annotations

from syncer.controllers.pods import candidates
from syncer.model.keys import NODE
from syncer.rules.placement.target_node import build_node_name
from tenancy import wellknown
from tests.support.syncer.sessions import put
from tests.support.syncer.two_clusters import SplitWorld


def test_a_label_that_is_over_counts_no_more_before_it_is_taken_off(split: SplitWorld):
    zone = "topology.kubernetes.io/zone"
    metadata = {
        "name": build_node_name("c2"),
        "uid": "v",
        "resourceVersion": "1",
        "labels": {zone: "z1", "disk": "fast"},
        "annotations": {wellknown.LABELS: f"type,{zone}"},
    }
    put(split.link.stores[NODE], {"metadata": metadata})
    assert split.far.target is not None
    found = candidates.get_target_node_labels(split.far)
    assert (zone in found, found["disk"], found["type"]) == (False, "fast", "virtual-kubelet")
