from vcmanager.runtime.etcd_stores import (
    DesiredStore,
    Member,
    MemberStatus,
    StoreRecords,
    StoreReport,
)
from vcmanager.runtime.keys import AGENT_TRUST_KEY

DESIRED = DesiredStore(owner=AGENT_TRUST_KEY, endpoints={}, peer_urls=(), replicas=1)


def report(**fields):
    given = {"reason": "R", "message": "m", "is_ready": True, **fields}
    return StoreReport(members=(Member(id="1", peer_url="u", ordinal=0),), **given)


def test_only_changes_are_reported_as_such():
    records = StoreRecords()
    assert records.set_desired("a", DESIRED)
    assert not records.set_desired("a", DESIRED)
    assert records.set_report("a", report())
    assert not records.set_report("a", report())
    # It changes with every object of the tenant, and no condition depends on it.
    assert not records.set_report("a", report(used_ratio=0.5))
    assert records.set_report("a", report(is_ready=False))


def test_a_deleted_tenant_has_no_report_even_if_a_check_ends_later():
    records = StoreRecords()
    records.set_desired("a", DESIRED)
    records.remove("a")
    assert not records.set_report("a", report())
    assert records.get_report("a") is None
    assert records.get_desired("a") is None


def test_free_pages_are_the_rest_of_the_file():
    assert MemberStatus(has_leader=True, size=10, used=4).free == 6
    assert MemberStatus(has_leader=True, size=3, used=4).free == 0
