"""The reference pages and the navigation of the site match the code."""

from __future__ import annotations

import re

import pytest

from tools.packages import ROOT
from tools.reference import event_reasons, pages

PAGES = pages.build_pages()


@pytest.mark.parametrize("path", PAGES, ids=str)
def test_committed_page_is_what_the_generator_writes(path):
    assert (ROOT / path).read_text() == PAGES[path], "run `make generate`"


def test_each_reason_of_an_event_is_documented():
    found, documented = event_reasons.find_reasons(), set(event_reasons.load_table())
    assert "SyncRejected" in found
    assert found == documented, "tools/reference/event_reasons.yaml differs from the code"


@pytest.mark.parametrize("page", sorted((ROOT / "docs").rglob("*.md")), ids=lambda page: page.name)
def test_each_command_of_a_page_exists(page):
    verbs = set(re.findall(r"^## kubectl vc (.+)$", (PAGES[pages.FOLDER / "cli.md"]), re.MULTILINE))
    known = {word for verb in verbs for word in (verb, verb.split()[0])}
    shown = re.findall(r"^(?:\$ )?kubectl vc ((?:[a-z-]+ ?)+)", page.read_text(), re.MULTILINE)
    for words in shown:
        first, *rest = words.split()
        assert first in known, f"{page.name}: kubectl vc {first}"
        if first not in verbs:
            assert f"{first} {rest[0]}" in verbs, f"{page.name}: kubectl vc {words}"
