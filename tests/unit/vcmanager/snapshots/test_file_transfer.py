"""Streams of a snapshot file: a part of it, and an upload that leaves no half file."""

import hashlib
import io
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from vcmanager.snapshots import worker

CONTENT = b"0123456789"
CHECKSUM = hashlib.sha256(CONTENT).hexdigest()


@pytest.fixture(autouse=True)
def log(tmp_path: Path, monkeypatch) -> Path:
    (tmp_path / "log").write_text("")
    monkeypatch.setenv("TERMINATION_LOG", str(tmp_path / "log"))
    return tmp_path / "log"


def test_a_file_is_sent_from_an_offset(tmp_path, monkeypatch):
    (tmp_path / "a.db").write_bytes(CONTENT)
    out = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", SimpleNamespace(buffer=out))
    assert worker.main(["send", str(tmp_path / "a.db"), "--offset=4"]) == 0
    assert out.getvalue() == CONTENT[4:]


def test_a_missing_file_writes_nothing_to_the_stream(tmp_path, capfdbinary):
    assert worker.main(["send", str(tmp_path / "b.db"), "--offset=0"]) == 1
    out, err = capfdbinary.readouterr()
    assert out == b""
    assert b"SnapshotFileMissing" in err


@pytest.mark.parametrize(
    ("content", "code", "text"),
    [
        (CONTENT, 0, CHECKSUM),
        (CONTENT + b"more", 0, CHECKSUM),
        (CONTENT[:5], 1, "the stream ended 5 bytes before"),
        (b"x" * len(CONTENT), 1, "ChecksumMismatch"),
    ],
)
def test_only_the_announced_content_becomes_a_file(
    log, monkeypatch, content: bytes, code: int, text: str
):
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(content)))
    tmp_path = log.parent
    words = ["receive", str(tmp_path / "a.db"), f"--size={len(CONTENT)}", f"--sha256={CHECKSUM}"]
    assert worker.main(words) == code
    assert text in log.read_text()
    names = {each.name for each in tmp_path.iterdir()} - {"log"}
    assert names == (set() if code else {"a.db"})


def test_the_pod_is_held_for_a_time(tmp_path, log):
    assert worker.main(["hold", "--seconds=0"]) == 0
    assert "held" in log.read_text()
