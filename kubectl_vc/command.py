"""Wrapper of every verb: the connection flags, and the translation of errors into messages.

Must not know the verbs. Hazard: as in `kubectl_vc.app`, imports at the top must stay few. Each
further one delays `--help`.
"""

# ruff: noqa: PLC0415 - each verb is imported when it is called

import contextlib
import functools
import inspect
import sys
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import typer

from kubectl_vc import flags
from kubectl_vc.output.cli_errors import CliError, UsageError, describe_error

if TYPE_CHECKING:
    from kubectl_vc.output.terminal import Terminal

INTERRUPTED_EXIT_CODE = 130
"""Exit code after Ctrl-C, as in shells."""


Verb = Callable[..., Coroutine[Any, Any, None]]


def create_verb_group(text: str) -> typer.Typer:
    """Return an empty group of verbs with its help."""
    return typer.Typer(
        help=text,
        no_args_is_help=True,
        rich_markup_mode=None,  # plain help as kubectl's, without loading rich
        context_settings={"help_option_names": ["-h", "--help"]},
    )


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
    parameters += [*connecting, _CALL_PARAMETER]

    @functools.wraps(verb)
    def command(**values: Any) -> None:
        import asyncio

        call = values.pop(_CALL_PARAMETER.name)
        connection = {name: values.pop(name) for name in _CONNECTION_FLAGS}
        with explain_errors():
            _refuse_empty_arguments(call, values)
            asyncio.run(verb(access=flags.build_connection_flags(**connection), **values))

    # Typer reads the flags of a command from these two attributes.
    command.__signature__ = own.replace(parameters=parameters)  # type: ignore[attr-defined]  # by inspect
    command.__annotations__ = {each.name: each.annotation for each in parameters}
    return command


_CONNECTION_FLAGS = tuple(inspect.signature(flags.build_connection_flags).parameters)
_CALL_PARAMETER = inspect.Parameter(
    "call", inspect.Parameter.KEYWORD_ONLY, annotation=typer.Context
)
"""Typer passes the parsed command line to the parameter of this type."""


def _refuse_empty_arguments(call: typer.Context, values: Mapping[str, Any]) -> None:
    """Raise UsageProblem for an argument that is present but empty, as `"$UNSET"` in a script is.

    An omitted argument may stand for all objects. An empty one never does.
    """
    for each in call.command.params:
        name = each.name or ""
        if each.param_type_name != "argument" or values.get(name) != "":
            continue
        source = call.get_parameter_source(name)
        if source is not None and source.name == "COMMANDLINE":
            otherwise = "" if each.required else ", or leave it out"
            raise UsageError(f"{name.upper()} is empty. Enter a name{otherwise}.")


@contextlib.contextmanager
def explain_errors() -> Iterator[None]:
    """Turn an error that stops a verb into one sentence and an exit code."""
    from kubeio.errors import KubeError
    from tenancy.names import InvalidNameError

    try:
        yield
    except CliError as problem:
        _fail(str(problem), problem.exit_code)
    except KubeError as problem:
        _fail(describe_error(problem), CliError.exit_code)
    except InvalidNameError as problem:
        _fail(str(problem), CliError.exit_code)
    except KeyboardInterrupt:
        _fail(
            "interrupted. Objects that were created stay, and vc-manager continues with them.",
            INTERRUPTED_EXIT_CODE,
        )


def _fail(text: str, code: int) -> None:
    from tenancy.control_characters import escape_control_characters

    typer.echo(f"error: {escape_control_characters(text)}", err=True)
    raise typer.Exit(code)


def create_terminal() -> "Terminal":
    """Return the terminal that results and errors are written to."""
    from kubectl_vc.output.terminal import Terminal

    return Terminal(sys.stdout, sys.stderr, answers=sys.stdin)
