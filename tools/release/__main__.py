"""`python -m tools.release [FOLDER]`: build all files of a release (default: `dist/release`).

The files are the same for the same checkout. The exit code is 1 if a file cannot be built.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from tools.packages import ROOT
from tools.release import artifacts
from tools.testbed.errors import TestbedError
from tools.testbed.progress import StepPrinter


def main(arguments: Sequence[str]) -> int:
    """Build the files and print their checksums."""
    folder = Path(arguments[0]) if arguments else ROOT / "dist/release"
    try:
        sums = artifacts.build(folder, StepPrinter())
    except TestbedError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    print(sums, end="")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
