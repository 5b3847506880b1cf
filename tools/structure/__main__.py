"""Print the structure of the packages: `python -m tools.structure [--record]`.

The exit code is 1 if there is a circle, or a crowded folder or a duplicate class name that is no
recorded exception.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from tools import packages
from tools.structure import classes, exceptions, imports, prose_figures, vocabulary


def _print_folders() -> None:
    sizes = packages.folder_sizes(packages.modules((*packages.PRODUCT, *packages.PROGRAMS)))
    crowded = packages.crowded(sizes)
    print(f"Modules per folder (at most {packages.FOLDER_MODULES}):")
    for folder, count in sizes.items():
        print(f"  {count:4}  {folder}{'  OVER THE LIMIT' if folder in crowded else ''}")


def _print_imports() -> int:
    """Print chains and circles. Return the number of circles."""
    graphs = imports.graphs(packages.PRODUCT)
    print("\nLongest import chain per package, in modules:")
    for package, graph in graphs.items():
        chain = imports.longest_chain(graph)
        print(f"  {len(chain):4}  {package}: {' > '.join(_short(m, package) for m in chain)}")
    circles = [circle for graph in graphs.values() for circle in imports.circles(graph)]
    print(f"\nImport circles: {len(circles)}")
    for circle in circles:
        print(f"  {', '.join(circle)}")
    return len(circles)


def _short(module: str, package: str) -> str:
    return module.removeprefix(f"{package}.")


def _print_names() -> None:
    paths = list(packages.modules(packages.PRODUCT))
    found = vocabulary.outside(paths, vocabulary.known())
    in_modules = {path for files in found.values() for path in files}
    print(
        f"\nModule names outside the standard list and the glossary: {len(found)} words in"
        f" {len(in_modules)} of {len(paths)} modules"
    )
    for word, files in found.items():
        print(f"  {word}: {', '.join(files)}")
    duplicates = classes.duplicates(paths)
    print(f"\nDuplicate class names: {len(duplicates)}")
    for name, files in duplicates.items():
        print(f"  {name}: {', '.join(files)}")


def _print_prose() -> None:
    rows: list[tuple[str, ...]] = [prose_figures.COLUMNS]
    for package in packages.PRODUCT:
        figures = prose_figures.of_modules(packages.modules([package]))
        rows.append((package, *figures.cells()))
    together = prose_figures.of_modules(packages.modules(packages.PRODUCT))
    rows += [("all packages", *together.cells()), *prose_figures.ANCHORS]
    widths = [max(len(row[n]) for row in rows) for n in range(len(rows[0]))]
    print("\nProse of docstrings, beside six projects:")
    for name, *cells in rows:
        numbers = (cell.rjust(width) for cell, width in zip(cells, widths[1:], strict=True))
        print(f"  {name:{widths[0]}}  {'  '.join(numbers)}")


def main(arguments: Sequence[str]) -> int:
    """Print all measurements, or record the exceptions."""
    parser = argparse.ArgumentParser(prog="python -m tools.structure", description=__doc__)
    parser.add_argument(
        "--record", action="store_true", help="Write the exceptions of test_structure.py"
    )
    chosen = parser.parse_args(arguments)
    found = exceptions.counted()
    if chosen.record:
        exceptions.record(found)
        print(f"{exceptions.FILE.relative_to(packages.ROOT)}: written")
        return 0
    _print_folders()
    circles = _print_imports()
    _print_names()
    _print_prose()
    allowed = exceptions.recorded()
    problems = [
        line
        for section, numbers in found.items()
        for line in exceptions.problems(numbers, allowed.get(section, {}))
    ]
    for problem in problems:
        print(problem, file=sys.stderr)
    return 1 if circles or problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
