"""Prose of pages, packages and charts against the rules in CONTRIBUTING.

Pages with their tables, and decisions, are held to the limits. For packages and charts,
`prose.yaml` has the number of violations that is allowed today. The number may only shrink.
"""

from __future__ import annotations

import pytest

from tools.packages import ROOT
from tools.prose import measurement, pages, ratchet

STRICT = sorted(pages.strict(ROOT))


@pytest.mark.parametrize("page", STRICT, ids=str)
def test_page_is_plain_english(page):
    (row,) = measurement.measure([page], root=ROOT)
    assert row.listed() == []


def test_pages_and_decisions_are_checked():
    names = {str(page) for page in STRICT}
    assert {"README.md", "SECURITY.md", "docs/usage.md", "docs/runbooks/README.md"} <= names
    assert {"docs/adr/README.md", "docs/reference/rules.md"} <= names


def test_violations_only_shrink():
    problems = ratchet.problems(ratchet.counted(STRICT), ratchet.recorded())
    assert not problems, "\n".join(problems)
