"""Rows of `kubectl vc doctor` that the user may not read."""

from tests.support.kubectl_vc.installation_faults import check


def test_missing_rights_are_unknown_and_name_the_kind():
    found = {each.check: each for each in check(nodes=None, leases=None)}
    assert {name for name, each in found.items() if each.state == "unknown"} == {
        *("nodes", "agents", "manager-lease", "syncer-lease"),
    }
    assert found["nodes"].message == "You may not read: nodes."
