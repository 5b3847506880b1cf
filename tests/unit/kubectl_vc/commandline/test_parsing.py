"""The parser, with a verb of its own."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import pytest

from kubectl_vc.commandline import parsing
from kubectl_vc.commandline.commands import Command, CommandGroup
from kubectl_vc.commandline.declarations import Argument, Option
from kubectl_vc.output.cli_errors import UsageError


class Color(StrEnum):
    RED = "red"
    BLUE = "blue"


def paint(
    *,
    name: Annotated[str, Argument(metavar="NAME", help="Name of the wall")],
    command: Annotated[
        list[str] | None, Argument(metavar="-- COMMAND", after_dashes=True, help="Command")
    ] = None,
    namespace: Annotated[str, Option("--namespace", "-n")] = "",
    everywhere: Annotated[bool, Option("--all", "-A")] = False,
    wait: Annotated[bool, Option("--wait/--no-wait")] = True,
    silent: Annotated[bool, Option("--no-noise")] = False,
    color: Annotated[Color | None, Option("--color")] = None,
    coats: Annotated[int, Option("--coats", min=1, max=9)] = 1,
    label: Annotated[list[str] | None, Option("--label", "-l")] = None,
    path: Annotated[Path | None, Option("--path")] = None,
    dry_run: Annotated[Color, Option("--dry-run", bare="blue")] = Color.RED,
) -> None:
    """Paint a wall."""


COMMAND = Command("paint", paint)
DEFAULTS = parsing.parse_words(COMMAND, ["w"])


def parse(*words: str) -> dict:
    """Return what differs from the defaults."""
    found = parsing.parse_words(COMMAND, words)
    return {key: value for key, value in found.items() if value != DEFAULTS[key] or key == "x"}


@pytest.mark.parametrize(
    ("words", "values"),
    [
        (["w", "-n", "x"], {"namespace": "x"}),
        (["-nx", "w"], {"namespace": "x"}),
        (["w", "-n=x"], {"namespace": "x"}),
        (["w", "--namespace=x=y"], {"namespace": "x=y"}),
        (["w", "--namespace", "--all"], {"namespace": "--all"}),
        (["w", "-An", "x"], {"everywhere": True, "namespace": "x"}),
        (["w", "-A=false"], {}),
        (["--all", "w"], {"everywhere": True}),
        (["w", "--wait=false"], {"wait": False}),
        (["w", "--no-wait"], {"wait": False}),
        (["w", "--no-wait=false"], {}),
        (["w", "--wait=false", "--wait"], {}),
        (["w", "--no-noise"], {"silent": True}),
        (["w", "--no-noise=false"], {}),
        (["w", "--color", "blue"], {"color": Color.BLUE}),
        (["w", "--coats", "9"], {"coats": 9}),
        (["w", "-l", "a", "--label=b"], {"label": ["a", "b"]}),
        (["w", "--path", "a/b"], {"path": Path("a/b")}),
        (["--dry-run", "w"], {"dry_run": Color.BLUE}),
        (["w", "--dry-run=red"], {}),
        (["w", "--", "-n", "x", "--"], {"command": ["-n", "x", "--"]}),
        (["-"], {"name": "-"}),
    ],
)
def test_words_are_read_as_by_pflag(words, values):
    assert parse(*words) == values


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ([], "NAME is missing. Add the name of the wall."),
        ([""], "NAME is empty. Enter a name."),
        (["a", "b"], 'unexpected argument "b". A command comes after two hyphens'),
        (["w", "--color", "green"], 'invalid argument "green" for "--color" flag: must be one of'),
        (["w", "--color="], 'invalid argument "" for "--color" flag'),
        (["w", "--coats", "0"], "must be a whole number from 1 to 9"),
        (["w", "--coats", "1e3"], "must be a whole number from 1 to 9"),
        (["w", "--coats", "\u0661"], "must be a whole number from 1 to 9"),
        (["w", "--coats", "9" * 5000], "must be a whole number from 1 to 9"),
        (["w", "--all=perhaps"], 'invalid argument "perhaps" for "-A, --all" flag'),
        (["w", "-nA"], None),
        (["w", "-AZ"], "unknown shorthand flag: 'Z' in -AZ."),
        (["w", "---all"], "unknown flag: ---all."),
        (["w", "--path"], "flag needs an argument: --path."),
        (["w", "-l"], "flag needs an argument: 'l' in -l."),
        (["w", "-coats", "1"], "unknown shorthand flag: 'c' in -coats. Did you mean --coats?"),
        (["w", "--"], "COMMAND is missing. Add it after two hyphens."),
    ],
)
def test_wrong_words(words, told):
    if told is None:
        assert parse(*words) == {"namespace": "A"}
        return
    with pytest.raises(UsageError) as problem:
        parse(*words)
    assert told in str(problem.value)


def test_commands_are_found_behind_flags_and_their_values():
    root, inner = CommandGroup("Root."), CommandGroup("Walls.")
    inner.command()(paint)
    root.add_group(inner, name="wall")
    for words in (
        ["-n", "wall", "wall", "paint", "w"],
        ["wall", "--color=red", "-A", "paint", "w"],
        ["wall", "--coats", "2", "paint", "w"],
        ["--dry-run", "wall", "paint", "w"],
    ):
        found = parsing.select_command(root, words)
        assert found.path == ("wall", "paint")
        assert parsing.parse_words(COMMAND, found.words)["name"] == "w"
    assert parsing.select_command(root, ["wall"]).command is inner
    assert parsing.select_command(root, ["--", "wall"]).command is root
    with pytest.raises(UsageError, match=r'unknown command "pain" for "kubectl vc wall"\. Did you'):
        parsing.select_command(root, ["wall", "pain"])


def test_help_is_not_asked_for_behind_two_hyphens():
    assert parsing.wants_help(["a", "-h"])
    assert not parsing.wants_help(["a", "--", "--help"])


@pytest.mark.parametrize(
    ("word", "similar"), [("gt", "get"), ("dele", "delete"), ("zzz", ""), ("ge", "get")]
)
def test_suggestions(word, similar):
    assert parsing.find_similar(word, ["get", "delete", "describe"]) == similar
