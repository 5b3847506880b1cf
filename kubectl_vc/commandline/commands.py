"""Tree of commands: groups, and the verbs in them.

Owns names and help texts. Must not know how a verb works. A verb's declarations are read when it is
called, so that the number of verbs does not delay any.
"""

import functools
import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from kubectl_vc.commandline.declarations import Flag, Positional, read_parameter

Verb = Callable[..., Any]
_EXAMPLES = "Examples:"


class Command:
    """One verb."""

    def __init__(self, name: str, run: Verb) -> None:
        """Read nothing but the name."""
        self.name = name
        self.run = run

    @functools.cached_property
    def declarations(self) -> tuple[Flag | Positional, ...]:
        """Return the flags and arguments, in the order of the parameters."""
        parameters = inspect.signature(self.run).parameters.values()
        return tuple(read_parameter(each) for each in parameters)

    @property
    def flags(self) -> tuple[Flag, ...]:
        """Return the flags."""
        return tuple(each for each in self.declarations if isinstance(each, Flag))

    @property
    def positionals(self) -> tuple[Positional, ...]:
        """Return the arguments."""
        return tuple(each for each in self.declarations if isinstance(each, Positional))

    @property
    def summary(self) -> str:
        """Return the first line of the help."""
        return (self.run.__doc__ or "").strip().partition("\n")[0]

    @property
    def description(self) -> str:
        """Return the help without its examples."""
        return inspect.cleandoc(self.run.__doc__ or "").partition(_EXAMPLES)[0].strip()

    @property
    def examples(self) -> tuple[str, ...]:
        """Return the lines of the examples."""
        lines = inspect.cleandoc(self.run.__doc__ or "").partition(_EXAMPLES)[2].splitlines()
        return tuple(line.strip() for line in lines if line.strip())


@dataclass(slots=True)
class CommandGroup:
    """A group of verbs. The root is one, too."""

    summary: str
    name: str = ""
    commands: "dict[str, Command | CommandGroup]" = field(default_factory=dict)

    def command(self, name: str = "") -> Callable[[Verb], Verb]:
        """Add a function as a verb. Its name is the default name of the verb."""

        def add(run: Verb) -> Verb:
            called = name or run.__name__.replace("_", "-")
            self.commands[called] = Command(called, run)
            return run

        return add

    def add_group(self, group: "CommandGroup", *, name: str) -> None:
        """Add a group of verbs under a name."""
        group.name = name
        self.commands[name] = group

    def add_verbs(self, group: "CommandGroup") -> None:
        """Add the verbs of another group to this one."""
        self.commands.update(group.commands)

    def iterate_verbs(self, *words: str) -> Iterator[tuple[tuple[str, ...], Command]]:
        """Yield each verb of the tree, with the words that call it."""
        for name, found in self.commands.items():
            if isinstance(found, CommandGroup):
                yield from found.iterate_verbs(*words, name)
            else:
                yield (*words, name), found


CommandTree = Mapping[str, Command | CommandGroup]
