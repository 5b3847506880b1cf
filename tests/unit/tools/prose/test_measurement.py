"""Files and their rows."""

from pathlib import Path

import pytest

from tools.prose import measurement


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for name, text in {
        "syncer/app.py": '"""Module."""\n',
        "syncer/rules/pods/dns.py": '"""Module."""\n# A comment.\n',
        "syncer/rules/registry.py": '"""Module."""\n',
        "syncer/.cache/a.py": "broken(",
        "syncer/deploy.yaml": "# Not read, only charts are.\n",
        "charts/a.yaml": "# Read.\n",
        "docs/a.md": "# Title\n\nText.\n",
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def rows(root: Path, **options) -> dict[str, int]:
    paths = measurement.files(["syncer", "charts", "docs/a.md"], root)
    found = measurement.measure(paths, root=root, **options)
    return {row.name: len(row.sentences) for row in found}


def test_rows_are_pages_and_top_level_folders(root):
    found = rows(root)
    assert found == {"syncer": 1, "syncer/rules": 3, "charts/a.yaml": 1, "docs/a.md": 1}


def test_rows_are_modules_where_wanted(root):
    assert rows(root, row_of=str)["syncer/rules/pods/dns.py"] == 2
