"""The interpreter for what is measured."""

import platform
import subprocess
import sys

import pytest

from bench.programs import image_python


@pytest.fixture(autouse=True)
def fresh():
    image_python.python.cache_clear()
    yield
    image_python.python.cache_clear()


def test_without_the_images_root_it_is_this_environments_and_reports_report_it(monkeypatch):
    monkeypatch.setattr(image_python.debian, "known_root", lambda: None)
    script = "import orjson, syncer, sys; print(sys.executable)"
    words = [*image_python.python(), "-c", script]
    found = subprocess.run(words, capture_output=True, text=True, check=True, cwd="/")
    assert found.stdout.strip() == sys.executable
    assert (
        image_python.machine()["python"] == f"this environment's Python {platform.python_version()}"
    )


def test_reports_written_meanwhile_are_no_change_of_what_is_measured(monkeypatch, tmp_path):
    git = ["git", "-C", str(tmp_path), "-c", "user.name=x", "-c", "user.email=x@example"]
    monkeypatch.setattr(image_python, "ROOT", tmp_path)
    assert image_python.commit() == ""
    kept = tmp_path / "bench" / "results" / "x.json"
    kept.parent.mkdir(parents=True)
    for path in (kept, tmp_path / "code.py"):
        path.write_text("1")
    for words in (["init", "-q"], ["add", "."], ["commit", "-qm", "x"]):
        subprocess.run([*git, *words], check=True)
    clean = image_python.commit()
    kept.write_text("2")
    assert image_python.commit() == clean
    assert clean.isalnum()
    (tmp_path / "code.py").write_text("2")
    assert image_python.commit() == f"{clean}+"
