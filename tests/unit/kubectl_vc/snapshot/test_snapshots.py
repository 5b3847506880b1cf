"""Texts and objects of `kubectl vc snapshot`."""

from datetime import UTC, datetime

import pytest

from kubectl_vc.output.cli_errors import CliError
from kubectl_vc.snapshot import snapshots
from kubectl_vc.snapshot.snapshots import SaveOptions
from tests.support.vcmanager.snapshots import snapshot_body

NOW = datetime(2026, 3, 1, 12, 0, 5, tzinfo=UTC)


def body(status="True", reason="Saved", message="The snapshot is saved."):
    found = snapshot_body(objects=7)
    condition = {"type": "Complete", "status": status, "reason": reason, "message": message}
    found["status"]["conditions"] = [condition]
    return found


def test_the_name_is_given_or_has_the_time():
    named = snapshots.build_snapshot("web", SaveOptions(snapshot="before"), NOW)
    assert named["metadata"]["name"] == "before"
    assert "retention" not in named["spec"]
    found = snapshots.build_snapshot("web", SaveOptions(keep_for="168h", claim="snapshots-b"), NOW)
    assert found["metadata"]["name"] == "web-20260301-120005"
    assert found["spec"] == {
        "virtualClusterName": "web",
        "storage": {"persistentVolumeClaim": {"claimName": "snapshots-b"}},
        "retention": {"keepFor": "168h"},
    }


def test_the_table_has_what_a_person_chooses_by():
    table = snapshots.build_table([body()], now=NOW, everywhere=False)
    assert table.splitlines()[0].split() == [
        *("NAME", "TENANT", "PHASE", "SIZE", "OBJECTS", "VERSION", "AGE"),
    ]
    assert table.splitlines()[1].split() == [
        *("first", "vc-1", "Complete", "24608", "7", "v1.36.1", "60m"),
    ]
    assert snapshots.build_table([body()], now=NOW, everywhere=True).startswith("NAMESPACE")


def test_the_manifest_is_printed_with_its_checksums():
    found = body()
    found["status"]["manifest"]["secrets"] = {"root-ca": "cd"}
    text = snapshots.describe_manifest(found)
    assert "sha256: abab" in text
    assert "  root-ca: cd\n" in text


def test_a_failed_snapshot_is_an_error_with_its_reason():
    assert snapshots.is_ended(body())
    assert not snapshots.is_ended(body("Unknown"))
    snapshots.check_complete(body())
    with pytest.raises(CliError, match=r"VolumeFull\): the volume of snapshots is full"):
        snapshots.check_complete(body("False", "VolumeFull", "the volume of snapshots is full."))
    with pytest.raises(CliError, match="vc-manager has not processed it yet"):
        snapshots.check_complete(snapshot_body())
