"""Fields of an object under the paths of a SyncRule."""

from __future__ import annotations

from typing import Any

import pytest

from syncer.rules.custom.field_tables import CLOSED, UNLISTED, RuleWalk, build_table, copy_status

TABLE = build_table("r", ["spec.a", "spec.ports[].number", "spec.labels.*", "spec.tree.**"])
LISTED: dict[str, Any] = {
    "a": 1,
    "ports": [{"number": 2}],
    "labels": {"x": "y"},
    "tree": {"deep": [{"er": True}]},
}


@pytest.mark.parametrize(
    ("spec", "problem"),
    [
        (LISTED, None),
        (LISTED | {"b": None}, None),
        (LISTED | {"b": 1}, (UNLISTED, "spec.b")),
        (LISTED | {"ports": [{"number": 2, "name": "x"}]}, (UNLISTED, "spec.ports[0].name")),
        (LISTED | {"hostPath": {"path": "/"}}, (CLOSED, "spec.hostPath")),
        (LISTED | {"tree": {"hostPath": "/"}}, (CLOSED, "spec.tree.hostPath")),
        (LISTED | {"labels": {"privileged": True}}, (CLOSED, "spec.labels.privileged")),
    ],
)
def test_a_field_that_no_path_names_is_refused(spec, problem):
    walk = RuleWalk(rule="r")
    copied = walk.copy_fields({"spec": spec}, TABLE)
    assert [(each.rule, each.path) for each in walk.problems] == ([problem] if problem else [])
    assert all("SyncRule r" in each.text for each in walk.problems)
    if problem is None:
        assert copied == {"spec": LISTED}


def test_a_map_of_the_whole_spec_refuses_every_closed_name():
    walk = RuleWalk(rule="r")
    hostile = {"hostNetwork": True, "privileged": True, "serviceAccountName": "admin", "size": 1}
    copied = walk.copy_fields({"spec": hostile}, build_table("r", ["spec.*"]))
    assert [(each.rule, each.path) for each in walk.problems] == [
        (CLOSED, "spec.hostNetwork"),
        (CLOSED, "spec.privileged"),
        (CLOSED, "spec.serviceAccountName"),
    ]
    assert copied == {"spec": {"size": 1}}


def test_a_status_has_the_named_fields_alone():
    table = build_table("r", ["status.phase"])["status"].fields  # type: ignore[union-attr]
    assert copy_status({"phase": "Ready", "secret": "s"}, table) == {"phase": "Ready"}
    assert copy_status("odd", table) == {}
