"""Rows of sentences, one for each page, chart file and top-level folder of a package."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from tools.prose import makefile, manifests, markdown, python_source
from tools.prose.limits import Row
from tools.prose.sentences import Line, Sentence, split

_WALKED = {".md", ".py"}
_WALKED_IN_CHARTS = {*_WALKED, ".yaml", ".tpl", ".txt", ".json"}


def package_folder(path: Path) -> str:
    """Return the row of a Python module: its package, or the top-level folder in the package."""
    return "/".join(path.parent.parts[:2])


def measure(
    paths: Iterable[Path],
    *,
    root: Path = Path(),
    row_of: Callable[[Path], str] = package_folder,
) -> list[Row]:
    """Return the rows of files, whose paths are relative to the root."""
    rows: dict[str, Row] = {}
    for path in paths:
        name = row_of(path) if path.suffix == ".py" else str(path)
        text = (root / path).read_text(encoding="utf-8")
        found = rows.setdefault(name, Row(name))
        found.sentences += sentences(str(path), text)
    return [row for row in rows.values() if row.sentences]


def sentences(path: str, text: str) -> Iterator[Sentence]:
    """Yield the sentences of a file. Its suffix decides how it is read. A Makefile has none."""
    match Path(path).suffix:
        case ".md" | ".txt":
            yield from _split(path, markdown.paragraphs(text))
        case "":
            yield from _split(path, makefile.paragraphs(text))
        case ".yaml" | ".yml" | ".tpl":
            yield from _split(path, manifests.comments(text))
            yield from _split(path, manifests.template_comments(text))
            yield from _split(path, manifests.texts(text))
        case ".json":
            yield from _split(path, manifests.texts(text))
        case ".py":
            nodes = python_source.nodes(text)
            yield from _split(path, python_source.docstrings(nodes))
            yield from _split(path, python_source.comments(text))
            for block in python_source.messages(nodes):
                yield from split(path, block, is_message=True)


def files(paths: Iterable[str], root: Path = Path()) -> Iterator[Path]:
    """Yield files, and of folders the pages and modules, without hidden folders.

    Manifests and schemas of `charts` are files of prose as well.
    """
    for path in map(Path, paths):
        if not (root / path).is_dir():
            yield path
            continue
        suffixes = _WALKED_IN_CHARTS if path.parts[:1] == ("charts",) else _WALKED
        for found in sorted((root / path).rglob("*")):
            parts = found.relative_to(root / path).parts
            if found.suffix in suffixes and not any(p.startswith(".") for p in parts):
                yield found.relative_to(root)


def _split(path: str, blocks: Iterable[list[Line]]) -> Iterator[Sentence]:
    for block in blocks:
        yield from split(path, block)
