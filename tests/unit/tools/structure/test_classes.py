"""Duplicate class names."""

from pathlib import Path

from tools.structure import classes


def test_same_name_in_two_modules(tmp_path):
    (tmp_path / "a.py").write_text("class One: ...\nclass Two: ...\n")
    (tmp_path / "b.py").write_text("def f():\n    class _One: ...\n")
    assert classes.duplicates([Path("a.py"), Path("b.py")], tmp_path) == {"One": ["a.py", "b.py"]}
