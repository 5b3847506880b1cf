"""Who was there first, and what the others say."""

from tenancy.super_clusters import Ranges
from vcmanager.targets.overlaps import Neighbours


def body(name: str, made: str = "2026-01-01T00:00:00Z", **status):
    return {"metadata": {"name": name, "creationTimestamp": made}, "status": status}


def test_the_earlier_of_two_names_for_one_cluster_keeps_it():
    early = body("b", "2026-01-01T00:00:00Z", identity="x")
    late = body("a", "2026-01-02T00:00:00Z", identity="x")
    assert Neighbours("b", [early, late]).same("x") == ""
    assert Neighbours("a", [early, late]).same("x") == "b"
    assert Neighbours("a", [early, late]).same("y") == ""
    assert Neighbours("a", [body("a"), body("b")]).same("") == ""


def test_home_keeps_its_name_whenever_it_was_made():
    home = body("home", "2027-01-01T00:00:00Z", identity="x", version="v1.36.4")
    found = Neighbours("a", [body("a"), home])
    assert found.same("x") == "home"
    assert found.home is not None
    assert found.home.version == "v1.36.4"
    assert Neighbours("a", [body("a"), body("home")]).home is None


def test_ranges_of_others_are_told_and_an_odd_status_says_nothing():
    listed = [body("a"), body("b", network={"podCIDRs": ["10.0.0.0/8"]}), body("c", nodes="many")]
    found = Neighbours("a", listed)
    assert found.ranges() == {"b": Ranges(pods=("10.0.0.0/8",)), "c": Ranges()}
    assert found.names == ["b", "c"]


def test_one_that_is_gone_is_nobody():
    assert Neighbours("a", [body("b")]).mine is None
    assert Neighbours("a", [body("b", identity="x")]).same("x") == ""
