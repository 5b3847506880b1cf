"""The first owner of a range, and the conditions of the others."""

from tenancy.super_clusters import ClusterRanges
from vcmanager.targets.overlaps import PeerClusters


def body(name: str, made: str = "2026-01-01T00:00:00Z", **status):
    return {"metadata": {"name": name, "creationTimestamp": made}, "status": status}


def test_the_earlier_of_two_names_for_one_cluster_keeps_it():
    early = body("b", "2026-01-01T00:00:00Z", identity="x")
    late = body("a", "2026-01-02T00:00:00Z", identity="x")
    assert PeerClusters("b", [early, late]).find_duplicate("x") == ""
    assert PeerClusters("a", [early, late]).find_duplicate("x") == "b"
    assert PeerClusters("a", [early, late]).find_duplicate("y") == ""
    assert PeerClusters("a", [body("a"), body("b")]).find_duplicate("") == ""


def test_home_keeps_its_name_whenever_it_was_made():
    home = body("home", "2027-01-01T00:00:00Z", identity="x", version="v1.36.4")
    found = PeerClusters("a", [body("a"), home])
    assert found.find_duplicate("x") == "home"
    assert found.home_status is not None
    assert found.home_status.version == "v1.36.4"
    assert PeerClusters("a", [body("a"), body("home")]).home_status is None


def test_ranges_of_others_are_reported_and_an_odd_status_reports_nothing():
    listed = [body("a"), body("b", network={"podCIDRs": ["10.0.0.0/8"]}), body("c", nodes="many")]
    found = PeerClusters("a", listed)
    assert found.get_ranges() == {"b": ClusterRanges(pods=("10.0.0.0/8",)), "c": ClusterRanges()}
    assert found.list_names == ["b", "c"]


def test_a_deleted_cluster_overlaps_nothing():
    assert PeerClusters("a", [body("b")]).own is None
    assert PeerClusters("a", [body("b", identity="x")]).find_duplicate("x") == ""
