"""Each verb of `kubectl vc` has a row of bad input, and each row is about its own verb."""

from __future__ import annotations

from collections import Counter

from kubectl_vc.app import app
from kubectl_vc.commandline import parsing
from kubectl_vc.commandline.commands import Command
from tests.support.kubectl_vc.bad_calls import BAD_CALLS


def test_each_verb_has_a_row_of_bad_input():
    selected = [parsing.select_command(app, words) for words, _ in BAD_CALLS]
    assert all(isinstance(each.command, Command) for each in selected)
    rows = Counter(each.path for each in selected)
    assert [path for path, _ in app.iterate_verbs() if not rows[path]] == []


def test_no_row_is_written_twice():
    assert len({words for words, _ in BAD_CALLS}) == len(BAD_CALLS)
