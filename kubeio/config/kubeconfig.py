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

from kubeio.errors import CredentialsError

MAX_KUBECONFIG = 256 * 1024
"""Largest kubeconfig in bytes.

Kubeconfigs of this project have 6 KiB, and a Secret may hold a megabyte of YAML aliases.
"""
UNNAMED_TITLE = "the kubeconfig"
"""Name in messages of a kubeconfig that is in no file."""

_LISTS: Mapping[str, tuple[str, str]] = {
    "clusters": ("cluster", "server"),
    "users": ("user", "token"),
    "contexts": ("context", "cluster"),
}
"""For each list: the field of its entries beside the name, and an example of a field in it."""
_MAX_SHOWN_CONTEXTS = 20
"""Number of contexts that a message names."""
_YAML_VALUE_ERRORS = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)
"""Exceptions of YAML's own types, as for a date in a month that does not exist."""


@dataclass(frozen=True, slots=True, repr=False)
class KubeconfigSection:
    """An object of a kubeconfig. Its methods raise CredentialsProblem."""

    title: str
    """Name of the kubeconfig: its file."""
    where: str
    """Place in the kubeconfig, such as `clusters[0].cluster`. Empty: the whole."""
    fields: Mapping[str, Any]

    def describe_field(self, field: str = "") -> str:
        """Return the name of the object, or of a field of it, in messages."""
        return f"{self.title}: {'.'.join(part for part in (self.where, field) if part)}"

    def get_text(self, field: str) -> str:
        """Return a text without surrounding space. Empty if the field is missing."""
        value = self.fields.get(field)
        if value is None or value == "":
            return ""
        if not isinstance(value, str):
            raise CredentialsError(f"{self.describe_field(field)} is not a string. Quote it")
        return value.strip()

    def get_inline_data(self, field: str) -> bytes:
        """Return the decoded value of a base64 field."""
        try:
            return base64.b64decode(self.get_text(field), validate=True)
        except (binascii.Error, ValueError) as problem:
            raise CredentialsError(
                f"{self.describe_field(field)} is not base64. Write the output of `base64 -w0`"
            ) from problem

    def get_section(self, field: str, example: str) -> "KubeconfigSection":
        """Return the object in a field.

        `example` is one of its possible fields, for the message.
        """
        value = self.fields.get(field)
        if value is not None and not isinstance(value, dict):
            raise CredentialsError(
                f"{self.describe_field(field)} is not an object. It must have fields, such as"
                f" {example}"
            )
        inside = f"{self.where}.{field}" if self.where else field
        return KubeconfigSection(self.title, inside, value or {})

    def get_file(self, field: str) -> Path | None:
        """Return the file that a field names. A relative path starts at the kubeconfig's folder."""
        path = self.get_text(field)
        return Path(self.title).absolute().parent / path if path else None


@dataclass(frozen=True, slots=True, repr=False)
class Kubeconfig:
    """One kubeconfig, or several that are merged."""

    titles: tuple[str, ...]
    current_context: str
    """Name of the current context. May be empty."""
    lists: Mapping[str, Mapping[str, KubeconfigSection]]
    """Entries by list and name."""

    @property
    def title(self) -> str:
        """Return the name in messages."""
        return " and ".join(self.titles)

    def get_entry(self, many: str, name: str) -> KubeconfigSection:
        """Return the content of a list's entry. Raises CredentialsProblem."""
        found = self.lists[many].get(name)
        if found is None:
            raise CredentialsError(f"{self.title} has no {_LISTS[many][0]} {name!r} in {many}")
        return found

    def get_context(self, name: str = "", *, flag: str = "") -> KubeconfigSection:
        """Return a context, by default the current one. Raises CredentialsProblem.

        `flag` is the command-line flag that names a context. With it, the message lists the
        contexts. About a Secret the message lists none.
        """
        wanted, there = name or self.current_context, self.lists["contexts"]
        if wanted and wanted in there:
            return there[wanted]
        missing = f"context {wanted!r}" if wanted else "current-context"
        remedy = "Use the name of an existing context"
        if flag:
            shown = ", ".join([*there][:_MAX_SHOWN_CONTEXTS]) + (
                ", ..." if len(there) > _MAX_SHOWN_CONTEXTS else ""
            )
            remedy = f"Use {flag} NAME, with one of: {shown}" if there else "It has no contexts"
        raise CredentialsError(f"{self.title} has no {missing}. {remedy}")


def parse_kubeconfig(content: bytes, title: str = UNNAMED_TITLE) -> Kubeconfig:
    """Parse one kubeconfig. Raises CredentialsProblem for a wrong shape."""
    whole = KubeconfigSection(title, "", _load_document(content, title))
    lists = {many: _parse_entries(whole, many) for many in _LISTS}
    return Kubeconfig((title,), whole.get_text("current-context"), lists)


def merge_kubeconfigs(parts: Sequence[Kubeconfig]) -> Kubeconfig:
    """Merge files as kubectl does: the first definition of a name wins."""
    lists: dict[str, dict[str, KubeconfigSection]] = {many: {} for many in _LISTS}
    for part in reversed(parts):
        for many, entries in lists.items():
            entries.update(part.lists[many])
    current = next((part.current_context for part in parts if part.current_context), "")
    return Kubeconfig(tuple(title for part in parts for title in part.titles), current, lists)


def _parse_entries(whole: KubeconfigSection, many: str) -> dict[str, KubeconfigSection]:
    one, example = _LISTS[many]
    listed = whole.fields.get(many)
    if listed is not None and not isinstance(listed, list):
        raise CredentialsError(
            f"{whole.describe_field(many)} is not a list. It must have objects with name and {one}"
        )
    found: dict[str, KubeconfigSection] = {}
    for index, fields in enumerate(listed or ()):
        if not isinstance(fields, dict):
            raise CredentialsError(
                f"{whole.describe_field(many)}[{index}] is not an object. It must have name and"
                f" {one}"
            )
        entry = KubeconfigSection(whole.title, f"{many}[{index}]", fields)
        found.setdefault(entry.get_text("name"), entry.get_section(one, example))
    return found


def _load_document(content: bytes, title: str) -> dict[str, Any]:
    if len(content) > MAX_KUBECONFIG:
        raise CredentialsError(
            f"{title} has {len(content)} bytes, and the limit is {MAX_KUBECONFIG}"
        )
    try:
        document = yaml.load(content, Loader=_KubeconfigLoader)  # noqa: S506 - a SafeLoader, see below
    except (yaml.YAMLError, RecursionError, *_YAML_VALUE_ERRORS) as problem:
        # The parser's own message quotes the text around the fault, which may be a key.
        mark = getattr(problem, "problem_mark", None)
        where = f". See line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        raise CredentialsError(
            f"{title} is no kubeconfig: it is not the YAML of one document{where}"
        ) from problem
    if not isinstance(document, dict) or document.get("kind", "Config") != "Config":
        what = "it is empty" if document is None else "it is not an object of kind Config"
        raise CredentialsError(f"{title} is no kubeconfig: {what}")
    return document


class _KubeconfigLoader(yaml.SafeLoader):
    """YAML loader of plain data without aliases, because a few nested ones expand to gigabytes."""

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        if self.check_event(yaml.AliasEvent):
            mark = self.peek_event().start_mark  # type: ignore[no-untyped-call]
            raise yaml.MarkedYAMLError(problem="aliases are not allowed", problem_mark=mark)
        return super().compose_node(parent, index)
