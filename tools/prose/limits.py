"""Limits of the prose rules in CONTRIBUTING, and the violations of a row of sentences."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from tools.prose.sentences import Sentence

MEAN_WORDS = 20.0
LONGEST_WORDS = 35
SEMICOLON_SHARE = 0.03

_BANNED = re.compile(
    r"\b(?:"
    r"nobody|somebody|whoever|whomever|whom|whosoever|"
    r"anew|"
    r"no more(?! than\b)|"
    r"any more(?! than\b)|"
    r"to be had|"
    r"be rid of|get rid of|"
    r"of before|"
    r"what is late|who waits|"
    r"tell|tells|told|say|says|said|hear|hears|heard|"
    r"is gone|are gone|was gone|were gone|be gone|been gone|has gone|have gone|had gone|"
    r"carried|goes? down|went down|goes? below|comes? up|shown above|"
    r"engaged|lets? go of|"
    r"stores? that went back|went back|"
    r"the brake|patrols?|"
    r"seats?|seated|"
    r"runs this cluster|"
    r"quarters? of an hour|half an? (?:hour|minute|second)"
    r")\b",
    re.IGNORECASE,
)
_SOFT = re.compile(
    r"\b(?:"
    r"looks?|looked|looking|takes?|took|taken|gives?|gave|given|gone|"
    r"whose|others|followed|figures|twins?|below|above|there|"
    r"counts|holds|lies|lets|"
    r"(?:is|are|was|were) to"
    r")\b",
    re.IGNORECASE,
)

# "One replica" has a noun and passes, "One that waits" has none.
_HEADLESS = re.compile(
    r"(?:what|who|whoever|those|of)\b|one (?:of|that|who|whose|which|is|was|may|can|cannot|has|had"
    r"|must|will|would|should|does|with|without|alone|by|in|on|to|at|from|for)\b",
    re.IGNORECASE,
)


def banned(sentence: Sentence) -> list[str]:
    """Return the banned words of a sentence."""
    return [found[0] for found in _BANNED.finditer(sentence.plain)]


def soft(sentence: Sentence) -> list[str]:
    """Return the words that are often, but not always, wrong."""
    return [found[0] for found in _SOFT.finditer(sentence.plain)]


def has_semicolon(sentence: Sentence) -> bool:
    """Return whether a semicolon joins two thoughts."""
    return ";" in sentence.text


def is_headless(sentence: Sentence) -> bool:
    """Return whether a pronoun stands for the first noun. Questions, fragments and cells pass."""
    text = sentence.plain.lstrip("(\"'\u201c")
    begins = _HEADLESS.match(text) is not None
    is_free = sentence.is_fragment or sentence.is_cell
    return begins and not text.endswith("?") and not is_free


@dataclass(frozen=True, slots=True)
class Violation:
    """One violation of a limit. There is no sentence where the row as a whole is to blame."""

    sentence: Sentence | None
    reason: str


@dataclass(slots=True)
class Row:
    """Sentences of one file or folder, which are measured together.

    Table cells are left out of the mean and of the share of semicolons. Their short texts would
    hide long sentences. A cell has no semicolon at all.
    """

    name: str
    sentences: list[Sentence] = field(default_factory=list)

    @property
    def mean(self) -> float:
        """Return the average number of words in a sentence."""
        body = self._body()
        return sum(s.words for s in body) / max(1, len(body))

    @property
    def semicolons(self) -> float:
        """Return the share of sentences with a semicolon, 0 to 1."""
        body = self._body()
        return sum(map(has_semicolon, body)) / max(1, len(body))

    def violations(self) -> Iterator[Violation]:
        """Yield the violations, sentence by sentence where a sentence is to blame."""
        if self.mean > MEAN_WORDS:
            yield Violation(None, f"mean of {self.mean:.1f} words")
        has_many_semicolons = self.semicolons > SEMICOLON_SHARE
        for sentence in self.sentences:
            if sentence.words > LONGEST_WORDS:
                yield Violation(sentence, f"{sentence.words} words")
            if has_semicolon(sentence) and (has_many_semicolons or sentence.is_cell):
                yield Violation(sentence, "semicolon")
            for word in banned(sentence):
                yield Violation(sentence, f"banned: {word}")
            if is_headless(sentence):
                yield Violation(sentence, "begins without a noun")

    def _body(self) -> list[Sentence]:
        return [s for s in self.sentences if not s.is_cell]

    def listed(self) -> list[str]:
        """Return the violations as lines `path:line: reason: text`."""
        return [
            f"{v.sentence.path}:{v.sentence.line}: {v.reason}: {v.sentence.shown}"
            if v.sentence
            else f"{self.name}:0: {v.reason}:"
            for v in self.violations()
        ]
