"""Flags, read from the types of parameters."""

import inspect
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import pytest

from kubectl_vc.commandline.declarations import Argument, Flag, Option, Positional, read_parameter


class Color(StrEnum):
    RED = "red"
    BLUE = "blue"


def read(annotation, default=inspect.Parameter.empty) -> Flag | Positional:
    kind = inspect.Parameter.KEYWORD_ONLY
    return read_parameter(inspect.Parameter("x", kind, annotation=annotation, default=default))


@pytest.mark.parametrize(
    ("annotation", "kind", "is_list", "spellings"),
    [
        (Annotated[str, Option("--name", "-n")], str, False, ("-n", "--name")),
        (Annotated[bool, Option("--wait/--no-wait")], bool, False, ("--wait", "--no-wait")),
        (Annotated[bool, Option("--no-noise")], bool, False, ("--no-noise",)),
        (Annotated[Path | None, Option("--path")], Path, False, ("--path",)),
        (Annotated[list[str] | None, Option("--label")], str, True, ("--label",)),
        (Annotated[list[Color] | None, Option("--color")], Color, True, ("--color",)),
    ],
)
def test_flags(annotation, kind, is_list, spellings):
    found = read(annotation)
    assert isinstance(found, Flag)
    assert (found.kind, found.is_list, found.spellings) == (kind, is_list, spellings)
    assert found.is_required
    assert found.choices == (("red", "blue") if kind is Color else ())


def test_a_default_makes_a_flag_optional():
    found = read(Annotated[bool, Option("--all", "-A")], False)
    assert isinstance(found, Flag)
    assert (found.is_required, found.default, found.title) == (False, False, "-A, --all")


def test_arguments():
    found = read(Annotated[str, Argument(metavar="[NAME]", help="Name")], "")
    assert isinstance(found, Positional)
    assert (found.metavar, found.is_required, found.after_dashes) == ("NAME", False, False)
