"""Each page with commands says in its front matter whether the tests run them.

The front matter has one of two forms:

- `commands: run` and `by`, the test file that runs the page. A page that also has commands in
  other blocks than `console` adds `reason`, why no test runs these, and `tried`
- `commands: not run`, `reason`, and `tried`

`tried` is the date of the last try by hand, `never`, or `unrecorded`. A date needs `steps`, the
commands that were tried and the cluster.
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
_SHORTEST = 20
"""Number of characters that a reason or a list of steps has at least."""
_FENCE = re.compile(r"^ *```(.*)$")
_FOR_PEOPLE = ("", "sh")
"""Kinds of blocks with commands that no test runs."""
_PROGRAMS = ("kubectl ", "helm ", "make ", "clusterctl ")
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
    faults: list[str] = []
    if matter.get("commands") == "run":
        by = str(matter.get("by", ""))
        if not (by.startswith("tests/") and (ROOT / by).is_file()):
            faults.append(f"by: {by!r} is no test file")
        if "reason" in matter or has_unrun_commands(text):
            faults += find_faults_of_try(matter)
    elif matter.get("commands") == "not run":
        faults += find_faults_of_try(matter)
    else:
        faults.append("commands: must be `run` or `not run`")
    return faults


def has_unrun_commands(text: str) -> bool:
    """Return whether a page has commands in a block that no test runs."""
    kind: str | None = None
    for line in text.splitlines():
        if mark := _FENCE.match(line):
            kind = mark[1].strip() if kind is None else None
        elif kind in _FOR_PEOPLE and line.strip().startswith(_PROGRAMS):
            return True
    return False


def find_faults_of_try(matter: Mapping[str, Any]) -> list[str]:
    """Return what is wrong with the fields about commands that no test runs."""
    reason, tried = str(matter.get("reason", "")), matter.get("tried")
    faults = [] if len(reason) > _SHORTEST else ["reason: is missing"]
    paths = _PATH.findall(f"{reason} {matter.get('steps', '')}")
    faults += [f"reason: {path} does not exist" for path in paths if not (ROOT / path).exists()]
    if not isinstance(tried, date) and tried not in _UNTRIED:
        faults.append(f"tried: {tried!r} must be a date, never or unrecorded")
    if isinstance(tried, date) is not (len(str(matter.get("steps", ""))) > _SHORTEST):
        faults.append("steps: must list the commands that were tried, and only with a date")
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
        ("commands: not run\nreason: It needs hardware.....\ntried: 2026-11-29", "steps"),
        ("commands: not run\ntried: never\nsteps: all of them, on the testbed", "only with"),
        ("commands: run\nby: tests/conftest.py\nreason: short\ntried: never", "reason"),
    ],
)
def test_a_wrong_front_matter_is_found(matter: str, fault: str):
    assert fault in " ".join(find_faults(f"---\n{matter}\n---\n# Page\n"))


@pytest.mark.parametrize("block", ["```\n", "```sh\n", "   ```\n   cd /tmp\n   "])
def test_a_block_that_no_test_runs_needs_a_reason(block: str):
    page = "---\ncommands: run\nby: tests/conftest.py\n{}---\n{}kubectl get pods\n```\n"
    assert find_faults(page.format("", block)) != []
    reason = "reason: The reader has another cluster.\ntried: never\n"
    assert find_faults(page.format(reason, block)) == []


@pytest.mark.parametrize("block", ["```console\n$ kubectl get pods\n", "```\nError: x\n"])
def test_a_block_that_a_test_runs_or_that_has_no_command_needs_none(block: str):
    page = f"---\ncommands: run\nby: tests/conftest.py\n---\n{block}```\nkubectl text\n"
    assert find_faults(page) == []


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
    assert "**Not run" in (ROOT / "docs" / name).read_text()
