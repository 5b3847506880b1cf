"""The tree of commands."""

from typing import Annotated

import pytest

from kubectl_vc.commandline.commands import Command, CommandGroup
from kubectl_vc.commandline.declarations import Argument, Option


def open_door(
    *,
    name: Annotated[str, Argument(metavar="NAME")],
    wide: Annotated[bool, Option("--wide")] = False,
) -> None:
    """Open a door.

    Slowly,
    if it creaks.

    Examples:

      kubectl vc open-door front

      kubectl vc open-door back --wide
    """


def test_a_docstring_is_the_help():
    command = Command("open-door", open_door)
    assert command.summary == "Open a door."
    assert command.description == "Open a door.\n\nSlowly,\nif it creaks."
    assert command.examples == (
        "kubectl vc open-door front",
        "kubectl vc open-door back --wide",
    )
    assert [each.name for each in command.flags] == ["wide"]
    assert [each.name for each in command.positionals] == ["name"]


def test_groups_hold_verbs_and_groups():
    root, doors, more = CommandGroup("Root."), CommandGroup("Doors."), CommandGroup("More.")
    assert doors.command()(open_door) is open_door
    doors.command("shut")(open_door)
    more.command("list")(open_door)
    root.add_group(doors, name="door")
    root.add_verbs(more)
    assert [words for words, _ in root.iterate_verbs()] == [
        *(("door", "open-door"), ("door", "shut"), ("list",)),
    ]
    assert doors.name == "door"


def test_a_parameter_without_a_declaration_is_a_fault_of_the_program():
    def wrong(*, x: int) -> None:
        """Do it."""

    with pytest.raises(TypeError, match="the parameter x is no flag and no argument"):
        _ = Command("wrong", wrong).declarations
