"""Fields of a SuperCluster, and ambiguous addresses."""

import pytest

from tenancy import super_clusters
from tenancy.specs import InvalidSpecError
from tenancy.super_clusters import ClusterRanges


def body(name: str = "c2", **spec):
    return {"metadata": {"name": name}, "spec": spec}


def test_what_is_left_out_is_the_safe_side():
    spec = super_clusters.parse_spec(body(secretRef={"name": "c2"}))
    assert (spec.mode, spec.network.reachable, spec.server) == ("apiserver", False, "")


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (body(), "has no Secret"),
        (body("home", secretRef={"name": "x"}), "must not have a secretRef"),
        (body(secretRef={"name": 3}), "secretRef.name"),
        (body(secretRef={"name": "x"}, mode="magic"), "mode"),
    ],
)
def test_what_cannot_be_used_is_reported(found, words):
    with pytest.raises(InvalidSpecError, match=words):
        super_clusters.parse_spec(found)


def test_the_same_range_of_pods_in_two_clusters_is_reported():
    mine = ClusterRanges(pods=("10.244.0.0/16",), services=("10.96.0.0/12",))
    others = {
        "home": ClusterRanges(pods=("10.244.128.0/24",), services=("10.96.0.0/12",)),
        "c3": ClusterRanges(pods=("10.245.0.0/16",)),
    }
    assert super_clusters.find_overlaps(mine, others) == [
        "the pod range 10.244.0.0/16 overlaps 10.244.128.0/24 of home"
    ]


def test_pods_and_services_of_one_cluster_are_compared_too():
    (found,) = super_clusters.find_overlaps(
        ClusterRanges(pods=("10.96.3.0/24",), services=("10.96.0.0/12",)), {}
    )
    assert found == "the pod range 10.96.3.0/24 overlaps its own Service range 10.96.0.0/12"


def test_families_are_apart_and_what_is_no_network_is_left_out():
    mine = ClusterRanges(pods=("fd00::/64", "junk", ""))
    assert not super_clusters.find_overlaps(mine, {"c3": ClusterRanges(pods=("0.0.0.0/0", "none"))})
