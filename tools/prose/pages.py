"""Pages, decisions and the Makefile, which are held to the limits without exception."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

_ROOT_PAGES = (
    *("README.md", "SECURITY.md", "CONTRIBUTING.md", "CHANGELOG.md", "ARCHITECTURE.md"),
    "Makefile",
)
_FOLDERS = (
    "docs",
    "docs/adr",
    "docs/reference",
    "docs/runbooks",
    "docs/tutorials",
    "docs/walkthroughs",
    "charts/virtual-cluster",
)


def strict(root: Path) -> Iterator[Path]:
    """Yield the pages, relative to the root."""
    yield from map(Path, _ROOT_PAGES)
    for folder in _FOLDERS:
        yield from sorted(path.relative_to(root) for path in (root / folder).glob("*.md"))
