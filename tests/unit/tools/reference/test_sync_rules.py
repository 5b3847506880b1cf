"""Rules that the page finds in code."""

import re

from tools.packages import ROOT
from tools.reference import sync_rules
from tools.reference.sync_rules import RuleUse

CODE = """
_RULE = "b-rule"
TABLE = {"a": RefuseField("a-rule", "must not be set. Remove it")}

def check(value, rule):
    text = "is too long. Shorten it"
    yield RejectionProblem(_RULE, f"spec.items[{value}]", text)
    text = f"names {value}, " "which is taken"
    yield RejectionProblem("c-rule", path="spec", text=text)
    count = 0
    count += len(value)
    text = f"has {count} items."
    text += " Use fewer"
    yield RejectionProblem("d-rule", "spec", text)
    yield RejectionProblem(rule.rule, "spec", rule.text)
"""


def test_each_rule_has_the_sentence_that_was_assigned_last(tmp_path, monkeypatch):
    (tmp_path / "module.py").write_text(CODE)
    monkeypatch.setattr(sync_rules, "_SOURCE", tmp_path)
    assert sorted(sync_rules.find_uses()) == [
        RuleUse("a-rule", "", "must not be set. Remove it"),
        RuleUse("b-rule", "spec.items[*]", "is too long. Shorten it"),
        RuleUse("c-rule", "spec", "names ..., which is taken"),
        RuleUse("d-rule", "spec", "has 0 items. Use fewer"),
    ]


def test_each_rule_in_the_pages_exists():
    known = {each.rule for each in sync_rules.find_uses()}
    assert len(known) > 60
    pages = [*(ROOT / "docs").glob("*.md"), *(ROOT / "docs/tutorials").glob("*.md")]
    named = {
        rule
        for page in pages
        for rule in re.findall(r"\(rule `?([a-z][a-z-]+)`?\)", page.read_text())
    }
    assert named <= known, named - known
