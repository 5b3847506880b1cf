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
