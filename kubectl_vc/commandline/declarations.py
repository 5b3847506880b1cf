"""Declarations of flags and arguments, as metadata of a parameter's type. Pure.

A verb is a function. `Annotated[str, Option("--namespace", "-n")]` declares a flag of it, and
`Annotated[str, Argument("NAME")]` declares an argument.
"""

import enum
import types
import typing
from collections.abc import Callable
from dataclasses import dataclass
from inspect import Parameter as _Parameter
from pathlib import Path
from typing import Any


class Option:
    """A flag: its spellings, the long one first, and its help."""

    def __init__(
        self,
        *spellings: str,
        help: str = "",  # noqa: A002 - the word of every parser
        metavar: str = "",
        parser: Callable[[str], Any] | None = None,
        bare: str | None = None,
        show_default: bool = True,
        hidden: bool = False,
        min: int | None = None,  # noqa: A002
        max: int | None = None,  # noqa: A002
    ) -> None:
        """`bare` is the value of a flag without `=VALUE`. Its value never is the next word."""
        self.spellings = spellings
        self.help, self.metavar = help, metavar
        self.parser, self.bare = parser, bare
        self.show_default, self.hidden = show_default, hidden
        self.min, self.max = min, max


class Argument:
    """A word without a flag."""

    def __init__(
        self,
        *,
        metavar: str,
        help: str = "",  # noqa: A002
        show_default: bool = False,
        after_dashes: bool = False,
    ) -> None:
        """`after_dashes`: all words after two hyphens."""
        self.metavar, self.help = metavar, help
        self.show_default, self.after_dashes = show_default, after_dashes


@dataclass(frozen=True, slots=True, kw_only=True)
class Flag:
    """A flag of one verb."""

    name: str
    """Name of the verb's parameter."""
    long: str
    short: str
    negation: str
    """Spelling that means False. Empty for a flag that is no switch."""
    kind: type
    """Type of one value: bool, str, int, float, Path or an enum."""
    is_list: bool
    default: Any
    is_required: bool
    option: Option

    @property
    def is_switch(self) -> bool:
        """Return whether the flag is True or False."""
        return self.kind is bool

    @property
    def has_bare_form(self) -> bool:
        """Return whether the next word never is the value."""
        return self.is_switch or self.option.bare is not None

    @property
    def spellings(self) -> tuple[str, ...]:
        """Return every spelling."""
        return tuple(each for each in (self.short, self.long, self.negation) if each)

    @property
    def title(self) -> str:
        """Return the name in messages, as kubectl has it: `-o, --output`."""
        return ", ".join(each for each in (self.short, self.long) if each)

    @property
    def choices(self) -> tuple[str, ...]:
        """Return the allowed values. Empty: any."""
        if issubclass(self.kind, enum.Enum):
            return tuple(str(each.value) for each in self.kind)
        return ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Positional:
    """An argument of one verb."""

    name: str
    metavar: str
    is_required: bool
    default: Any
    after_dashes: bool
    help: str


def read_parameter(parameter: _Parameter) -> Flag | Positional:
    """Return the declaration of a verb's parameter. Raises TypeError for one without any."""
    metadata = getattr(parameter.annotation, "__metadata__", ())
    declared = next((each for each in metadata if isinstance(each, Option | Argument)), None)
    if declared is None:
        raise TypeError(f"the parameter {parameter.name} is no flag and no argument")
    kind, is_list = _read_kind(parameter.annotation.__origin__)
    is_required = parameter.default is parameter.empty
    default = None if is_required else parameter.default
    if isinstance(declared, Argument):
        return Positional(
            name=parameter.name,
            metavar=declared.metavar.strip("[]"),
            is_required=is_required,
            default=default,
            after_dashes=declared.after_dashes,
            help=declared.help,
        )
    pairs = [each.partition("/") for each in declared.spellings]  # `--wait/--no-wait`
    names = [name for name, _, _ in pairs]
    long = next(each for each in names if each.startswith("--"))
    return Flag(
        name=parameter.name,
        long=long,
        short=next((each for each in names if not each.startswith("--")), ""),
        negation=next((negation for _, _, negation in pairs if negation), ""),
        kind=kind,
        is_list=is_list,
        default=default,
        is_required=is_required,
        option=declared,
    )


def convert(flag: Flag, text: str) -> Any:
    """Return the value of a flag. Raises ValueError with the reason."""
    option = flag.option
    if option.parser is not None:
        return option.parser(text)
    if flag.choices:
        if text not in flag.choices:
            raise ValueError(f"must be one of {', '.join(flag.choices)}")
        return flag.kind(text)
    if flag.is_switch:
        return _convert_switch(text)
    if flag.kind is int:
        return _convert_number(option, text)
    return Path(text) if flag.kind is Path else text


def _read_kind(annotation: Any) -> tuple[type, bool]:
    """Return the type of one value, and whether the flag can be repeated."""
    if isinstance(annotation, types.UnionType):
        (annotation,) = (each for each in annotation.__args__ if each is not types.NoneType)
    if typing.get_origin(annotation) is list:
        return typing.get_args(annotation)[0], True
    return annotation, False


_SWITCHES = {
    **dict.fromkeys(("true", "True", "TRUE", "t", "T", "1"), True),
    **dict.fromkeys(("false", "False", "FALSE", "f", "F", "0"), False),
}
"""The words that Go's strconv.ParseBool accepts."""


def _convert_switch(text: str) -> bool:
    if text not in _SWITCHES:
        raise ValueError("must be true or false")
    return _SWITCHES[text]


def _convert_number(option: Option, text: str) -> int:
    low, high = option.min, option.max
    digits = text.removeprefix("-")
    number = int(text) if digits.isascii() and digits.isdigit() and len(digits) < 19 else None
    if number is None or (low is not None and number < low) or (high is not None and number > high):
        limits = f" from {low}" if low is not None else ""
        limits += f" to {high}" if high is not None else ""
        raise ValueError(f"must be a whole number{limits}")
    return number
