"""Parser of the words of a command line, with the rules of kubectl (pflag). Pure.

Flags stand anywhere, also before the verb. A switch has a value only after `=`. Two hyphens end the
flags. Hazard: a misspelled flag must be an error. Otherwise its value would be read as a name.
"""

import difflib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from kubectl_vc.commandline.commands import Command, CommandGroup
from kubectl_vc.commandline.declarations import Flag, Positional, convert
from kubectl_vc.output.cli_errors import UsageError

HELP_FLAGS = ("-h", "--help")


@dataclass(frozen=True, slots=True)
class Selection:
    """The command that the words select, and the words that are left for it."""

    path: tuple[str, ...]
    command: Command | CommandGroup
    words: tuple[str, ...]


@dataclass(slots=True)
class _ParsedWords:
    values: dict[str, Any] = field(default_factory=dict)
    plain: list[str] = field(default_factory=list)
    rest: list[str] | None = None
    """Words after two hyphens. None without them."""


def select_command(root: CommandGroup, words: Sequence[str]) -> Selection:
    """Return the command that the words select. Raises UsageError for an unknown one."""
    path: list[str] = []
    kept: list[str] = []
    group, index = root, 0
    while index < len(words):
        word = words[index]
        index += 1
        if word == "--":
            kept += [word, *words[index:]]
            break
        if word.startswith("-"):
            kept.append(word)
            if _takes_next(root, word) and index < len(words):
                kept.append(words[index])
                index += 1
            continue
        found = group.commands.get(word)
        if found is None:
            raise UsageError(_describe_unknown(word, group, path), path=tuple(path))
        path.append(word)
        if isinstance(found, Command):
            return Selection(tuple(path), found, (*kept, *words[index:]))
        group = found
    return Selection(tuple(path), group, tuple(kept))


def wants_help(words: Iterable[str]) -> bool:
    """Return whether one of the words before two hyphens asks for the help."""
    for word in words:
        if word == "--":
            return False
        if word in HELP_FLAGS:
            return True
    return False


def parse_words(command: Command, words: Sequence[str]) -> dict[str, Any]:
    """Return the arguments of a verb's function. Raises UsageError."""
    parsed = _split_words(command, words)
    for flag in command.flags:
        if flag.name not in parsed.values:
            if flag.is_required:
                example = f"{flag.long} {flag.option.metavar or 'VALUE'}"
                raise UsageError(f"{flag.long} is missing. Add {example}.")
            parsed.values[flag.name] = flag.default
        elif flag.is_required and parsed.values[flag.name] == "":
            raise UsageError(f"{flag.long} is empty. Add {flag.option.metavar or 'VALUE'}.")
    _assign_positionals(command, parsed)
    return parsed.values


def find_similar(word: str, known: Iterable[str]) -> str:
    """Return the known word that a misspelled word may stand for. Empty without any."""
    names = [*known]
    close = difflib.get_close_matches(word, names, n=1, cutoff=0.6)
    longer = [each for each in names if len(word) > 2 and each.startswith(word)]
    return next(iter([*longer, *close]), "")


def _split_words(command: Command, words: Sequence[str]) -> _ParsedWords:
    known = {spelling: flag for flag in command.flags for spelling in flag.spellings}
    parsed, queue = _ParsedWords(), list(words)
    while queue:
        word = queue.pop(0)
        if word == "--":
            parsed.rest = queue
            break
        if word.startswith("--"):
            spelling, equals, value = word.partition("=")
            flag = known.get(spelling)
            if flag is None:
                raise UsageError(f"unknown flag: {spelling}.{_suggest(spelling, known)}")
            _set(parsed, flag, spelling, value if equals else None, queue)
        elif word.startswith("-") and word != "-":
            _read_shorthands(parsed, known, word, queue)
        else:
            parsed.plain.append(word)
    return parsed


def _read_shorthands(
    parsed: _ParsedWords, known: dict[str, Flag], word: str, queue: list[str]
) -> None:
    letters = word[1:]
    while letters:
        letter, letters = letters[0], letters[1:]
        flag = known.get(f"-{letter}")
        if flag is None:
            raise UsageError(
                f"unknown shorthand flag: {letter!r} in {word}.{_suggest(f'-{word}', known)}"
            )
        value: str | None = None
        if letters.startswith("="):
            value, letters = letters[1:], ""
        elif letters and not flag.has_bare_form:
            value, letters = letters, ""
        _set(parsed, flag, f"-{letter}", value, queue)


def _set(
    parsed: _ParsedWords, flag: Flag, spelling: str, text: str | None, queue: list[str]
) -> None:
    if text is None and flag.has_bare_form:
        text = flag.option.bare or "true"
    elif text is None:
        if not queue:
            is_letter = not spelling.startswith("--")
            shown = f"{spelling[1:]!r} in {spelling}" if is_letter else spelling
            raise UsageError(f"flag needs an argument: {shown}.")
        text = queue.pop(0)
    try:
        value = convert(flag, text)
    except ValueError as problem:
        reason = str(problem).removesuffix(".")
        raise UsageError(
            f'invalid argument "{text}" for "{flag.title}" flag: {reason}.'
        ) from problem
    if flag.is_switch and spelling == flag.negation:
        value = not value
    if flag.is_list:
        parsed.values.setdefault(flag.name, []).append(value)
    else:
        parsed.values[flag.name] = value


def _assign_positionals(command: Command, parsed: _ParsedWords) -> None:
    words = list(parsed.plain)
    rest = parsed.rest
    takes_rest = any(each.after_dashes for each in command.positionals)
    if rest is not None and not takes_rest:
        words += rest
    for each in command.positionals:
        if each.after_dashes:
            if rest == []:
                raise UsageError("COMMAND is missing. Add it after two hyphens.")
            parsed.values[each.name] = rest if rest is not None else each.default
        elif words:
            parsed.values[each.name] = _check_filled(each, words.pop(0))
        elif each.is_required:
            raise UsageError(f"{each.metavar} is missing. Add the {_lower(each.help)}.")
        else:
            parsed.values[each.name] = each.default
    if words:
        hint = " A command comes after two hyphens: -- COMMAND." if takes_rest else ""
        raise UsageError(f'unexpected argument "{words[0]}".{hint}')


def _check_filled(each: Positional, word: str) -> str:
    """Return the word. Raise UsageError for an empty one, as `"$UNSET"` in a script is.

    An omitted argument may stand for all objects. An empty one never does.
    """
    if word == "":
        otherwise = "" if each.is_required else ", or leave it out"
        raise UsageError(f"{each.metavar} is empty. Enter a name{otherwise}.")
    return word


def _takes_next(root: CommandGroup, word: str) -> bool:
    """Return whether a flag before the verb has its value in the next word."""
    if "=" in word or word in HELP_FLAGS:
        return False
    for _, command in root.iterate_verbs():
        for flag in command.flags:
            if word in flag.spellings:
                return not flag.has_bare_form
    return False


def _describe_unknown(word: str, group: CommandGroup, path: Sequence[str]) -> str:
    where = " ".join(("kubectl vc", *path))
    similar = find_similar(word, group.commands)
    hint = f" Did you mean `{where} {similar}`?" if similar else ""
    return f'unknown command "{word}" for "{where}".{hint}'


def _suggest(spelling: str, known: Iterable[str]) -> str:
    similar = find_similar(spelling, [each for each in known if each.startswith("--")])
    return f" Did you mean {similar}?" if similar else ""


def _lower(text: str) -> str:
    text = text.partition(". ")[0].removesuffix(".")
    return text[:1].lower() + text[1:]
