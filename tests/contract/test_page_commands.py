"""Each page with commands says in its front matter whether the tests run them.

The front matter has one of two forms:

- `commands: run` and `by`, the test file that runs the page
- `commands: not run`, `reason`, and `tried`: the date of the last try by hand, `never`, or
  `unrecorded`
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from datetime import date
from pathlib import Path
from typing import Any

import pytest
import yaml

from tools.packages import ROOT

_SECTIONS = ("Tutorials", "How to, platform administrator", "Walkthroughs")
"""Sections of the site whose pages have commands."""
_MATTER = re.compile(r"---\n(.*?)\n---\n", re.DOTALL)
_UNTRIED = ("never", "unrecorded")
_PATH = re.compile(r"\b(?:tests|docs|tools|bench|charts)(?:/[\w.-]*\w)+/?")


def read_sections() -> Mapping[str, tuple[str, ...]]:
    """Return the table SECTIONS of the site. Sphinx, which the file imports, is not installed."""
    for node in ast.parse((ROOT / "tools/docs/conf.py").read_text()).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "SECTIONS":
            found: dict[str, tuple[str, ...]] = eval(  # noqa: S307 - a literal of this repository
                compile(ast.Expression(node.value), "conf.py", "eval")
            )
            return found
    raise AssertionError("tools/docs/conf.py has no SECTIONS")


def list_pages() -> Iterator[Path]:
    sections = read_sections()
    for section in _SECTIONS:
        for pattern in sections[section]:
            yield from sorted(ROOT.glob(f"{pattern}.md"))


def find_faults(text: str) -> list[str]:
    """Return what is wrong with the front matter of a page."""
    found = _MATTER.match(text)
    if found is None:
        return ["the page has no front matter"]
    matter: dict[str, Any] = yaml.safe_load(found[1])
    if matter.get("commands") == "run":
        by = str(matter.get("by", ""))
        is_file = by.startswith("tests/") and (ROOT / by).is_file()
        return [] if is_file else [f"by: {by!r} is no test file"]
    if matter.get("commands") != "not run":
        return ["commands: must be `run` or `not run`"]
    faults = [] if len(str(matter.get("reason", ""))) > 20 else ["reason: is missing"]
    paths = _PATH.findall(str(matter.get("reason", "")))
    faults += [f"reason: {path} does not exist" for path in paths if not (ROOT / path).exists()]
    tried = matter.get("tried")
    if not isinstance(tried, date) and tried not in _UNTRIED:
        faults.append(f"tried: {tried!r} must be a date, never or unrecorded")
    return faults


PAGES = list(list_pages())


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_front_matter_reports_whether_the_commands_are_run(page: Path):
    assert find_faults(page.read_text()) == []


def test_all_sections_were_found():
    assert len(PAGES) > 15
    names = {page.name for page in PAGES}
    assert {"install-kind.md", "install-k3s.md", "first-tenant.md", "gitops.md"} <= names


@pytest.mark.parametrize(
    ("matter", "fault"),
    [
        ("commands: run\nby: tests/node/test_nothing.py", "is no test file"),
        ("commands: maybe", "must be"),
        ("commands: not run\ntried: never", "reason"),
        ("commands: not run\nreason: It needs hardware.....\ntried: soon", "must be a date"),
        ("commands: not run\nreason: It needs hardware.....", "must be a date"),
        ("commands: not run\nreason: See tests/drills for it.\ntried: never", "does not exist"),
    ],
)
def test_a_wrong_front_matter_is_found(matter: str, fault: str):
    assert fault in " ".join(find_faults(f"---\n{matter}\n---\n# Page\n"))


def test_a_page_without_front_matter_is_found():
    assert find_faults("# Page\n") == ["the page has no front matter"]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_that_is_run_names_a_test_that_reads_its_folder(page: Path):
    found = _MATTER.match(page.read_text())
    matter = yaml.safe_load(found[1]) if found else {}
    if matter.get("commands") == "run":
        assert page.parent.name in (ROOT / matter["by"]).read_text()


@pytest.mark.parametrize(
    "name",
    ["install-kind.md", "install-k3s.md", "install-managed.md", "move-from-vcluster.md"],
)
def test_pages_that_were_never_run_report_it_in_their_text(name: str):
    assert "**Not run.**" in (ROOT / "docs" / name).read_text()
