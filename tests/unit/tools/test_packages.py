"""Modules and folders."""

from pathlib import Path

from tools import packages


def test_modules_without_init(tmp_path):
    (tmp_path / "p/q").mkdir(parents=True)
    for name in ("p/__init__.py", "p/a.py", "p/q/b.py"):
        (tmp_path / name).touch()
    assert list(packages.modules(["p"], tmp_path)) == [Path("p/a.py"), Path("p/q/b.py")]


def test_sixteen_modules_are_too_many():
    paths = [Path(f"a/{n}.py") for n in range(15)] + [Path(f"b/{n}.py") for n in range(16)]
    sizes = packages.folder_sizes(paths)
    assert sizes == {"a": 15, "b": 16}
    assert packages.crowded(sizes) == {"b"}
