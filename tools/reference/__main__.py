"""`python -m tools.reference [--check]`: write the reference pages, or compare them.

With `--check` the exit code is 1 if a page differs from the code.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from tools.packages import ROOT
from tools.reference import pages


def main(arguments: Sequence[str]) -> int:
    """Write each page that differs. Return 1 if `--check` is given and one differs."""
    is_check = "--check" in arguments
    stale = []
    for path, text in pages.build_pages().items():
        target = ROOT / path
        if target.exists() and target.read_text() == text:
            continue
        stale.append(path)
        if not is_check:
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text)
    for path in stale:
        print(f"{path}: {'is stale, run `make generate`' if is_check else 'written'}")
    return 1 if is_check and stale else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
