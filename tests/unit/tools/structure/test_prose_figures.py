"""Figures of docstrings."""

from pathlib import Path

from tools.structure import prose_figures


def test_figures_of_docstrings(tmp_path):
    words = " ".join(["pod"] * 26)
    (tmp_path / "a.py").write_text(f'"""{words}. It is what runs; it waits. Whose is it? Yes."""\n')
    found = prose_figures.of_modules([Path("a.py")], tmp_path)
    assert found.cells() == ("4", "9.0", "25 %", "25 %", "25 %", "25 %")
    assert len(found.cells()) == len(prose_figures.COLUMNS) - 1 == len(prose_figures.ANCHORS[0]) - 1
