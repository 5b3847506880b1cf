"""`kubectl_complete-vc`: completion of the words of `kubectl vc` in the shell.

Owns the choice of candidates. kubectl runs this program with the words so far, the last one
unfinished. It reads candidates, one on each line, and a directive. Hazard: this program must be
silent about errors and must stop soon. It runs at every press of the tab key, so an error or a
delay disturbs the prompt.
"""

import contextlib
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum

from kubectl_vc import app
from kubectl_vc.client.config_flags import ConfigFlags
from kubectl_vc.commandline import shells
from kubectl_vc.commandline.commands import Command, CommandGroup
from kubectl_vc.commandline.declarations import Flag
from kubectl_vc.output import streams
from kubectl_vc.output.cli_errors import CliError
from kubectl_vc.output.printers import OutputFormat

LOOKUP_SECONDS = 1.5
"""Time limit in seconds for the API server. A later answer is of less use than the prompt."""

_COMPLETE_FILES, _COMPLETE_NOTHING_ELSE = (
    ":0",
    ":4",
)  # ShellCompDirective of cobra: the default, and NoFileComp
_HELP_FLAGS = {"-h": "Show the help and exit.", "--help": "Show the help and exit."}
_VERBS_WITH_NEW_NAMES = frozenset({"create", "join"})
_PATHS = frozenset({"FILE", "PATH"})
"""Placeholders of flags and arguments that name a file."""


class WordKind(Enum):
    """The kind of the next word."""

    VERB = "verb"
    FLAG = "flag"
    NAME = "name"
    NAMESPACE = "namespace"
    CONTEXT = "context"
    CLUSTER_VERSION = "cluster version"
    TARGET = "super cluster"
    SNAPSHOT = "snapshot"
    CHOICE = "choice"
    SHELL = "shell"
    COMMAND = "command"
    FILE = "file"
    NOTHING = "nothing"


@dataclass(frozen=True, slots=True)
class CompletionVerb:
    """The facts about one verb that completion needs."""

    help: str = ""
    flags: Mapping[str, str] = field(default_factory=dict)
    """Help by each spelling of a flag."""
    switches: frozenset[str] = frozenset()
    """Spellings of the flags that have no value."""
    choices: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Allowed values by each spelling of a flag. A flag without an entry takes any."""
    files: frozenset[str] = frozenset()
    """Spellings of the flags whose value is a file."""
    takes_command: bool = False
    """Whether a command follows two hyphens."""
    takes_name: bool = False
    """Whether the argument names an existing object."""
    name_kind: WordKind = WordKind.NAME
    """Kind of the object that the argument names."""
    subverbs: Mapping[str, "CompletionVerb"] = field(default_factory=dict)
    """The verbs of a group."""


@dataclass(frozen=True, slots=True)
class CursorPosition:
    """The position of the unfinished word."""

    wanted: WordKind
    verb: str = ""
    values: Mapping[str, str] = field(default_factory=dict)
    """Values of the flags before the word."""
    flag: str = ""
    """Spelling of the flag whose value the word is."""


_FLAG_VALUES: Mapping[str, WordKind] = {
    "--namespace": WordKind.NAMESPACE,
    "-n": WordKind.NAMESPACE,
    "--context": WordKind.CONTEXT,
    "--target-context": WordKind.CONTEXT,
    "--from": WordKind.SNAPSHOT,
    "--cluster-version": WordKind.CLUSTER_VERSION,
}

_LOOKED_UP = frozenset(
    {
        *(WordKind.NAME, WordKind.NAMESPACE, WordKind.CONTEXT, WordKind.CLUSTER_VERSION),
        *(WordKind.TARGET, WordKind.SNAPSHOT),
    }
)
"""Kinds of words that a kubeconfig or an API server has."""

_GROUP_NAMES: Mapping[str, WordKind] = {
    "target": WordKind.TARGET,
    "snapshot": WordKind.SNAPSHOT,
    "snapshot list": WordKind.NAME,
}
"""Kind of the objects that the verbs of a group name. Other groups name VirtualClusters."""


def main() -> None:
    """Print the candidates for the last word of the command line."""
    streams.prepare_streams()
    words, known = enter_group(sys.argv[1:] or [""], list_verbs())
    place = locate_word(words, known)
    found = list_candidates(place, known) or _look_up(place)
    lines = [
        "\t".join(part for part in each if part) for each in found if each[0].startswith(words[-1])
    ]
    files = place.wanted in (WordKind.FILE, WordKind.COMMAND)
    directive = _COMPLETE_FILES if files else _COMPLETE_NOTHING_ELSE
    with contextlib.suppress(CliError):  # the shell may have closed the pipe
        streams.write(sys.stdout, "".join(f"{line}\n" for line in [*lines, directive]))


def list_verbs() -> dict[str, CompletionVerb]:
    """Return the verbs as the command line declares them."""
    return {name: _build_verb(name, command) for name, command in app.app.commands.items()}


def enter_group(
    words: Sequence[str], known: Mapping[str, CompletionVerb]
) -> tuple[Sequence[str], Mapping[str, CompletionVerb]]:
    """Return the words that follow the name of a group, and the verbs of that group."""
    while len(words) > 1 and words[0] in known and known[words[0]].subverbs:
        words, known = words[1:], known[words[0]].subverbs
    return words, known


def locate_word(words: Sequence[str], known: Mapping[str, CompletionVerb]) -> CursorPosition:
    """Return the kind of the last word, derived from the words before it."""
    *before, last = words
    if not before:
        return CursorPosition(WordKind.FLAG if last.startswith("-") else WordKind.VERB)
    verb = known.get(before[0])
    if verb is None:
        return CursorPosition(WordKind.NOTHING)
    if "--" in before:
        kind = WordKind.COMMAND if verb.takes_command else WordKind.NOTHING
        return CursorPosition(kind, before[0])
    values, positionals, pending = _parse_words(before[1:], verb)
    if pending:
        kind = _get_value_kind(pending, verb)
        return CursorPosition(kind, before[0], values, pending)
    if last.startswith("-"):
        return CursorPosition(WordKind.FLAG, before[0], values)
    is_name = verb.takes_name and not positionals
    return CursorPosition(verb.name_kind if is_name else WordKind.NOTHING, before[0], values)


def list_candidates(
    place: CursorPosition, known: Mapping[str, CompletionVerb]
) -> list[tuple[str, str]]:
    """Return the candidates that need no API server, each with its help."""
    match place.wanted:
        case WordKind.VERB:
            return [(name, verb.help) for name, verb in known.items()]
        case WordKind.FLAG:
            verb = known.get(place.verb, CompletionVerb(flags={**_HELP_FLAGS, "--version": ""}))
            return list(verb.flags.items())
        case WordKind.CHOICE:
            return [(each, "") for each in known[place.verb].choices[place.flag]]
        case WordKind.SHELL:
            return [(each, "") for each in shells.SCRIPTS]
        case _:
            return []


def _build_verb(
    name: str, command: Command | CommandGroup, names: WordKind = WordKind.NAME
) -> CompletionVerb:
    if isinstance(command, CommandGroup):
        of_group = _GROUP_NAMES.get(name, WordKind.NAME)
        inner = {
            each: _build_verb(each, found, _GROUP_NAMES.get(f"{name} {each}", of_group))
            for each, found in command.commands.items()
        }
        return CompletionVerb(help=command.summary, flags=_HELP_FLAGS, subverbs=inner)
    options = [each for each in command.flags if not each.option.hidden]
    flags = _HELP_FLAGS | {
        spelling: " ".join(each.option.help.split())
        for each in options
        for spelling in each.spellings
    }
    switches = {*_HELP_FLAGS} | {
        spelling for each in options if each.has_bare_form for spelling in each.spellings
    }
    arguments = [each for each in command.positionals if not each.after_dashes]
    if arguments and arguments[0].metavar in _PATHS:
        names = WordKind.FILE
    return CompletionVerb(
        help=command.summary,
        flags=flags,
        switches=frozenset(switches),
        choices={
            spelling: _list_choices(each)
            for each in options
            for spelling in each.spellings
            if _list_choices(each)
        },
        files=frozenset(
            spelling
            for each in options
            for spelling in each.spellings
            if each.option.metavar in _PATHS
        ),
        takes_command=any(each.after_dashes for each in command.positionals),
        takes_name=bool(arguments) and name not in _VERBS_WITH_NEW_NAMES,
        name_kind=WordKind.SHELL if name == "completion" else names,
    )


def _parse_words(words: Sequence[str], verb: CompletionVerb) -> tuple[dict[str, str], int, str]:
    """Return flag values, the number of other words, and a flag whose value is still missing."""
    values: dict[str, str] = {}
    positionals, pending = 0, ""
    for word in words:
        flag, equals, value = word.partition("=")
        if pending:
            values[pending], pending = word, ""
        elif not word.startswith("-"):
            positionals += 1
        elif equals:
            values[flag] = value
        elif flag not in verb.switches:
            pending = flag
    return values, positionals, pending


def _list_choices(flag: Flag) -> tuple[str, ...]:
    """Return the values of a flag that the shell offers."""
    if flag.long == "--output" and not flag.choices and flag.option.metavar not in _PATHS:
        return (*(form.value for form in OutputFormat), "jsonpath=", "custom-columns=")
    return flag.choices


def _get_value_kind(flag: str, known: CompletionVerb) -> WordKind:
    if flag in known.choices:
        return WordKind.CHOICE
    if flag in known.files:
        return WordKind.FILE
    return _FLAG_VALUES.get(flag, WordKind.NOTHING)


def _look_up(place: CursorPosition) -> list[tuple[str, str]]:
    """Return the candidates that need a kubeconfig or an API server."""
    import asyncio  # noqa: PLC0415 - words of the command line need none

    return asyncio.run(_look_up_words(place)) if place.wanted in _LOOKED_UP else []


async def _look_up_words(place: CursorPosition) -> list[tuple[str, str]]:
    """Return the candidates from the API server or the kubeconfig. Empty if it is unreachable."""
    import asyncio  # noqa: PLC0415

    from kubeio.errors import KubeError  # noqa: PLC0415 - a third of a second, rarely needed

    access = ConfigFlags(
        kubeconfig=place.values.get("--kubeconfig", ""),
        context=place.values.get("--context", ""),
        namespace=place.values.get("--namespace", place.values.get("-n", "")),
    )
    try:
        async with asyncio.timeout(LOOKUP_SECONDS):
            return [(name, "") for name in await _fetch_names(place.wanted, access)]
    except (KubeError, CliError, OSError, UnicodeError):
        return []


async def _fetch_names(wanted: WordKind, access: ConfigFlags) -> list[str]:
    from kubectl_vc.client.connection import connect_super_cluster  # noqa: PLC0415
    from kubeio.config import loading  # noqa: PLC0415
    from tenancy.resources import (  # noqa: PLC0415
        CLUSTER_VERSIONS,
        NAMESPACES,
        SUPER_CLUSTERS,
        VIRTUAL_CLUSTER_SNAPSHOTS,
        VIRTUAL_CLUSTERS,
    )

    if wanted is WordKind.CONTEXT:
        return loading.list_contexts(access.kubeconfig)
    resources = {
        WordKind.NAME: VIRTUAL_CLUSTERS,
        WordKind.NAMESPACE: NAMESPACES,
        WordKind.CLUSTER_VERSION: CLUSTER_VERSIONS,
        WordKind.TARGET: SUPER_CLUSTERS,
        WordKind.SNAPSHOT: VIRTUAL_CLUSTER_SNAPSHOTS,
    }
    resource = resources.get(wanted)
    if resource is None:
        return []
    async with connect_super_cluster(access) as connection:
        namespace = connection.namespace if resource.namespaced else ""
        found = await connection.super_client.list(
            resource, namespace=namespace, metadata_only=True
        )
    return sorted(item["metadata"]["name"] for item in found.get("items") or [])
