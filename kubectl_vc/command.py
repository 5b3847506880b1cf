"""Wrapper of every verb, and the program: parse the words, run the verb, explain errors.

Must not know the verbs. Hazard: as in `kubectl_vc.app`, imports at the top must stay few. Each
further one delays `--help`.
"""

# ruff: noqa: PLC0415 - each verb is imported when it is called

import contextlib
import functools
import inspect
import sys
from collections.abc import Callable, Coroutine, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from kubectl_vc import flags
from kubectl_vc.commandline import parsing
from kubectl_vc.commandline.commands import Command, CommandGroup
from kubectl_vc.output import streams
from kubectl_vc.output.cli_errors import (
    CliError,
    ReaderGoneError,
    UsageError,
    describe_error,
    describe_os_error,
    get_exit_code,
)

if TYPE_CHECKING:
    from kubectl_vc.output.terminal import Terminal

PROGRAM = "kubectl vc"
_MAX_MESSAGE = 300
"""Length of the message of an unexpected error, in characters."""
INTERRUPTED_EXIT_CODE = 130
"""Exit code after Ctrl-C, as in shells."""


Verb = Callable[..., Coroutine[Any, Any, None]]


def create_verb_group(text: str) -> CommandGroup:
    """Return an empty group of verbs with its help."""
    return CommandGroup(text)


def with_connection_flags(verb: Verb) -> Callable[..., None]:
    """Wrap a verb: add the connection flags as its argument `access`, run it, explain errors."""
    return _command(verb, inspect.signature(flags.build_connection_flags).parameters.values())


def with_object_namespace(verb: Verb) -> Callable[..., None]:
    """Wrap a verb about one object of a tenant: its `--namespace` is that of the object."""
    parameters = inspect.signature(flags.build_connection_flags).parameters
    namespace = parameters["namespace"].replace(annotation=flags.ObjectNamespaceFlag)
    return _command(verb, {**parameters, "namespace": namespace}.values())


def without_namespace(verb: Verb) -> Callable[..., None]:
    """Wrap a verb about cluster-scoped objects: its help has no `--namespace`."""
    parameters = inspect.signature(flags.build_connection_flags).parameters
    unused = parameters["namespace"].replace(annotation=flags.UnusedNamespace)
    return _command(verb, {**parameters, "namespace": unused}.values())


def _command(verb: Verb, connecting: Iterable[inspect.Parameter]) -> Callable[..., None]:
    own = inspect.signature(verb)
    parameters = [each for each in own.parameters.values() if each.name != "access"]

    @functools.wraps(verb)
    def command(**values: Any) -> None:
        import asyncio

        connection = {name: values.pop(name) for name in CONNECTION_PARAMETERS}
        asyncio.run(verb(access=flags.build_connection_flags(**connection), **values))

    # The parser reads the declarations of a command from its signature.
    command.__signature__ = own.replace(parameters=[*parameters, *connecting])  # type: ignore[attr-defined]  # by inspect
    return command


CONNECTION_PARAMETERS = tuple(inspect.signature(flags.build_connection_flags).parameters)
HIDDEN_PARAMETERS = frozenset(CONNECTION_PARAMETERS) - {"namespace"}
"""Parameters that the help of a verb leaves to `kubectl vc options`."""


def run_program(
    root: CommandGroup, words: Sequence[str], *, format_version: Callable[[], str]
) -> NoReturn:
    """Run the command that the words select. Raises SystemExit with the exit code."""
    streams.prepare_streams()
    with explain_errors(is_verbose=wants_traceback(words)):
        if list(words) == ["--version"]:
            print_text(f"{format_version()}\n")
            raise SystemExit(0)
        selected = parsing.select_command(root, _expand_help(root, words))
        path = (PROGRAM, *selected.path)
        command = selected.command
        if isinstance(command, CommandGroup):
            _run_group(command, selected)
        with _name_usage(path):
            if parsing.wants_help(selected.words):
                from kubectl_vc.commandline import help_text

                print_text(help_text.format_command(path, command, HIDDEN_PARAMETERS))
            else:
                command.run(**parsing.parse_words(command, selected.words))
    raise SystemExit(0)


def list_connection_flags() -> list[Any]:
    """Return the flags that every verb has."""
    return list(Command("options", flags.build_connection_flags).flags)


def _expand_help(root: CommandGroup, words: Sequence[str]) -> list[str]:
    """Return `help VERB` as `VERB --help`."""
    if words and words[0] == "help" and "help" not in root.commands:
        return [*words[1:], "--help"]
    return list(words)


def _run_group(group: CommandGroup, selected: parsing.Selection) -> NoReturn:
    """Print the help of a group. Another flag without a verb is an error."""
    words = [word for word in selected.words if word not in parsing.HELP_FLAGS]
    with _name_usage((PROGRAM, *selected.path)):
        known = {spelling for each in list_connection_flags() for spelling in each.spellings}
        for word in words:
            if word.startswith("-") and word.partition("=")[0] not in known:
                raise UsageError(f"unknown flag: {word.partition('=')[0]}.")
    from kubectl_vc.commandline import help_text

    print_text(help_text.format_group((PROGRAM, *selected.path), group))
    raise SystemExit(0)


@contextlib.contextmanager
def _name_usage(path: Sequence[str]) -> Iterator[None]:
    """Add the command to a usage error that names none."""
    try:
        yield
    except UsageError as problem:
        problem.path = problem.path or tuple(path[1:])
        raise


@contextlib.contextmanager
def explain_errors(*, is_verbose: bool = False) -> Iterator[None]:
    """Turn an error that stops a verb into one sentence and an exit code.

    `is_verbose`: a traceback is printed before the sentence about an unexpected error.
    """
    from kubeio.errors import KubeError
    from tenancy.names import InvalidNameError

    try:
        yield
    except UsageError as problem:
        where = " ".join((PROGRAM, *(problem.path or ())))
        _fail(f"{problem}\nSee '{where} --help' for usage.", problem.exit_code)
    except ReaderGoneError as problem:  # as a program that SIGPIPE ends: without a message
        raise SystemExit(problem.exit_code) from problem
    except CliError as problem:
        _fail(str(problem), problem.exit_code)
    except KubeError as problem:
        _fail(describe_error(problem), get_exit_code(problem))
    except InvalidNameError as problem:
        _fail(str(problem), CliError.exit_code)
    except UnicodeEncodeError as problem:  # an argument with bytes that are no text
        _fail(f"{problem.object[:80]!a} is not UTF-8 text. Correct it.", CliError.exit_code)
    except OSError as problem:
        _fail(describe_os_error(problem), CliError.exit_code)
    except KeyboardInterrupt:
        _fail(
            "interrupted. Objects that were created stay, and vc-manager continues with them.",
            INTERRUPTED_EXIT_CODE,
        )
    except Exception as problem:  # noqa: BLE001 - a fault of this program is a sentence, too
        if is_verbose:
            import traceback

            traceback.print_exception(problem)
        _fail(
            f"internal error: {_describe_unexpected(problem)}. Run the command again with -v 1 for"
            " the traceback, and report it.",
            CliError.exit_code,
        )


def _describe_unexpected(problem: BaseException) -> str:
    """Return type and message of an error. A group is described by its first error."""
    while isinstance(problem, BaseExceptionGroup):
        problem = problem.exceptions[0]
    text = " ".join(str(problem).split())[:_MAX_MESSAGE]
    return f"{type(problem).__name__}: {text}" if text else type(problem).__name__


def wants_traceback(words: Sequence[str]) -> bool:
    """Return whether the words have `-v` or `--v` with a level above 0, before `--`."""
    own = list(words[: words.index("--")] if "--" in words else words)
    for number, word in enumerate(own):
        name, equals, level = word.partition("=")
        if word.startswith("-v") and word[2:].isdecimal():
            return int(word[2:]) > 0
        if name in ("-v", "--v"):
            level = level if equals else "".join(own[number + 1 : number + 2])
            return level.isdecimal() and int(level) > 0
    return False


def _fail(text: str, code: int) -> NoReturn:
    from tenancy.control_characters import escape_control_characters

    lines = [escape_control_characters(line) for line in f"error: {text}".splitlines()]
    with contextlib.suppress(CliError):  # the exit code remains
        streams.write(sys.stderr, "\n".join(lines) + "\n")
    raise SystemExit(code)


def print_text(text: str) -> None:
    """Print a text of this program. Raises CliError if the output cannot be written."""
    streams.write(sys.stdout, text)


def create_terminal() -> "Terminal":
    """Return the terminal that results and errors are written to."""
    from kubectl_vc.output.terminal import Terminal

    return Terminal(sys.stdout, sys.stderr, answers=sys.stdin)
