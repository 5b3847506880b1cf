"""Each field of our kinds has a bad value that is refused with a sentence, or a reason for none."""

from __future__ import annotations

import ast
from collections import Counter
from pathlib import Path

import pytest

from tests.support.bad_fields import schema_fields
from tests.support.bad_fields.code_rows import CODE_ROWS, find_refusal
from tests.support.bad_fields.other_fields import DECIDED_ELSEWHERE, EVERY_VALUE_IS_LEGAL
from tests.support.bad_fields.rows import BadField
from tests.support.bad_fields.schema_rows import FORBIDDEN_CHANGES, SCHEMA_ROWS
from tests.support.bad_fields.valid_specs import VALID_SPECS

FIELDS = {(each.kind, each.path): each for each in schema_fields.list_fields()}
ROWS = (*SCHEMA_ROWS, *CODE_ROWS)
EXPLAINED = [
    (kind, path)
    for table in (DECIDED_ELSEWHERE, EVERY_VALUE_IS_LEGAL)
    for kind, by_reason in table.items()
    for paths in by_reason.values()
    for path in paths
]
_MIN_WORDS_OF_A_REASON = 5


def _name(row: BadField) -> str:
    return f"{row.kind} {row.path} {str(row.value)[:30]}"


def test_each_field_has_a_bad_value_or_a_reason_for_none():
    settled = {(row.kind, row.path) for row in ROWS} | set(EXPLAINED)
    missing = [
        f"{field.kind} {field.path}"
        for field in FIELDS.values()
        if field.is_leaf and not field.is_decided_by_type
        if (field.kind, field.path) not in settled
    ]
    assert missing == [], "add a row to tests/support/bad_fields, or a reason"


def test_each_validation_rule_has_a_row():
    told: dict[str, list[str]] = {}
    for row in (*SCHEMA_ROWS, *FORBIDDEN_CHANGES):
        told.setdefault(row.kind, []).append(row.sentence)
    missing = [
        f"{kind}: {message}"
        for kind, message in schema_fields.list_rule_messages()
        if not any(each in message for each in told[kind])
    ]
    assert missing == []


def test_no_field_is_explained_that_has_a_row_or_does_not_exist():
    assert [each for each in EXPLAINED if each not in FIELDS] == []
    assert sorted({(row.kind, row.path) for row in ROWS} & set(EXPLAINED)) == []
    assert [each for each, number in Counter(EXPLAINED).items() if number > 1] == []
    assert [
        each
        for each in EXPLAINED
        if FIELDS[each].is_decided_by_type or "x-kubernetes-validations" in FIELDS[each].schema
        if each not in _NAMES_OF_OTHER_OBJECTS
    ] == []


_NAMES_OF_OTHER_OBJECTS = {("VirtualClusterSnapshot", "spec.virtualClusterName")}
"""Fields that have a rule and name an object too."""


def test_each_reason_is_a_sentence_and_each_named_test_exists():
    for by_reason in EVERY_VALUE_IS_LEGAL.values():
        for reason in by_reason:
            assert reason.endswith(".")
            assert len(reason.split()) >= _MIN_WORDS_OF_A_REASON
    for by_test in DECIDED_ELSEWHERE.values():
        for place in by_test:
            path, _, name = place.partition("::")
            tree = ast.parse(Path(path).read_text())
            assert name in {
                node.name
                for node in tree.body
                if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
            }, place


def test_no_row_is_written_twice_and_each_names_a_field():
    assert [each for each, number in Counter(map(repr, ROWS)).items() if number > 1] == []
    assert [_name(row) for row in ROWS if (row.kind, row.path) not in FIELDS] == []


def test_each_field_is_in_a_valid_spec():
    for kind, path in FIELDS:
        schema_fields.get_value(kind, path)


@pytest.mark.parametrize(
    ("kind", "number"),
    [(kind, n) for kind, specs in VALID_SPECS.items() for n in range(len(specs))],
)
def test_a_valid_spec_is_not_refused(kind: str, number: int):
    assert find_refusal(kind, VALID_SPECS[kind][number]) == ""


@pytest.mark.parametrize("row", CODE_ROWS, ids=_name)
def test_a_bad_value_that_a_schema_takes_is_refused_with_a_sentence(row: BadField):
    spec = schema_fields.build_spec(row.kind, row.path, row.value)
    assert row.sentence in find_refusal(row.kind, spec)
