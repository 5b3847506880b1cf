"""The interpreter for what is measured."""

import subprocess

import pytest

from bench import shipped


@pytest.fixture(autouse=True)
def fresh():
    shipped.python.cache_clear()
    yield
    shipped.python.cache_clear()


def test_it_has_our_libraries():
    words = [
        *shipped.python(),
        "-c",
        "import orjson, uvloop, syncer, sys; print(sys.version_info[:2])",
    ]
    found = subprocess.run(words, capture_output=True, text=True, check=True, cwd="/")
    told = shipped.machine()["python"]
    assert found.stdout.strip("()\n").replace(", ", ".") in told


def test_one_that_is_not_there_is_not_taken(monkeypatch, tmp_path):
    monkeypatch.setattr(shipped, "DEBIAN", tmp_path / "python3")
    assert shipped.machine()["python"].startswith("this environment's Python 3.")


def test_reports_written_meanwhile_are_no_change_of_what_is_measured(monkeypatch, tmp_path):
    git = ["git", "-C", str(tmp_path), "-c", "user.name=x", "-c", "user.email=x@example"]
    monkeypatch.setattr(shipped, "ROOT", tmp_path)
    assert shipped.commit() == ""
    kept = tmp_path / "bench" / "results" / "x.json"
    kept.parent.mkdir(parents=True)
    for path in (kept, tmp_path / "code.py"):
        path.write_text("1")
    for words in (["init", "-q"], ["add", "."], ["commit", "-qm", "x"]):
        subprocess.run([*git, *words], check=True)
    clean = shipped.commit()
    kept.write_text("2")
    assert shipped.commit() == clean
    assert clean.isalnum()
    (tmp_path / "code.py").write_text("2")
    assert shipped.commit() == f"{clean}+"
