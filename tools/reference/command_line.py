"""Page of the command line: each verb of `kubectl vc` with its usage, arguments and flags."""

from __future__ import annotations

from collections.abc import Sequence

from kubectl_vc import app, command
from kubectl_vc.commandline import help_text
from kubectl_vc.commandline.commands import Command
from kubectl_vc.commandline.declarations import Flag
from tools.reference import markdown

_HEAD = markdown.build_head(
    "Command line",
    "the verbs in `kubectl_vc/`",
    "Every verb that connects accepts the flags of the [last section](#flags-of-every-verb). Flags"
    " can be written before or after the verb. The meaning of each exit code is in"
    " [usage.md](../usage.md#exit-codes).",
)


def build_page() -> str:
    """Return the page."""
    verbs = sorted(app.app.iterate_verbs())
    shared = command.list_connection_flags()
    parts = [_HEAD]
    parts += [_build_section(words, verb, shared) for words, verb in verbs]
    parts.append("## Flags of every verb\n")
    parts.append(markdown.build_table(("flag", "meaning"), map(_describe_flag, shared)))
    return "\n".join(parts)


def _build_section(words: Sequence[str], verb: Command, shared: Sequence[Flag]) -> str:
    path = " ".join((command.PROGRAM, *words))
    common = {each.long for each in shared}
    own = [each for each in verb.flags if each.long not in common]
    usage = help_text.format_usage((command.PROGRAM, *words), verb)
    parts = [f"## {path}\n", f"```\n{usage}\n```\n", _join_paragraphs(verb.description)]
    if verb.examples:
        parts.append("\n".join(["Examples:\n", "```", *verb.examples, "```\n"]))
    if own:
        parts.append(markdown.build_table(("flag", "meaning"), map(_describe_flag, own)))
    return "\n".join(parts)


def _describe_flag(flag: Flag) -> tuple[str, str]:
    names = ", ".join(markdown.quote(name) for name in flag.spellings)
    text = help_text.format_flag_help(flag)
    return (
        names,
        f"{text.removesuffix('.')}. Values: {', '.join(flag.choices)}" if flag.choices else text,
    )


def _join_paragraphs(text: str) -> str:
    """Return the help as Markdown, with each paragraph in one line."""
    paragraphs = (" ".join(each.split()) for each in text.split("\n\n"))
    return "\n\n".join(each for each in paragraphs if each) + "\n"
