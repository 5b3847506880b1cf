"""Unexpected errors of a verb: one sentence, an exit code, and a traceback on request."""

import pytest

from kubectl_vc import command
from kubectl_vc.output.cli_errors import CliError


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ((), False),
        (("list", "-v", "1"), True),
        (("list", "-v=6"), True),
        (("list", "-v6"), True),
        (("list", "--v=2"), True),
        (("list", "--v", "0"), False),
        (("list", "-v"), False),
        (("exec", "web", "--", "ls", "-v", "1"), False),
        (("list", "--version"), False),
    ],
)
def test_a_traceback_is_printed_on_request_only(words, expected):
    assert command.wants_traceback(words) is expected


@pytest.mark.parametrize(
    ("problem", "text"),
    [
        (KeyError("spec"), "KeyError: 'spec'"),
        (RuntimeError(), "RuntimeError"),
        (ExceptionGroup("many", [ValueError("a\nb")]), "ValueError: a b"),
        (RuntimeError("x" * 9999), "RuntimeError: " + "x" * 300 + "."),
    ],
)
@pytest.mark.parametrize("is_verbose", [True, False])
def test_an_unexpected_error_is_one_sentence(problem, text, is_verbose, capsys):
    with pytest.raises(SystemExit) as ended, command.explain_errors(is_verbose=is_verbose):
        raise problem
    assert ended.value.code == 1
    printed = capsys.readouterr().err
    sentence = printed.splitlines()[-1]
    assert sentence.startswith("error: internal error: ")
    assert text in sentence
    assert "-v 1" in sentence
    assert ("Traceback" in printed) is is_verbose


def test_an_expected_error_has_no_traceback(capsys):
    with pytest.raises(SystemExit), command.explain_errors(is_verbose=True):
        raise CliError("no.")
    assert capsys.readouterr().err == "error: no.\n"
