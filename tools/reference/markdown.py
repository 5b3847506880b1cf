"""Markdown of the reference pages: head, tables and cells."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def build_head(title: str, source: str, purpose: str) -> str:
    """Return the first lines of a page. `source` is the file to change instead of the page."""
    return f"# {title}\n\nWritten by `make generate` from {source}. Change it there.\n\n{purpose}\n"


def build_table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table. Line breaks and bars in cells are escaped."""
    lines = [f"| {' | '.join(columns)} |", f"|{'---|' * len(columns)}"]
    lines += [f"| {' | '.join(map(escape_cell, row))} |" for row in rows]
    return "\n".join(lines) + "\n"


def escape_cell(text: str) -> str:
    """Return text that cannot end its cell."""
    return " ".join(text.split()).replace("|", "\\|")


def quote(text: str) -> str:
    """Return text as code. Empty text stays empty."""
    return f"`{text}`" if text else ""
