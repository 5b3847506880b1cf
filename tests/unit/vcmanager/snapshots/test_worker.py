"""Steps in the pods of Jobs: each can be repeated, and a failure names its reason."""

import json
from pathlib import Path

import pytest

from tests.support.vcmanager.snapshots import write_database
from vcmanager import __main__ as program
from vcmanager.snapshots import worker


@pytest.fixture
def path(tmp_path: Path, monkeypatch) -> Path:
    (tmp_path / "log").write_text("")
    monkeypatch.setenv("TERMINATION_LOG", str(tmp_path / "log"))
    monkeypatch.delenv("SNAPSHOT_MANIFEST", raising=False)
    found = tmp_path / "s.db"
    write_database(found, [(2, "/registry/pods/default/a", False)])
    return found


def run(path: Path, *words: str) -> tuple[int, dict]:
    code = program.main([worker.PROGRAM, *words])
    return code, json.loads((path.parent / "log").read_text())


def test_the_manifest_beside_the_file_has_both_parts(path, monkeypatch):
    monkeypatch.setenv("SNAPSHOT_MANIFEST", json.dumps({"virtualClusterUID": "u"}))
    code, result = run(path, "record", str(path))
    assert code == 0
    assert (result["revision"], result["objects"]) == (2, 1)
    beside = json.loads(path.with_suffix(".json").read_text())
    assert beside == {**result, "virtualClusterUID": "u", "resources": {"pods": 1}}


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["verify", "{path}", "--sha256", "00"], "ChecksumMismatch"),
        (["verify", "{path}.none"], "SnapshotFileMissing"),
    ],
)
def test_a_failure_has_a_reason(path, words, reason):
    code, result = run(path, *(word.format(path=path) for word in words))
    assert (code, result["reason"]) == (1, reason)


def test_a_full_volume_is_named_before_anything_is_changed(path, monkeypatch):
    folder = path.parent / "etcd"
    (folder / "data").mkdir(parents=True)
    usage = type("Usage", (), {"free": 1000})
    monkeypatch.setattr(worker.shutil, "disk_usage", lambda _: usage)
    code, result = run(path, "verify", str(path), "--data-dir", str(folder))
    assert (code, result["reason"]) == (1, "VolumeFull")
    assert "1000 bytes free" in result["message"]
    assert (folder / "data").is_dir()


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({"data": "old", "restored": "new"}, "new"),
        ({"replaced": "old", "restored": "new"}, "new"),
        ({"data": "new", "replaced": "old"}, "new"),
        ({"data": "old", "restored": "new", "replaced": "older"}, "new"),
    ],
)
def test_a_swap_ends_right_wherever_it_was_killed(path, before, after):
    folder = path.parent / "etcd"
    for name, content in before.items():
        (folder / name).mkdir(parents=True)
        (folder / name / "member").write_text(content)
    assert run(path, "swap", "--data-dir", str(folder))[0] == 0
    assert [each.name for each in folder.iterdir()] == ["data"]
    assert (folder / "data/member").read_text() == after


@pytest.mark.parametrize(
    "before",
    [
        {"data": "old"},
        {"data": "old", "restored": "half"},
        {"replaced": "old", "restored": "half"},
        {"data": "old", "replaced": "older"},
    ],
)
def test_before_a_restore_the_present_data_has_its_place(path, before, monkeypatch):
    folder = path.parent / "etcd"
    for name, content in before.items():
        (folder / name).mkdir(parents=True)
        (folder / name / "member").write_text(content)
    monkeypatch.setattr(worker, "_MARGIN_BYTES", 0)
    assert run(path, "verify", str(path), "--data-dir", str(folder))[0] == 0
    assert [each.name for each in folder.iterdir()] == ["data"]
    assert (folder / "data/member").read_text() == "old"


def test_a_swap_without_restored_data_fails(path):
    folder = path.parent / "etcd"
    folder.mkdir()
    assert run(path, "swap", "--data-dir", str(folder))[0] == 1


def test_a_delete_can_be_repeated(path):
    for _ in range(2):
        assert run(path, "delete", str(path)) == (0, {"deleted": True})
    assert not path.exists()


def test_a_comparison_counts_by_resource_and_names_the_first():
    saved = {"/registry/pods/default/a": 2, "/registry/secrets/default/s": 3}
    live = {"/registry/secrets/default/s": 9} | {
        f"/registry/pods/default/new-{number:02}": 10 for number in range(30)
    }
    found = worker.compare_keys(saved, live)
    assert found["removed"] == {"pods": 30}
    assert found["broughtBack"] == {"pods": 1}
    assert found["reverted"] == {"secrets": 1}
    assert found["removedNames"][0] == "pods/default/new-00"
    assert len(found["removedNames"]) == 20
    assert len(json.dumps(found)) < 4096
