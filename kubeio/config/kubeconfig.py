"""The document of a kubeconfig: its lists, entries and fields, and where in which file each is.

Owns the shape, and how files join. Must not know what the fields are for (`kubeio.config.loading`).
Pure. Hazard: the bytes may be hostile or hold keys, so a message tells the place of a fault, in the
words of the format, and never what stands there.
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
"""Bytes; ours have 6 KiB, and a Secret may hold a megabyte of YAML aliases."""
UNNAMED = "the kubeconfig"
"""What messages call one that is in no file."""

_LISTS: Mapping[str, tuple[str, str]] = {
    "clusters": ("cluster", "server"),
    "users": ("user", "token"),
    "contexts": ("context", "cluster"),
}
"""Each list, with what its entries hold beside a name, and a field of that."""
_SHOWN = 20
"""Contexts that a message names."""
_ODD_VALUES = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)
"""What YAML's own types raise, as for a date in a month that there is not."""


@dataclass(frozen=True, slots=True, repr=False)
class Section:
    """An object of a kubeconfig. What its methods raise is CredentialsProblem."""

    title: str
    """Of the kubeconfig: its file."""
    where: str
    """Place in the kubeconfig, such as `clusters[0].cluster`; empty: it is the whole."""
    fields: Mapping[str, Any]

    def place(self, field: str = "") -> str:
        """Return what messages call the object, or a field of it."""
        return f"{self.title}: {'.'.join(part for part in (self.where, field) if part)}"

    def text(self, field: str) -> str:
        """Return a text without the space around it; empty when it is not there."""
        value = self.fields.get(field)
        if value is None or value == "":
            return ""
        if not isinstance(value, str):
            raise CredentialsProblem(f"{self.place(field)} is no text; quote it")
        return value.strip()

    def inline(self, field: str) -> bytes:
        """Return what base64 stands for."""
        try:
            return base64.b64decode(self.text(field), validate=True)
        except (binascii.Error, ValueError) as problem:
            raise CredentialsProblem(
                f"{self.place(field)} is not base64; write what `base64 -w0` prints"
            ) from problem

    def section(self, field: str, example: str) -> "Section":
        """Return the object in a field; `example` is one that it may have."""
        value = self.fields.get(field)
        if value is not None and not isinstance(value, dict):
            raise CredentialsProblem(
                f"{self.place(field)} is no object; it takes fields, such as {example}"
            )
        inside = f"{self.where}.{field}" if self.where else field
        return Section(self.title, inside, value or {})

    def file(self, field: str) -> Path | None:
        """Return the file that a field names, beside the kubeconfig when it is relative."""
        path = self.text(field)
        return Path(self.title).absolute().parent / path if path else None


@dataclass(frozen=True, slots=True, repr=False)
class Kubeconfig:
    """One kubeconfig, or several that are joined."""

    titles: tuple[str, ...]
    current: str
    """Name of the context that is meant when none is named; may be empty."""
    lists: Mapping[str, Mapping[str, Section]]
    """By list and name."""

    @property
    def title(self) -> str:
        """What messages call it."""
        return " and ".join(self.titles)

    def named(self, many: str, name: str) -> Section:
        """Return what an entry of a list holds. Raises CredentialsProblem."""
        found = self.lists[many].get(name)
        if found is None:
            raise CredentialsProblem(f"{self.title} has no {_LISTS[many][0]} {name!r} in {many}")
        return found

    def context(self, name: str = "", *, flag: str = "") -> Section:
        """Return a context, the current one without a name. Raises CredentialsProblem.

        `flag` is how a person names one, and is told what there is; nobody is about a Secret.
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
    """Read one. Raises CredentialsProblem for what is not of its shape."""
    whole = Section(title, "", _document(content, title))
    lists = {many: _entries(whole, many) for many in _LISTS}
    return Kubeconfig((title,), whole.text("current-context"), lists)


def joined(parts: Sequence[Kubeconfig]) -> Kubeconfig:
    """Join files as kubectl does: the first to name something wins."""
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
    """Plain data only, and no aliases: a few nested ones spell gigabytes."""

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        if self.check_event(yaml.AliasEvent):
            mark = self.peek_event().start_mark  # type: ignore[no-untyped-call]
            raise yaml.MarkedYAMLError(problem="aliases are not taken", problem_mark=mark)
        return super().compose_node(parent, index)
