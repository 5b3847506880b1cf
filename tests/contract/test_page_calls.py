"""Calls of `kubectl vc` and `helm` in the pages, by the command line's own parser and the schema.

Inline code may name a verb without its arguments. A command in a code block is whole.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from kubectl_vc.app import app
from kubectl_vc.commandline import parsing
from kubectl_vc.commandline.commands import Command
from kubectl_vc.output.cli_errors import UsageError
from tests.support.page_commands import PageCommand, read_commands, split_words
from tools.packages import ROOT

_PLACEHOLDERS = {"COMMAND", "..."}
_USAGE_END = " [options]"
"""End of a usage line of the reference."""
_INCOMPLETE = re.compile(r"^(?:.* is missing\.|flag needs an argument)")
_SETS = re.compile(r"--set[ =]([\w.]+=[^\s`'\"]+)")
CHART = ROOT / "charts/virtual-cluster"


def list_pages() -> Iterator[Path]:
    """Yield all pages but the decisions, which may name what was decided against."""
    yield from sorted(ROOT.glob("*.md"))
    yield from (p for p in sorted((ROOT / "docs").rglob("*.md")) if "adr" not in p.parts)
    yield CHART / "README.md"


PAGES = list(list_pages())


def find_fault(command: PageCommand) -> str:
    """Return the error of the parser. Empty if the call is right."""
    call = replace(command, text=command.text.partition(_USAGE_END)[0])
    words = [word for word in split_words(call) if word not in _PLACEHOLDERS]
    if words and not words[0].isascii():  # a drawing
        return ""
    try:
        selected = parsing.select_command(app, words)
        if isinstance(selected.command, Command) and not parsing.wants_help(selected.words):
            parsing.parse_words(selected.command, selected.words)
    except UsageError as problem:
        is_mention = not command.is_whole and _INCOMPLETE.match(str(problem))
        return "" if is_mention else str(problem)
    return ""


def find_faults(text: str) -> list[str]:
    found = read_commands(text, "kubectl vc")
    return [f"{c.line}: {c.text}: {fault}" for c in found if (fault := find_fault(c))]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_each_call_of_kubectl_vc_is_one_that_it_takes(page: Path):
    assert find_faults(page.read_text()) == []


def test_many_calls_were_read():
    pages = {
        str(p.relative_to(ROOT)): list(read_commands(p.read_text(), "kubectl vc")) for p in PAGES
    }
    assert sum(map(len, pages.values())) > 250
    assert all(len(pages[name]) >= 3 for name in ("README.md", "docs/usage.md"))
    assert any(c.is_whole for c in pages["docs/usage.md"])


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("```\n$ kubectl vc lst -A\n```", "unknown command"),
        ("```\nkubectl vc list --al | wc -l\n```", "unknown flag: --al"),
        ("```\nkubectl vc delete\n```", "NAME is missing"),
        ("```\nkubectl vc sleep web \\\n  --workloads stop\n```", "must be one of"),
        ("```\nfor n in a b; do kubectl vc delete $n --now=x; done\n```", "must be true or false"),
        ("Use `kubectl vc delete --bad`.", "unknown flag: --bad"),
    ],
)
def test_a_wrong_call_is_found(text: str, fault: str):
    (found,) = find_faults(text)
    assert fault in found


@pytest.mark.parametrize(
    "text",
    [
        "`kubectl vc delete` removes it.",
        "```\n$ kubectl vc list -A | grep web    # a comment\n```",
        "```\nkubectl vc connect web -- kubectl get pods --bad\n```",
        "```\nkubectl vc wake web\n```\n\nWith `--bad`, nothing.",
    ],
)
def test_a_right_call_passes(text: str):
    assert find_faults(text) == []


def list_settings(text: str) -> Iterator[tuple[list[str], Any]]:
    """Yield the path and the value of each `--set` of a page, read as Helm reads them."""
    for found in _SETS.finditer(text):
        for pair in found[1].split(","):
            key, _, value = pair.partition("=")
            yield key.split("."), yaml.safe_load(value)


def find_setting_fault(schema: dict[str, Any], path: list[str], value: Any) -> str:
    """Return why a value of the chart is wrong. Empty if it is right."""
    for name in path:
        known = schema.get("properties") or {}
        if name not in known and schema.get("additionalProperties") is False:
            return f"{'.'.join(path)}: {name} is no value of the chart"
        schema = known.get(name) or {}
    if "enum" in schema and value not in schema["enum"]:
        return f"{'.'.join(path)}: {value!r} is none of {schema['enum']}"
    kinds = {"boolean": bool, "integer": int, "string": str}
    wanted = kinds.get(schema.get("type", ""), object)
    return "" if isinstance(value, wanted) else f"{'.'.join(path)}: {value!r} is no {wanted}"


SCHEMA = json.loads((CHART / "values.schema.json").read_text())


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_each_setting_of_the_chart_is_in_its_schema(page: Path):
    found = list_settings(page.read_text())
    assert [
        fault for path, value in found if (fault := find_setting_fault(SCHEMA, path, value))
    ] == []


def test_settings_were_read_and_wrong_ones_are_found():
    assert sum(1 for page in PAGES for _ in list_settings(page.read_text())) > 20
    for text, fault in (
        ("--set syncRules.gateway.enabled=true", "gateway is no value"),
        ("--set manager.replicas=1,syncer.replicas=some", "'some' is no"),
        ("--set agent.upstream=proxy", "is none of"),
        ("--set syncRules.gatewayApi.enabled=yes", ""),
    ):
        faults = [find_setting_fault(SCHEMA, *each) for each in list_settings(text)]
        assert fault in "".join(faults)


def test_each_upgrade_of_the_chart_can_be_run_as_it_stands():
    """A command with `...` in the place of the chart was on three pages."""
    for page in PAGES:
        for command in read_commands(page.read_text(), "helm"):
            words = split_words(command)
            if words[:1] in (["upgrade"], ["install"]) and len(words) > 2:
                assert "..." not in words, f"{page}: {command.text}"
                assert {"-n", "--namespace"} & set(words), f"{page}: {command.text}"


_ROLE_WITH_USE = re.compile(r"create (?:cluster)?role\b[^`]*--verb[= ]\S*\b(?:use|bind|escalate)\b")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_no_page_creates_a_role_with_a_verb_that_kubectl_refuses(page: Path):
    """kubectl accepts `use` for pod security policies only, so such a role is a file."""
    lines = page.read_text().splitlines()
    assert [line for line in lines if _ROLE_WITH_USE.search(line)] == []
