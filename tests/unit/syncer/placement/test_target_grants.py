"""Which targets of a tenant are offered, known, and checked for twins."""

from __future__ import annotations

import pytest

from syncer.placement.target_grants import CONNECTING_SECONDS, TargetGrants
from tenancy.specs import TargetGrant
from tenancy.super_clusters import HOME


def create(*connected: str) -> TargetGrants:
    return TargetGrants(lambda: connected)


@pytest.mark.parametrize(
    ("granted", "offered"),
    [((), {HOME}), (("c2",), {"c2"}), ((HOME, "c2"), {HOME, "c2"})],
)
def test_without_a_grant_only_the_home_cluster_is_offered(granted, offered):
    grants = create()
    grants.update_granted({name: TargetGrant(name=name) for name in granted})
    assert {name for name in (HOME, "c2", "c3") if grants.is_offered(name)} == offered


@pytest.mark.parametrize(
    ("named", "wanted", "connected", "found"),
    [
        pytest.param(("c2",), ("c2",), (), "c2", id="named before, never connected"),
        pytest.param(("c2",), ("c2",), ("c2",), "", id="connected"),
        pytest.param((), ("c2",), (), "", id="named now, so it has nothing"),
        pytest.param(("c3", "c2"), (), ("c2",), "c3", id="withdrawn, and may have twins"),
    ],
)
def test_a_target_that_an_earlier_process_used_must_be_checked(named, wanted, connected, found):
    grants = create(*connected)
    grants.update_known(named, wanted)
    assert grants.find_unchecked() == found


def test_before_the_status_is_read_any_cluster_may_have_twins():
    grants = create("c2")
    assert grants.find_unchecked()
    assert not grants.is_status_read
    grants.update_known((), ())
    assert grants.is_status_read
    assert not grants.find_unchecked()


def test_a_target_stays_unused_until_its_session_begins():
    grants = create()
    grants.update_known((), ("c2",))
    grants.update_known(("c2",), ("c2",))
    assert grants.is_unused("c2")
    assert grants.is_known("c2")
    grants.mark_used("c2")
    assert not grants.is_unused("c2")
    grants.update_known((), ("c2",))
    assert not grants.is_unused("c2"), "it may have had objects since"


def test_pods_wait_a_moment_for_a_target_that_connects():
    grants = create()
    assert not grants.must_wait_for(["c2"], 0.0)
    grants.mark_connecting("c2", 5.0)
    assert grants.must_wait_for(["c2", "c3"], 5.0 + CONNECTING_SECONDS - 0.1)
    assert not grants.must_wait_for(["c3"], 5.0)
    assert not grants.must_wait_for(["c2"], 5.0 + CONNECTING_SECONDS)
