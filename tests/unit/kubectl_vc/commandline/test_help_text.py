"""Help, as it is printed."""

from typing import Annotated

from kubectl_vc.commandline import help_text
from kubectl_vc.commandline.commands import Command, CommandGroup
from kubectl_vc.commandline.declarations import Argument, Option


def paint(
    *,
    name: Annotated[str, Argument(metavar="NAME")],
    command: Annotated[list[str] | None, Argument(metavar="-- COMMAND", after_dashes=True)] = None,
    color: Annotated[str, Option("--color", "-c", metavar="COLOR", help="Color of it")] = "red",
    source: Annotated[str, Option("--from", metavar="FILE", help="Paint to use")],
    wet: Annotated[bool, Option("--wet", help="Leave it wet")] = False,
    secret: Annotated[str, Option("--secret", hidden=True)] = "",
    context: Annotated[str, Option("--context", help="Shared")] = "",
) -> None:
    """Paint a wall.

    Examples:

      kubectl vc paint web --from x
    """


def test_the_help_of_a_verb():
    shown = help_text.format_command(("kubectl vc", "paint"), Command("paint", paint), {"context"})
    assert shown == (
        "Paint a wall.\n\n"
        "Examples:\n  kubectl vc paint web --from x\n\n"
        "Options:\n"
        "  -c, --color COLOR   Color of it (default red)\n"
        "      --from FILE     Paint to use\n"
        "      --wet=false     Leave it wet\n\n"
        "Usage:\n  kubectl vc paint NAME --from FILE [options] [-- COMMAND]\n\n"
        'Use "kubectl vc options" for the flags of the connection, which all commands have.\n'
    )


def test_the_help_of_a_group_lists_its_commands_in_order():
    group = CommandGroup("Walls.")
    group.command("z")(paint)
    group.command("fill")(paint)
    lines = help_text.format_group(("kubectl vc", "wall"), group).splitlines()
    assert lines[:5] == [
        *("Walls.", "", "Available Commands:", "  fill   Paint a wall.", "  z      Paint a wall."),
    ]


def test_long_texts_are_wrapped_and_long_titles_have_a_line_of_their_own():
    def verb(
        *,
        a: Annotated[str, Option("--a", metavar="A", help="word " * 40)] = "",
        b: Annotated[str, Option("--" + "b" * 40, metavar="B", help="Text")] = "",
    ) -> None:
        """Do it."""

    lines = help_text.format_flags(Command("verb", verb).flags).splitlines()
    assert max(map(len, lines)) <= help_text.WIDTH
    assert lines[-1].strip() == "Text"
