"""The question before a deletion (T2-12)."""

import io

import pytest

from kubectl_vc.output.cli_errors import CliError
from kubectl_vc.output.terminal import Terminal
from kubectl_vc.verbs import delete


class TypedText(io.StringIO):
    """The input of a user at a terminal."""

    def isatty(self) -> bool:
        return True


def ask(answers: io.StringIO | None) -> None:
    terminal = Terminal(io.StringIO(), io.StringIO(), answers=answers)
    delete._ask_for_name(terminal, "prod", "shop")  # restore and confirm-deletes ask the same way


@pytest.mark.parametrize("typed", ["prdo\n", "\n", "", "yes\n"])
def test_another_name_deletes_nothing(typed):
    with pytest.raises(CliError, match="so nothing was deleted"):
        ask(TypedText(typed))


@pytest.mark.parametrize("answers", [TypedText("prod\n"), None, io.StringIO("")])
def test_the_name_or_a_script_goes_on(answers):
    ask(answers)
