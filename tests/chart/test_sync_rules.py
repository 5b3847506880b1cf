"""SyncRules of the chart: each file is optional, correct, and grants the rights of its rules."""

import re
from pathlib import Path

import pytest

from tenancy.sync_rules import checks, rights
from tenancy.sync_rules.specs import parse_sync_rule
from tests.support.helm import CHART, named, render

FILES = sorted((CHART / "sync-rules").glob("*.yaml"))


def get_value(path: Path) -> str:
    """Return the value of the chart that enables a file: its name in camel case."""
    return re.sub(r"-(\w)", lambda found: found[1].upper(), path.stem)


def render_file(path: Path, *words: str) -> list[dict]:
    """Return the SyncRules of a file, with the value that enables it."""
    return [
        each
        for each in render("--set", f"syncRules.{get_value(path)}.enabled=true", *words)
        if each["kind"] == "SyncRule"
    ]


def test_no_rule_is_installed_by_default():
    assert FILES
    assert not [each for each in render() if each["kind"] == "SyncRule"]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_rules_of_a_file_are_usable_and_the_file_grants_their_rights(path):
    rules = [parse_sync_rule(each) for each in render_file(path)]
    assert rules
    objects = render("--set", f"syncRules.{get_value(path)}.enabled=true")
    for rule in rules:
        assert checks.find_problem(rule, rules) is None
        role = named(objects, "ClusterRole", f"sync-rule:{rule.name}")
        assert role["metadata"]["labels"]["tenancy.x-k8s.io/aggregate-to-syncer"] == "true"
        assert rights.is_granted(rights.build_super_rules([rule]), role["rules"])
        assert rights.is_granted(role["rules"], rights.build_super_rules([rule]))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_rules_are_created_after_their_kind_or_with_the_rest_once_it_is_known(path):
    for rule in render_file(path):
        assert rule["metadata"]["annotations"]["helm.sh/hook"] == "post-install,post-upgrade"
    for rule in render_file(path, "--api-versions", "tenancy.x-k8s.io/v1alpha1/SyncRule"):
        assert "annotations" not in rule["metadata"]
