"""A survivor that no one listed fails a run, and a listed one that is killed as well."""

import tomllib
from collections import Counter

import pytest

from tools.mutants import judge, known, page, results
from tools.mutants.parts import PARTS, part_of
from tools.mutants.results import (
    KILLED,
    SURVIVED,
    TIMEOUT,
    UNCHECKED,
    UNTESTED,
    ChangeLocation,
    Mutant,
)

PLACE = ChangeLocation("tenancy.names", "volume", "return a", "return b")
ROW = """
- module: tenancy.names
  function: volume
  was: return a
  becomes: return b
  why: it is the same
"""


def run(*states: str, place: ChangeLocation = PLACE) -> list[Mutant]:
    """Return killed mutants of all parts, and some of these states at one place."""
    calm = [
        Mutant(f"{module}-{number}", KILLED, ChangeLocation(module, "f", "", ""))
        for modules in PARTS.values()
        for module in modules
        for number in range(20)
    ]
    return calm + [Mutant(f"n{number}", state, place) for number, state in enumerate(states)]


def test_a_run_that_kills_all_is_good():
    verdict = judge.judge(run(KILLED, TIMEOUT), [])
    assert verdict.problems == []
    assert judge.score(verdict.counts["names"]) == 1.0


@pytest.mark.parametrize("state", [SURVIVED, UNTESTED])
def test_a_survivor_has_to_be_listed(state):
    verdict = judge.judge(run(state), [])
    assert [each.place for each in verdict.new] == [PLACE]
    assert "survived and is not listed" in verdict.problems[0]
    assert judge.judge(run(state), known.survivors(ROW)).problems == []


def test_what_is_listed_has_to_survive():
    for states in ((), (KILLED,)):
        verdict = judge.judge(run(*states), known.survivors(ROW))
        assert [row.place for row in verdict.healed] == [PLACE]
        assert "Remove it from known.yaml" in verdict.problems[0]


def test_equal_places_share_a_row():
    assert judge.judge(run(SURVIVED, KILLED, SURVIVED), known.survivors(ROW)).problems == []


def test_a_list_cannot_forgive_everything():
    verdict = judge.judge(run(*[SURVIVED] * 3), known.survivors(ROW))
    assert verdict.problems == ["of 'names' 87.0% are killed, and 90% must be"]


def test_a_run_that_did_not_come_to_its_end_is_none():
    verdict = judge.judge(run(UNCHECKED), [])
    assert "1 mutants of 'names' were not tried" in verdict.problems[0]
    assert judge.score(verdict.counts["names"]) == 1.0
    assert "no mutant of the part 'decide' was made" in judge.judge([], []).problems


def test_a_row_specifies_why_and_stands_there_once():
    assert known.survivors(ROW) == [known.KnownSurvivor(PLACE, "it is the same")]
    with pytest.raises(ValueError, match="without a reason"):
        known.survivors(ROW.replace("it is the same", "' '"))
    with pytest.raises(ValueError, match="twice"):
        known.survivors(ROW + ROW)


def test_rows_are_written_as_they_are_read():
    mutants = [Mutant("n", SURVIVED, place) for place in (PLACE, PLACE, PLACE._replace(was="x"))]
    written = known.rows(mutants)
    read = known.survivors(written.replace("why: ''", "why: so"))
    assert [row.place for row in read] == [PLACE, PLACE._replace(was="x")]


def test_the_tracked_list_can_be_read():
    for row in known.survivors():
        assert part_of(row.place.module)


@pytest.mark.parametrize(
    ("code", "state"),
    [
        (0, SURVIVED),
        (1, KILLED),
        (3, KILLED),
        (-11, KILLED),
        (-24, TIMEOUT),
        (33, UNTESTED),
        (-9, UNCHECKED),
    ],
)
def test_exit_codes_are_states(code, state):
    assert results.state_of(code) == state


def test_a_mutants_name_reports_where_it_is():
    assert results.named("a.b.x_c__mutmut_1") == ("a.b", "c")
    assert results.named("a.b.xǁCǁ_d__mutmut_12") == ("a.b", "C._d")


def test_a_change_is_what_a_diff_takes_and_puts():
    diff = "--- a.py\n+++ b.py\n@@ -1,2 +1,2 @@\n def f():\n-    return a\n+    return b\n"
    assert results.changed(diff) == ("return a", "return b")


def test_what_is_mutated_is_what_the_table_reports():
    configured = tomllib.loads((page.PAGE.parents[1] / "pyproject.toml").read_text())
    modules = [
        path.removesuffix(".py").replace("/", ".")
        for path in configured["tool"]["mutmut"]["only_mutate"]
    ]
    assert sorted(modules) == sorted(name for names in PARTS.values() for name in names)


def test_the_page_has_the_figures_and_the_reasons():
    listed = known.survivors(ROW)
    verdict = judge.judge(run(SURVIVED, KILLED, TIMEOUT), listed)
    text = page.render(verdict, listed)
    assert "| names | 23 | 21 | 1 | 1 | 0 | 95.7% | `tenancy.names` |" in text
    assert "| names | 1 | it is the same |" in text
    assert page.totals(verdict).splitlines()[-1].split()[1:3] == ["343", "341"]
    assert Counter(text.split())["**all**"] == 1
