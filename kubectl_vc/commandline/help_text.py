"""Help of commands, in the order of kubectl: description, examples, options, usage. Pure."""

import textwrap
from collections.abc import Collection, Iterable, Sequence
from typing import Any

from kubectl_vc.commandline.commands import Command, CommandGroup
from kubectl_vc.commandline.declarations import Flag, Positional

WIDTH = 100
"""Longest line."""
_MAX_TITLE = 34
"""Widest first column. A longer title has its help in the next line."""
_CONNECTION_HINT = (
    'Use "kubectl vc options" for the flags of the connection, which all commands have.'
)


def format_command(path: Sequence[str], command: Command, connection: Collection[str]) -> str:
    """Return the help of a verb. `connection` has the parameters that are not listed."""
    flags = [
        each for each in command.flags if each.name not in connection and not each.option.hidden
    ]
    examples = "".join(f"  {line}\n" for line in command.examples)
    sections = (
        f"{command.description}\n",
        f"Examples:\n{examples}" if examples else "",
        f"Options:\n{format_flags(flags)}" if flags else "",
        f"Usage:\n  {format_usage(path, command)}\n",
        f"{_CONNECTION_HINT}\n",
    )
    return "\n".join(section for section in sections if section)


def format_usage(path: Sequence[str], command: Command) -> str:
    """Return a verb with its arguments and required flags."""
    after = [f"[{each.metavar}]" for each in command.positionals if each.after_dashes]
    return " ".join((*path, *_list_usage(command), "[options]", *after))


def format_group(path: Sequence[str], group: CommandGroup) -> str:
    """Return the help of a group, or of the root."""
    called = " ".join(path)
    width = max(len(name) for name in group.commands)
    lines = [
        f"  {name.ljust(width)}   {each.summary}" for name, each in sorted(group.commands.items())
    ]
    return (
        f"{group.summary}\n\nAvailable Commands:\n" + "\n".join(lines) + "\n\n"
        f"Usage:\n  {called} COMMAND [options]\n\n"
        f'Use "{called} COMMAND --help" for more information about a given command.\n'
        f"{_CONNECTION_HINT}\n"
    )


def format_flags(flags: Iterable[Flag]) -> str:
    """Return one line or more for each flag, sorted by its name."""
    rows = [
        (_format_title(flag), format_flag_help(flag))
        for flag in sorted(flags, key=lambda flag: flag.long)
    ]
    width = min(max((len(title) for title, _ in rows), default=0), _MAX_TITLE)
    return "".join(_format_row(title, text, width) for title, text in rows)


def _list_usage(command: Command) -> list[str]:
    required = [f"{flag.long} {flag.option.metavar}" for flag in command.flags if flag.is_required]
    words = (each for each in command.positionals if not each.after_dashes)
    return [*map(_format_positional, words), *required]


def _format_positional(each: Positional) -> str:
    text = each.metavar
    return text if each.is_required else f"[{text}]"


def _format_title(flag: Flag) -> str:
    short = f"{flag.short}, " if flag.short else "    "
    if flag.is_switch:
        value = f"={str(bool(flag.default)).lower()}"
    elif flag.option.bare is not None:
        value = f"={_show(flag.default)}"
    else:
        value = f" {flag.option.metavar or '|'.join(flag.choices) or 'VALUE'}"
    return f"  {short}{flag.long}{value}"


def format_flag_help(flag: Flag) -> str:
    """Return the help of a flag with its default."""
    text = " ".join(flag.option.help.split())
    has_default = flag.option.show_default and not flag.has_bare_form and flag.default
    return f"{text} (default {_show(flag.default)})" if has_default else text


def _format_row(title: str, text: str, width: int) -> str:
    indent = " " * (width + 3)
    lines = textwrap.wrap(text, WIDTH - len(indent), break_on_hyphens=False) or [""]
    if len(title) > width:
        return f"{title}\n" + "".join(f"{indent}{line}\n" for line in lines)
    first, *others = lines
    return (
        f"{title.ljust(width)}   {first}".rstrip()
        + "\n"
        + "".join(f"{indent}{line}\n" for line in others)
    )


def _show(value: Any) -> str:
    return str(getattr(value, "value", value))
