"""Write the tables of rows into their pages: `python -m tools.rows [--results FILE ...]`.

`--modules` prints the files of the tests whose results are recorded, for a run of them.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

from tests.support import sections
from tools.rows import carried, findings, page, results, table


def main() -> int:
    """Write the sections. Return 1 if a row has neither a test nor a reason."""
    parser = argparse.ArgumentParser(prog="python -m tools.rows", description=__doc__)
    parser.add_argument(
        "--results", type=Path, nargs="+", default=[], metavar="FILE", help="JUnit reports of runs"
    )
    parser.add_argument("--modules", action="store_true", help="print them, and write nothing")
    asked = parser.parse_args()
    carrying = list(carried.in_tests(page.OFFLOAD.ids).values())
    wanted = {f"{test.module} {test.name}" for tests in carrying for test in tests}
    if asked.modules:
        print(*sorted({f"tests/{test.module}" for tests in carrying for test in tests}))
        return 0
    if asked.results:
        results.note(asked.results, wanted, _commit())
    said = []
    for one in page.PAGES:
        found = carried.in_tests(one.ids)
        rows = table.rows(one.rows)
        said += page.problems(one, rows, found)
        text = one.file.read_text() if one.file.exists() else one.head
        body = page.render(one, rows, found, results.known())
        one.file.write_text(sections.put(text, page.TITLE, body))
        print(f"{one.file.name}: {page.summary(rows, found)}")
    found_in_review = findings.read(findings.FILE.read_text())
    said += findings.find_problems(found_in_review)
    findings.PAGE.write_text(findings.render(found_in_review))
    for problem in said:
        print(problem, file=sys.stderr)
    return 1 if said else 0


def _commit() -> str:
    """Return the commit of the working tree, with a word where that has more."""
    asked = ["git", "describe", "--always", "--dirty", "--exclude=*"]
    return subprocess.run(asked, check=True, capture_output=True, text=True).stdout.strip()


if __name__ == "__main__":
    sys.exit(main())
