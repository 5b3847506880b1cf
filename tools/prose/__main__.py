"""Measure English prose: `python -m tools.prose [--list] [--record] [PATH...]`.

Without a path it measures the pages and the packages. The exit code is 1 if a limit is exceeded.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from tools.packages import ROOT
from tools.prose import limits, measurement, pages, ratchet
from tools.prose.limits import Row


def _percent(part: int, whole: int) -> str:
    return f"{100 * part / max(1, whole):.1f}%"


def _print_table(rows: Sequence[Row]) -> None:
    width = max(len(row.name) for row in rows)
    print(f"{'':{width}}  sent.   mean  p90  >35          ;            banned  begins  soft")
    for row in rows:
        words = sorted(s.words for s in row.sentences)
        count = len(words)
        over = sum(number > limits.LONGEST_WORDS for number in words)
        semicolons = sum(map(limits.has_semicolon, row.sentences))
        banned = sum(len(limits.banned(s)) for s in row.sentences)
        begins = sum(map(limits.is_headless, row.sentences))
        soft = sum(len(limits.soft(s)) for s in row.sentences)
        print(
            f"{row.name:{width}}  {count:5}  {row.mean:5.1f}  {words[int(0.9 * (count - 1))]:3}"
            f"  {over:4} {_percent(over, count):>6}  {semicolons:4}"
            f" {_percent(semicolons, count):>6}  {banned:6}  {begins:6}  {soft:4}"
        )


def _print_soft(rows: Sequence[Row]) -> None:
    for sentence in (sentence for row in rows for sentence in row.sentences):
        if words := limits.soft(sentence):
            print(f"{sentence.path}:{sentence.line}: check: {', '.join(words)}: {sentence.shown}")


def _record(*, is_raise_allowed: bool) -> int:
    found = ratchet.counted(pages.strict(ROOT))
    raised = ratchet.raised(found, ratchet.recorded()) if ratchet.FILE.exists() else []
    if raised and not is_raise_allowed:
        print(*raised, sep="\n", file=sys.stderr)
        print("error: numbers may only shrink: correct the new sentences", file=sys.stderr)
        return 1
    ratchet.record(found)
    print(f"{ratchet.FILE.relative_to(ROOT)}: {sum(found.values())} violations")
    return 0


def main(arguments: Sequence[str]) -> int:
    """Print the table, and the violations where asked for. Return 1 if there is a violation."""
    parser = argparse.ArgumentParser(prog="python -m tools.prose", description=__doc__)
    parser.add_argument("paths", nargs="*", metavar="PATH")
    parser.add_argument("--list", action="store_true", help="Print each violation")
    parser.add_argument("--soft", action="store_true", help="Print words that are often wrong")
    parser.add_argument("--each", action="store_true", help="One row for each Python file")
    parser.add_argument("--record", action="store_true", help="Lower the recorded numbers")
    parser.add_argument(
        "--raise", dest="is_raise_allowed", action="store_true", help="Record higher numbers, too"
    )
    chosen = parser.parse_args(arguments)
    if chosen.record:
        return _record(is_raise_allowed=chosen.is_raise_allowed)
    strict = map(str, pages.strict(ROOT))
    paths = chosen.paths or [*strict, *ratchet.PACKAGES]
    rows = measurement.measure(
        dict.fromkeys(measurement.files(paths)),
        row_of=str if chosen.each else measurement.package_folder,
    )
    if not rows:
        print("no prose found")
        return 0
    listed = [line for row in rows for line in row.listed()]
    if chosen.list:
        print(*listed, sep="\n")
    if chosen.soft:
        _print_soft(rows)
    if len(rows) > 1:
        rows.append(Row("total", [s for row in rows for s in row.sentences]))
    _print_table(rows)
    print(f"{len(listed)} violations" if listed else "within the limits")
    return 1 if listed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
