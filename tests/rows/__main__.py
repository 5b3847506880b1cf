"""Write the table of rows into `docs/reliability.md`: `python -m tests.rows`."""

from __future__ import annotations

import sys

from tests.rows import carried, page, table
from tests.support import sections


def main() -> int:
    """Write the section; the exit code is 1 when a row has neither a test nor a reason."""
    found = carried.in_tests()
    rows = table.rows()
    problems = page.problems(rows, found)
    for problem in problems:
        print(problem, file=sys.stderr)
    text = page.PAGE.read_text() if page.PAGE.exists() else page.HEAD
    page.PAGE.write_text(sections.put(text, page.TITLE, page.render(rows, found)))
    print(page.summary(rows, found))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
