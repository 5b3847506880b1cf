"""`kubectl_complete-vc`: completion of the words of `kubectl vc` in the shell.

Owns the choice of candidates. kubectl runs this program with the words so far, the last one
unfinished. It reads candidates, one on each line, and a directive. Hazard: this program must be
silent about errors and must stop soon. It runs at every press of the tab key, so an error or a
delay disturbs the prompt.
"""

import asyncio
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

import typer

from kubectl_vc import app
from kubectl_vc.client.config_flags import Access
from kubectl_vc.flags import Mode
from kubectl_vc.output.printers import Format

PATIENCE = 1.5
"""Time limit in seconds for the API server. A later answer is of less use than the prompt."""

_FILES, _NO_FILES = ":0", ":4"  # ShellCompDirective of cobra: the default, and NoFileComp
_HELP_FLAGS = {"-h": "Show the help and exit.", "--help": "Show the help and exit."}
_NAMES_ANEW = frozenset({"create", "join"})
_PATHS_BY_OUTPUT = frozenset({"create", "kubeconfig"})


class Wanted(Enum):
    """The kind of the next word."""

    VERB = "verb"
    FLAG = "flag"
    NAME = "name"
    NAMESPACE = "namespace"
    CONTEXT = "context"
    CLUSTER_VERSION = "cluster version"
    TARGET = "super cluster"
    FORMAT = "format"
    MODE = "mode"
    FILE = "file"
    NOTHING = "nothing"


@dataclass(frozen=True, slots=True)
class Verb:
    """The facts about one verb that completion needs."""

    help: str = ""
    flags: Mapping[str, str] = field(default_factory=dict)
    """Help by each spelling of a flag."""
    switches: frozenset[str] = frozenset()
    """Spellings of the flags that have no value."""
    takes_name: bool = False
    """Whether the argument names an existing object."""
    names: Wanted = Wanted.NAME
    """Kind of the object that the argument names."""
    inner: Mapping[str, "Verb"] = field(default_factory=dict)
    """The verbs of a group."""


@dataclass(frozen=True, slots=True)
class Place:
    """The position of the unfinished word."""

    wanted: Wanted
    verb: str = ""
    values: Mapping[str, str] = field(default_factory=dict)
    """Values of the flags before the word."""


_FLAG_VALUES: Mapping[str, Wanted] = {
    "--namespace": Wanted.NAMESPACE,
    "-n": Wanted.NAMESPACE,
    "--context": Wanted.CONTEXT,
    "--target-context": Wanted.CONTEXT,
    "--target-kubeconfig": Wanted.FILE,
    "--kubelet-ca": Wanted.FILE,
    "--mode": Wanted.MODE,
    "--cluster-version": Wanted.CLUSTER_VERSION,
    "--filename": Wanted.FILE,
    "-f": Wanted.FILE,
    "--kubeconfig": Wanted.FILE,
}


def main() -> None:
    """Print the candidates for the last word of the command line."""
    words, known = within(sys.argv[1:] or [""], verbs())
    place = locate(words, known)
    found = candidates(place, known) or asyncio.run(_looked_up(place))
    lines = [
        "\t".join(part for part in each if part) for each in found if each[0].startswith(words[-1])
    ]
    directive = _FILES if place.wanted is Wanted.FILE else _NO_FILES
    sys.stdout.write("".join(f"{line}\n" for line in [*lines, directive]))


def verbs() -> dict[str, Verb]:
    """Return the verbs as the command line declares them."""
    root: Any = typer.main.get_command(app.app)
    return {name: _verb(name, command) for name, command in root.commands.items()}


def within(
    words: Sequence[str], known: Mapping[str, Verb]
) -> tuple[Sequence[str], Mapping[str, Verb]]:
    """Return the words that follow the name of a group, and the verbs of that group."""
    while len(words) > 1 and words[0] in known and known[words[0]].inner:
        words, known = words[1:], known[words[0]].inner
    return words, known


def locate(words: Sequence[str], known: Mapping[str, Verb]) -> Place:
    """Return the kind of the last word, derived from the words before it."""
    *before, last = words
    if not before:
        return Place(Wanted.FLAG if last.startswith("-") else Wanted.VERB)
    verb = known.get(before[0])
    if verb is None:
        return Place(Wanted.NOTHING)
    values, positionals, pending = _read(before[1:], verb)
    if pending:
        return Place(_value_kind(pending, before[0]), before[0], values)
    if last.startswith("-"):
        return Place(Wanted.FLAG, before[0], values)
    is_name = verb.takes_name and not positionals
    return Place(verb.names if is_name else Wanted.NOTHING, before[0], values)


def candidates(place: Place, known: Mapping[str, Verb]) -> list[tuple[str, str]]:
    """Return the candidates that need no API server, each with its help."""
    match place.wanted:
        case Wanted.VERB:
            return [(name, verb.help) for name, verb in known.items()]
        case Wanted.FLAG:
            verb = known.get(place.verb, Verb(flags={**_HELP_FLAGS, "--version": ""}))
            return list(verb.flags.items())
        case Wanted.FORMAT:
            return [(form.value, "") for form in Format]
        case Wanted.MODE:
            return [(mode.value, "") for mode in Mode]
        case _:
            return []


def _verb(name: str, command: Any, names: Wanted = Wanted.NAME) -> Verb:
    inner = {
        each: _verb(each, found, Wanted.TARGET)
        for each, found in getattr(command, "commands", {}).items()
    }
    options = [
        each for each in command.params if each.param_type_name == "option" and not each.hidden
    ]
    flags = _HELP_FLAGS | {
        spelling: " ".join((each.help or "").split())
        for each in options
        for spelling in (*each.opts, *each.secondary_opts)
    }
    switches = {*_HELP_FLAGS} | {
        spelling
        for each in options
        if each.is_flag
        for spelling in (*each.opts, *each.secondary_opts)
    }
    has_argument = any(each.param_type_name == "argument" for each in command.params)
    return Verb(
        help=command.get_short_help_str(limit=100),
        flags=flags,
        switches=frozenset(switches),
        takes_name=has_argument and name not in _NAMES_ANEW,
        names=names,
        inner=inner,
    )


def _read(words: Sequence[str], verb: Verb) -> tuple[dict[str, str], int, str]:
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


def _value_kind(flag: str, verb: str) -> Wanted:
    if flag in ("-o", "--output"):
        return Wanted.FILE if verb in _PATHS_BY_OUTPUT else Wanted.FORMAT
    return _FLAG_VALUES.get(flag, Wanted.NOTHING)


async def _looked_up(place: Place) -> list[tuple[str, str]]:
    """Return the candidates from the API server or the kubeconfig. Empty if it is unreachable."""
    from kubectl_vc.output.cli_errors import CliProblem  # noqa: PLC0415 - a third of a second, rarely needed
    from kubeio.errors import KubeError  # noqa: PLC0415

    access = Access(
        kubeconfig=place.values.get("--kubeconfig", ""),
        context=place.values.get("--context", ""),
        namespace=place.values.get("--namespace", place.values.get("-n", "")),
    )
    try:
        async with asyncio.timeout(PATIENCE):
            return [(name, "") for name in await _names(place.wanted, access)]
    except (KubeError, CliProblem, TimeoutError):
        return []


async def _names(wanted: Wanted, access: Access) -> list[str]:
    from kubectl_vc.client.connection import connected  # noqa: PLC0415
    from kubeio.config import loading  # noqa: PLC0415
    from tenancy.resources import (  # noqa: PLC0415
        CLUSTER_VERSIONS,
        NAMESPACES,
        SUPER_CLUSTERS,
        VIRTUAL_CLUSTERS,
    )

    if wanted is Wanted.CONTEXT:
        return loading.contexts(access.kubeconfig)
    resources = {
        Wanted.NAME: VIRTUAL_CLUSTERS,
        Wanted.NAMESPACE: NAMESPACES,
        Wanted.CLUSTER_VERSION: CLUSTER_VERSIONS,
        Wanted.TARGET: SUPER_CLUSTERS,
    }
    resource = resources.get(wanted)
    if resource is None:
        return []
    async with connected(access) as connection:
        namespace = connection.namespace if resource.namespaced else ""
        found = await connection.super_client.list(
            resource, namespace=namespace, metadata_only=True
        )
    return sorted(item["metadata"]["name"] for item in found.get("items") or [])
