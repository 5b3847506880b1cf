"""Which long tests a landing runs because of what it changes."""

import subprocess
from pathlib import Path

import pytest

from tests.support import changed

WORDS = ("-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false")


class Repository:
    """A repository with commits that are landings or are not."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()
        self.git("init", "--quiet")
        self._number = 0

    def git(self, *words: str) -> str:
        command = ["git", "-C", str(self.folder), *WORDS, *words]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()

    def commit(self, *, landing: bool = False) -> str:
        """Return a further commit."""
        self._number += 1
        name = changed.LANDING if landing else Path("other")
        (self.folder / name).parent.mkdir(exist_ok=True)
        (self.folder / name).write_text(f"{self._number}\n")
        self.git("add", "--all")
        self.git("commit", "--quiet", "-m", "change")
        return self.git("rev-parse", "HEAD")


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Repository:
    found = Repository(tmp_path / "one")
    monkeypatch.setattr(changed, "ROOT", found.folder)
    return found


def test_a_landing_is_compared_with_the_landing_before(repository: Repository):
    repository.commit(landing=True)
    before = repository.commit(landing=True)
    repository.commit()
    repository.commit(landing=True)
    assert changed.before() == before


def test_what_is_not_landed_yet_is_compared_with_the_last_landing(repository: Repository):
    repository.commit(landing=True)
    last = repository.commit(landing=True)
    repository.commit()
    assert changed.before() == last


def test_the_first_landing_is_compared_with_the_commit_before(repository: Repository):
    parent = repository.commit()
    repository.commit(landing=True)
    assert changed.before() == parent


@pytest.mark.parametrize("landing", [False, True])
def test_without_history_nothing_is_chosen(
    repository: Repository, landing: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys
):
    repository.commit(landing=True)
    repository.commit(landing=landing)
    shallow = tmp_path / "shallow"
    repository.git("clone", "--quiet", "--depth=1", f"file://{repository.folder}", str(shallow))
    monkeypatch.setattr(changed, "ROOT", shallow)
    assert changed.before() is None
    assert changed.main(["tests/node"]) == 0
    said = capsys.readouterr()
    assert (said.out, "no landing before" in said.err) == ("", True)


def test_without_git_nothing_is_chosen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(changed, "ROOT", tmp_path)
    assert changed.before() is None


def test_the_files_that_a_text_imports():
    text = "import a.b\nfrom c.d import e, f\nfrom . import g\n"
    found = {"a/b.py", "c/d.py", "c/d/e.py", "c/d/f.py"}
    assert found <= changed.imported(text)
    assert "g.py" not in changed.imported(text)


def test_a_test_is_touched_by_itself_and_by_what_it_imports(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(changed, "ROOT", tmp_path)
    for name, text in (("test_a.py", "import x"), ("test_b.py", "import y"), ("test_c.py", "")):
        (tmp_path / name).write_text(text)
    files = [Path(name) for name in ("test_a.py", "test_b.py", "test_c.py")]
    assert changed.touched(files, {"x.py", "test_c.py"}) == (["test_c.py"], ["test_a.py"])


def test_what_fits_into_the_budget():
    took = {"a": 100.0, "b": 400.0, "c": 50.0}
    assert changed.fitting(["a", "b", "c"], took, 200.0) == (["a", "c"], ["b"])
