"""Types of the tables of bad values."""

from __future__ import annotations

from typing import Any, NamedTuple


class BadField(NamedTuple):
    """A value that a field must not have.

    A path is `spec.targets[].name`, with `{}` for each value of a map and `{key}` for its keys.
    """

    kind: str
    path: str
    value: Any
    sentence: str
    """Part of the message of the refusal, with what to do."""


class ForbiddenChange(NamedTuple):
    """A change of a field that an API server refuses. None is a field that is left out."""

    kind: str
    path: str
    before: Any
    after: Any
    sentence: str
