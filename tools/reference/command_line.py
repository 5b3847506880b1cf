"""Page of the command line: each verb of `kubectl vc` with its usage, arguments and flags."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from typing import Any

import typer.main

from kubectl_vc import app
from tools.reference import markdown

_Command = Any
_Parameter = Any
"""Classes of the click that Typer contains. Typer does not export them."""
_HEAD = markdown.build_head(
    "Command line",
    "the verbs in `kubectl_vc/`",
    "Every verb accepts the flags of the [last section](#flags-of-every-verb). Flags can be written"
    " anywhere after the verb.",
)


def build_page() -> str:
    """Return the page."""
    commands = list(_iterate_commands(typer.main.get_command(app.app), app.PROGRAM))
    shared = _find_shared_flags([command for _, command in commands])
    parts = [_HEAD]
    parts += [_build_section(path, command, shared) for path, command in commands]
    parts.append("## Flags of every verb\n")
    options = [each for each in commands[0][1].params if _name_option(each) in shared]
    parts.append(markdown.build_table(("flag", "meaning"), map(_describe_option, options)))
    return "\n".join(parts)


def _iterate_commands(command: _Command, path: str) -> Iterator[tuple[str, _Command]]:
    if not hasattr(command, "commands"):
        yield path, command
        return
    for name, each in sorted(command.commands.items()):
        if not each.hidden:
            yield from _iterate_commands(each, f"{path} {name}")


def _find_shared_flags(commands: list[_Command]) -> set[str]:
    """Return the names of the flags that every command has."""
    flags = [{_name_option(each) for each in command.params} for command in commands]
    return set.intersection(*flags) - {""}


def _build_section(path: str, command: _Command, shared: set[str]) -> str:
    context = command.make_context(path, [], resilient_parsing=True)
    usage = " ".join([path, *command.collect_usage_pieces(context)])
    own = [
        each
        for each in command.params
        if each.param_type_name == "option" and _name_option(each) not in shared
    ]
    parts = [f"## {path}\n", f"```\n{usage}\n```\n", _join_paragraphs(command.help or "")]
    if own:
        parts.append(markdown.build_table(("flag", "meaning"), map(_describe_option, own)))
    return "\n".join(parts)


def _name_option(parameter: _Parameter) -> str:
    """Return the longest spelling of a flag. Empty for an argument."""
    names = [name for name in parameter.opts if name.startswith("-")]
    return max(names, key=len, default="")


def _describe_option(parameter: _Parameter) -> tuple[str, str]:
    names = ", ".join(markdown.quote(name) for name in (*parameter.opts, *parameter.secondary_opts))
    return names, str(getattr(parameter, "help", "") or "")


def _join_paragraphs(text: str) -> str:
    """Return the help as Markdown. Indented lines are examples and become one code block."""
    paragraphs = [each for each in text.replace("\b", "").split("\n\n") if each.strip()]
    parts = []
    for is_example, group in groupby(paragraphs, key=lambda each: each.strip("\n")[:2] == "  "):
        texts = [[line.strip() for line in each.splitlines() if line.strip()] for each in group]
        if is_example:
            parts.append("\n".join(["```", *(line for text in texts for line in text), "```"]))
        else:
            parts += [" ".join(text) for text in texts]
    return "\n\n".join(parts) + "\n"
