"""Kubeconfig document: its lists, entries and fields, and the place of each in its file.

Owns the shape, and how files are merged. Must not know the purpose of fields
(`kubeio.config.loading`). Pure.

Hazard: messages must name the place of a fault in the words of the format, and never quote values.
The bytes may be hostile or contain keys.
"""

import base64
import binascii
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from kubeio.errors import CredentialsProblem

MAX_KUBECONFIG = 256 * 1024
"""Largest kubeconfig in bytes.

Kubeconfigs of this project have 6 KiB, and a Secret may hold a megabyte of YAML aliases.
"""
UNNAMED = "the kubeconfig"
"""Name in messages of a kubeconfig that is in no file."""

_LISTS: Mapping[str, tuple[str, str]] = {
    "clusters": ("cluster", "server"),
    "users": ("user", "token"),
    "contexts": ("context", "cluster"),
}
"""For each list: the field of its entries beside the name, and an example of a field in it."""
_SHOWN = 20
"""Number of contexts that a message names."""
_ODD_VALUES = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)
"""Exceptions of YAML's own types, as for a date in a month that does not exist."""


@dataclass(frozen=True, slots=True, repr=False)
class Section:
    """An object of a kubeconfig. Its methods raise CredentialsProblem."""

    title: str
    """Name of the kubeconfig: its file."""
    where: str
    """Place in the kubeconfig, such as `clusters[0].cluster`. Empty: the whole."""
    fields: Mapping[str, Any]

    def place(self, field: str = "") -> str:
        """Return the name of the object, or of a field of it, in messages."""
        return f"{self.title}: {'.'.join(part for part in (self.where, field) if part)}"

    def text(self, field: str) -> str:
        """Return a text without surrounding space. Empty if the field is missing."""
        value = self.fields.get(field)
        if value is None or value == "":
            return ""
        if not isinstance(value, str):
            raise CredentialsProblem(f"{self.place(field)} is no text; quote it")
        return value.strip()

    def inline(self, field: str) -> bytes:
        """Return the decoded value of a base64 field."""
        try:
            return base64.b64decode(self.text(field), validate=True)
        except (binascii.Error, ValueError) as problem:
            raise CredentialsProblem(
                f"{self.place(field)} is not base64; write what `base64 -w0` prints"
            ) from problem

    def section(self, field: str, example: str) -> "Section":
        """Return the object in a field.

        `example` is one of its possible fields, for the message.
        """
        value = self.fields.get(field)
        if value is not None and not isinstance(value, dict):
            raise CredentialsProblem(
                f"{self.place(field)} is no object; it takes fields, such as {example}"
            )
        inside = f"{self.where}.{field}" if self.where else field
        return Section(self.title, inside, value or {})

    def file(self, field: str) -> Path | None:
        """Return the file that a field names. A relative path starts at the kubeconfig's folder."""
        path = self.text(field)
        return Path(self.title).absolute().parent / path if path else None


@dataclass(frozen=True, slots=True, repr=False)
class Kubeconfig:
    """One kubeconfig, or several that are merged."""

    titles: tuple[str, ...]
    current: str
    """Name of the current context. May be empty."""
    lists: Mapping[str, Mapping[str, Section]]
    """Entries by list and name."""

    @property
    def title(self) -> str:
        """Return the name in messages."""
        return " and ".join(self.titles)

    def named(self, many: str, name: str) -> Section:
        """Return the content of a list's entry. Raises CredentialsProblem."""
        found = self.lists[many].get(name)
        if found is None:
            raise CredentialsProblem(f"{self.title} has no {_LISTS[many][0]} {name!r} in {many}")
        return found

    def context(self, name: str = "", *, flag: str = "") -> Section:
        """Return a context, by default the current one. Raises CredentialsProblem.

        `flag` is the command-line flag that names a context. With it, the message lists the
        contexts. About a Secret the message lists none.
        """
        wanted, there = name or self.current, self.lists["contexts"]
        if wanted and wanted in there:
            return there[wanted]
        missing = f"context {wanted!r}" if wanted else "current-context"
        remedy = "name a context that it has"
        if flag:
            shown = ", ".join([*there][:_SHOWN]) + (", ..." if len(there) > _SHOWN else "")
            remedy = f"give {flag} NAME, with one of: {shown}" if there else "it has no contexts"
        raise CredentialsProblem(f"{self.title} has no {missing}; {remedy}")


def parse(content: bytes, title: str = UNNAMED) -> Kubeconfig:
    """Parse one kubeconfig. Raises CredentialsProblem for a wrong shape."""
    whole = Section(title, "", _document(content, title))
    lists = {many: _entries(whole, many) for many in _LISTS}
    return Kubeconfig((title,), whole.text("current-context"), lists)


def joined(parts: Sequence[Kubeconfig]) -> Kubeconfig:
    """Merge files as kubectl does: the first definition of a name wins."""
    lists: dict[str, dict[str, Section]] = {many: {} for many in _LISTS}
    for part in reversed(parts):
        for many, entries in lists.items():
            entries.update(part.lists[many])
    current = next((part.current for part in parts if part.current), "")
    return Kubeconfig(tuple(title for part in parts for title in part.titles), current, lists)


def _entries(whole: Section, many: str) -> dict[str, Section]:
    one, example = _LISTS[many]
    listed = whole.fields.get(many)
    if listed is not None and not isinstance(listed, list):
        raise CredentialsProblem(
            f"{whole.place(many)} is no list; it takes objects with name and {one}"
        )
    found: dict[str, Section] = {}
    for index, fields in enumerate(listed or ()):
        if not isinstance(fields, dict):
            raise CredentialsProblem(
                f"{whole.place(many)}[{index}] is no object; it takes name and {one}"
            )
        entry = Section(whole.title, f"{many}[{index}]", fields)
        found.setdefault(entry.text("name"), entry.section(one, example))
    return found


def _document(content: bytes, title: str) -> dict[str, Any]:
    if len(content) > MAX_KUBECONFIG:
        raise CredentialsProblem(
            f"{title} has {len(content)} bytes; at most {MAX_KUBECONFIG} are read"
        )
    try:
        document = yaml.load(content, Loader=_Loader)  # noqa: S506 - a SafeLoader, see below
    except (yaml.YAMLError, RecursionError, *_ODD_VALUES) as problem:
        # The parser's own message quotes the text around the fault, which may be a key.
        mark = getattr(problem, "problem_mark", None)
        where = f"; see line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        raise CredentialsProblem(f"{title} is not the YAML of one document{where}") from problem
    if not isinstance(document, dict) or document.get("kind", "Config") != "Config":
        raise CredentialsProblem(f"{title} is not an object of kind Config")
    return document


class _Loader(yaml.SafeLoader):
    """YAML loader of plain data without aliases, because a few nested ones expand to gigabytes."""

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        if self.check_event(yaml.AliasEvent):
            mark = self.peek_event().start_mark  # type: ignore[no-untyped-call]
            raise yaml.MarkedYAMLError(problem="aliases are not taken", problem_mark=mark)
        return super().compose_node(parent, index)
