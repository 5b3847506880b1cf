"""View of a VirtualClusterSnapshot, and the request to restore one."""

from datetime import UTC, datetime

import pytest

from tenancy import wellknown
from tenancy.snapshots import view
from tests.support.vcmanager.snapshots import snapshot_body


@pytest.mark.parametrize(
    ("claim", "allowed"),
    [
        ("snapshots", True),
        ("snapshots-nfs", True),
        ("data-etcd-0", False),
        ("snapshots-", False),
        ("snapshots/../x", False),
        ("", False),
    ],
)
def test_a_claim_of_etcd_is_never_a_place_for_snapshots(claim, allowed):
    body = snapshot_body()
    body["spec"]["storage"] = {"persistentVolumeClaim": {"claimName": claim}}
    if allowed:
        found = view.parse_snapshot(body)
        assert found.spec.storage.persistent_volume_claim.claim_name == claim
        return
    with pytest.raises(view.InvalidSnapshotError, match="the claim"):
        view.parse_snapshot(body)


def test_a_field_of_another_type_is_named():
    body = snapshot_body()
    body["spec"]["virtualClusterName"] = 7
    with pytest.raises(view.InvalidSnapshotError, match="virtualClusterName"):
        view.parse_snapshot(body)


def test_a_request_has_a_name_and_a_time():
    moment = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
    text = view.format_restore_request("first", moment)
    assert text == "first@2026-03-01T12:00:00Z"
    found = view.parse_restore_request({wellknown.RESTORE_SNAPSHOT: text})
    assert found is not None
    assert (found.snapshot, found.text) == ("first", text)
    other = view.parse_restore_request({wellknown.RESTORE_SNAPSHOT: f"{text}1"})
    assert other is not None
    assert other.job_name != found.job_name


@pytest.mark.parametrize("text", ["", "first", "@x", "a/b@x", "A@x", "../a@x"])
def test_any_other_text_is_no_request(text):
    assert view.parse_restore_request({wellknown.RESTORE_SNAPSHOT: text}) is None
    assert view.parse_restore_request({}) is None


def test_a_completion_that_is_no_time_never_expires():
    body = snapshot_body()
    body["spec"]["retention"] = {"keepFor": "1h"}
    body["status"]["completedAt"] = "yesterday"
    assert view.compute_expiry(view.parse_snapshot(body)) is None


S3 = {"endpoint": "https://s3.example.com:9000", "bucket": "tenants"}


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({}, ""),
        ({"prefix": "a/b/"}, ""),
        ({"caSecretName": "snapshots-ca"}, ""),
        ({"endpoint": "http://s3.example.com"}, "endpoint"),
        ({"endpoint": "https://s3.example.com/path"}, "endpoint"),
        ({"endpoint": "https://user@s3.example.com"}, "endpoint"),
        ({"bucket": "a/../b"}, "bucket"),
        ({"prefix": "no-slash"}, "prefix"),
        ({"prefix": "../"}, "prefix"),
        ({"prefix": "/"}, "prefix"),
        ({"region": "a b"}, "region"),
        ({"credentialsSecretName": "serving-ca"}, "credentials_secret_name"),
        ({"caSecretName": "serving-ca"}, "ca_secret_name"),
    ],
)
def test_a_bucket_names_no_secret_of_the_control_plane_and_no_other_key(changes, field):
    body = snapshot_body()
    body["spec"]["storage"] = {"s3": {**S3, **changes}}
    if not field:
        assert view.parse_snapshot(body).claim_name == ""
        return
    with pytest.raises(view.InvalidSnapshotError, match=f": {field} "):
        view.parse_snapshot(body)


@pytest.mark.parametrize(
    ("sha256", "storage", "is_allowed"),
    [("ab" * 32, {}, True), ("ab", {}, False), ("ab" * 32, {"s3": S3}, False)],
)
def test_an_imported_snapshot_has_a_checksum_and_a_claim(sha256, storage, is_allowed):
    body = snapshot_body()
    body["spec"].update(storage=storage, imported={"manifest": {"sha256": sha256}})
    if is_allowed:
        assert view.parse_snapshot(body).spec.imported is not None
        return
    with pytest.raises(view.InvalidSnapshotError, match=r"spec\.imported"):
        view.parse_snapshot(body)
