"""The walk copies only what a verdict names."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from syncer.model.field_rules import (
    ALLOW_MAP,
    ALLOW_SCALAR,
    AllowTree,
    AllowValues,
    BuiltField,
    DropField,
    FieldWalk,
    ListOfObjects,
    ObjectFields,
    RefuseField,
    iterate_leaf_paths,
    lift_rules,
)
from syncer.model.rejections import RejectionProblem
from syncer.rules.pods.pod_fields import POD_SPEC
from tests.unit.syncer.model.test_object_meta import OBJECTS

TABLE = {
    "plain": ALLOW_SCALAR,
    "free": ALLOW_MAP,
    "only": AllowValues(frozenset({"a", "b"}), "only-rule", "Use a or b"),
    "never": RefuseField("never-rule", "leave it out"),
    "dropped": DropField("because"),
    "written": BuiltField("elsewhere"),
    "tree": AllowTree(frozenset({"bad"}), "tree-rule", "Leave it out"),
    "inner": ObjectFields({"x": ALLOW_SCALAR}),
    "list": ListOfObjects({"x": ALLOW_SCALAR, "bad": RefuseField("never-rule", "no")}),
}


def walk(value):
    """Return the copy and the rules that were broken, with their places."""
    found = FieldWalk()
    copied = found.walk_fields(value, TABLE, "spec")
    return copied, [(problem.rule, problem.path) for problem in found.problems]


@pytest.mark.parametrize(
    ("value", "copied", "problems"),
    [
        ({"plain": "x"}, {"plain": "x"}, []),
        ({"plain": [1, "b", True]}, {"plain": [1, "b", True]}, []),
        ({"plain": None}, {}, []),
        ({"plain": {}}, {}, [("malformed", "spec.plain")]),
        ({"free": {"cpu": "1"}}, {"free": {"cpu": "1"}}, []),
        ({"free": {"cpu": {}}}, {}, [("malformed", "spec.free")]),
        ({"only": "a"}, {"only": "a"}, []),
        ({"only": ["a", "c"]}, {"only": ["a", "c"]}, [("only-rule", "spec.only")]),
        ({"only": ""}, {}, []),
        ({"only": {}}, {}, [("malformed", "spec.only")]),
        ({"only": ["a", {}]}, {}, [("malformed", "spec.only")]),
        ({"never": False}, {}, []),
        ({"never": 0}, {}, []),
        ({"never": []}, {}, []),
        ({"never": {}}, {}, [("never-rule", "spec.never")]),
        ({"never": 1}, {}, [("never-rule", "spec.never")]),
        ({"dropped": "x", "written": "y"}, {}, []),
        ({"tree": {"a": [{"b": 1}, "c"]}}, {"tree": {"a": [{"b": 1}, "c"]}}, []),
        (
            {"tree": {"a": [{"x": 1}, {"bad": 2, "more": {"bad": None, "x": 3}}]}},
            {"tree": {"a": [{"x": 1}, {"more": {"x": 3}}]}},
            [("tree-rule", "spec.tree.a[1].bad"), ("tree-rule", "spec.tree.a[1].more.bad")],
        ),
        ({"inner": {"x": 1}}, {"inner": {"x": 1}}, []),
        ({"inner": []}, {"inner": {}}, [("malformed", "spec.inner")]),
        (
            {"list": [{"x": 1}, {"bad": 1}]},
            {"list": [{"x": 1}, {}]},
            [("never-rule", "spec.list[1].bad")],
        ),
        ({"list": {}}, {}, [("malformed", "spec.list")]),
        ({"new": "x"}, {}, [("unknown-field", "spec.new")]),
        ({"new": {}}, {}, [("unknown-field", "spec.new")]),
        ({"new": ""}, {}, []),
        ({"new": None}, {}, []),
        ([], {}, [("malformed", "spec")]),
    ],
)
def test_each_verdict(value, copied, problems):
    assert walk(value) == (copied, problems)


def test_closed_field_of_a_tree_is_refused_with_the_remedy_of_its_rule():
    found = FieldWalk()
    found.walk_fields({"tree": {"bad": 1}}, TABLE, "spec")
    assert found.problems == [RejectionProblem("tree-rule", "spec.tree.bad", "Leave it out")]


def test_what_is_left_out_ends_nothing():
    value = {"plain": None, "strange": 1, "dropped": 2, "inner": {"x": None, "y": 1}, "free": {}}
    assert walk({**value, "more": 2, "only": "a"}) == (
        {"inner": {}, "free": {}, "only": "a"},
        [
            ("unknown-field", "spec.strange"),
            ("unknown-field", "spec.inner.y"),
            ("unknown-field", "spec.more"),
        ],
    )


def test_the_copy_shares_nothing_with_the_original():
    original = {"plain": ["a"], "free": {"k": "v"}, "list": [{"x": 1}]}
    copied, _ = walk(original)
    copied["plain"].append("b")
    copied["free"]["k2"] = "v"
    copied["list"][0]["x"] = 2
    assert original == {"plain": ["a"], "free": {"k": "v"}, "list": [{"x": 1}]}


def leaves_of(value, path):
    """Yield the paths of a copied object in the spelling of the table."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from leaves_of(inner, f"{path}.{key}")
    elif isinstance(value, list) and any(isinstance(item, dict) for item in value):
        for item in value:
            yield from leaves_of(item, f"{path}[]")
    else:
        yield path


KNOWN = sorted(
    {part for path, _ in iterate_leaf_paths(POD_SPEC, "spec") for part in path.split(".")[1:]}
)
NAMES = st.sampled_from([name.removesuffix("[]") for name in KNOWN] + ["surprise"])
PODS = st.recursive(
    st.sampled_from(["x", 1, True, "", 0, False]),
    lambda inner: st.dictionaries(NAMES, inner, max_size=4) | st.lists(inner, max_size=2),
    max_leaves=30,
)


@given(st.dictionaries(NAMES, PODS, max_size=6))
def test_no_leaf_outside_the_table_ever_gets_through(spec):
    allowed = {
        path
        for path, verdict in iterate_leaf_paths(POD_SPEC, "spec")
        if not isinstance(verdict, DropField | BuiltField)
    }
    copied = FieldWalk().walk_fields(spec, POD_SPEC, "spec")
    for path in leaves_of(copied, "spec"):
        parents = {path.rsplit(".", depth)[0] for depth in range(1, path.count(".") + 1)}
        is_known = path in allowed or any(parent in allowed for parent in parents)
        is_container = any(known.startswith((f"{path}.", f"{path}[]")) for known in allowed)
        assert is_known or is_container, path


@given(OBJECTS)
def test_nothing_unknown_with_a_value_is_silent(spec):
    found = FieldWalk()
    found.walk_fields(spec, {}, "spec")
    told = {problem.path for problem in found.problems}
    for key, value in spec.items():
        is_empty = value is None or value is False or value in ("", 0) or value == []
        assert (f"spec.{key}" in told) != is_empty


@pytest.mark.parametrize(
    ("value", "told"),
    [
        ({"plain": {}}, "must be a plain value. Correct the object"),
        ({"plain": [{}]}, "must be a list of plain values. Correct the object"),
        ({"free": {"a": []}}, "must be a map of plain values. Correct the object"),
        ({"list": "x"}, "must be a list. Correct the object"),
        ({"inner": "x"}, "must be an object. Correct the object"),
        ({"only": "c" * 70}, f"must not be '{'c' * 60}'. Use a or b"),
        ({"never": 1}, "leave it out"),
        ({"new": 1}, "is not known to this version. Leave it out, or ask for a newer version"),
    ],
)
def test_a_problem_reports_what_would_do(value, told):
    found = FieldWalk()
    found.walk_fields(value, TABLE, "spec")
    assert [problem.text for problem in found.problems] == [told]


def test_what_some_rules_hold_back_is_lifted_wherever_it_stands():
    table = {
        "inner": ObjectFields({"only": TABLE["only"], "never": TABLE["never"]}),
        "list": ListOfObjects(
            {"deep": ObjectFields({"never": TABLE["never"]}), "plain": ALLOW_SCALAR}
        ),
        "other": RefuseField("other-rule", "no"),
        "dropped": TABLE["dropped"],
    }
    assert lift_rules(table, {"never-rule"}) == {
        "inner": ObjectFields({"only": TABLE["only"], "never": ALLOW_SCALAR}),
        "list": ListOfObjects(
            {"deep": ObjectFields({"never": ALLOW_SCALAR}), "plain": ALLOW_SCALAR}
        ),
        "other": RefuseField("other-rule", "no"),
        "dropped": TABLE["dropped"],
    }
    assert lift_rules(table, {"only-rule"})["inner"] == ObjectFields(
        {"only": ALLOW_SCALAR, "never": TABLE["never"]}
    )
    assert lift_rules(table, ()) == table


def test_each_leaf_of_a_table_has_its_path():
    table = {
        "a": ALLOW_SCALAR,
        "b": ObjectFields({"c": ALLOW_MAP}),
        "d": ListOfObjects({"e": ObjectFields({"f": ALLOW_SCALAR})}),
    }
    assert list(iterate_leaf_paths(table, "spec")) == [
        ("spec.a", ALLOW_SCALAR),
        ("spec.b.c", ALLOW_MAP),
        ("spec.d[].e.f", ALLOW_SCALAR),
    ]
