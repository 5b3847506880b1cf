"""Differences between two objects: the fields, and whether an answer is all ours."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from syncer.model import diff
from tenancy import wellknown

TWICE = [
    {"key": "a", "operator": "In", "values": ["1"]},
    {"key": "a", "operator": "NotIn", "values": ["2", "3"]},
]


CONTAINERS = [{"name": "a", "image": "i", "stdin": False}, {"name": "b", "image": "j"}]


@pytest.mark.parametrize(
    ("sent", "there", "gone"),
    [
        ({"spec": {"a": 1, "b": 2}}, {"spec": {"a": 1}}, ["spec.b"]),
        ({"spec": {"a": 1}}, {"spec": {"a": 2, "c": 3}}, []),
        ({"spec": {"off": False, "none": [], "empty": {}, "text": ""}}, {"spec": {}}, []),
        (
            {"spec": {"containers": CONTAINERS}},
            {"spec": {"containers": [{"name": "side"}, {"name": "b", "image": "x"}]}},
            ["spec.containers[a]"],
        ),
        (
            {"spec": {"containers": CONTAINERS}},
            {"spec": {"containers": [{"name": "b", "image": "j"}, {"name": "a"}]}},
            ["spec.containers[a].image"],
        ),
        ({"args": ["a", "b"]}, {"args": ["a"]}, ["args[1]"]),
        ({"matchExpressions": TWICE}, {"matchExpressions": TWICE}, []),
    ],
)
def test_what_a_server_dropped_is_named_and_what_it_changed_or_left_empty_is_not(sent, there, gone):
    assert diff.find_missing(sent, there) == gone


def test_what_differs_is_named_without_the_bookkeeping_of_a_write():
    body = {
        "metadata": {
            "uid": "u",
            "resourceVersion": "7",
            "labels": {"a": "1", "b": None},
            "annotations": {wellknown.STORE_REVISION: "9"},
        },
        "spec": {"x": 1},
    }
    there = {"metadata": {"uid": "v", "labels": {"a": "2", "b": "3"}}, "spec": {"x": 1}}
    assert diff.find_lacking(body, there) == ["metadata.labels.a", "metadata.labels.b"]
    assert diff.find_written_paths({"data": {"a": "1"}}, {"data": {"a": "1", "b": "2"}}) == [
        "data.b"
    ]


def test_a_difference_is_the_same_whatever_version_it_is_made_from_and_another_with_other_values():
    def digest(sent: str, there: str, version: str) -> bytes:
        body = {"metadata": {"uid": "u", "resourceVersion": version}, "data": {"a": sent}}
        return diff.compute_digest(
            body, {"metadata": {"resourceVersion": version}, "data": {"a": there}}
        )

    assert digest("1", "2", "7") == digest("1", "2", "8")
    body: dict[str, Any] = {"metadata": {"uid": "u"}, "data": {"a": "1"}}
    stamped = {**body, "metadata": {"uid": "u", "annotations": {wellknown.STORE_REVISION: "9"}}}
    assert diff.compute_digest(body, {}) == diff.compute_digest(stamped, {})
    assert digest("1", "2", "7") != digest("1", "3", "7")
    assert digest("1", "2", "7") != digest("2", "2", "7")


values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(0, 2), st.sampled_from("ab")),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.sampled_from(["name", "x", "y"]), inner)
    ),
    max_leaves=8,
)


bodies = st.dictionaries(st.sampled_from(["spec", "data", "metadata"]), values)


@given(bodies, bodies)
def test_no_body_stumbles_and_none_differs_from_itself(one, other):
    diff.find_lacking(one, other)
    diff.find_missing(one, other)
    assert diff.find_missing(one, one) == []


@pytest.mark.parametrize(
    ("answer", "is_all"),
    [
        ({"metadata": {"resourceVersion": "2", "labels": {"a": "1"}}, "status": {"x": 2}}, True),
        ({"metadata": {"resourceVersion": "2", "labels": {"a": "2"}}, "status": {"x": 2}}, False),
        ({"metadata": {"resourceVersion": "2"}, "status": {"x": 2}}, False),
        (
            {"metadata": {"labels": {"a": "1"}}, "status": {"x": 2, "y": 1}},
            False,
        ),
        ({"metadata": {"labels": {"a": "1"}}, "status": {"x": 2}, "spec": {"b": 1}}, False),
        ({"metadata": {"generation": 2, "labels": {"a": "1"}}, "status": {"x": 2}}, False),
    ],
    ids=["ours", "label-changed", "label-gone", "status-besides", "spec-besides", "counted"],
)
def test_an_answer_that_holds_more_than_was_there_and_sent_is_not_all_ours(answer, is_all):
    before = {"metadata": {"resourceVersion": "1", "labels": {"a": "1"}}, "status": {"y": 1}}
    patch = {"metadata": {"uid": "u"}, "status": {"x": 2, "y": None}}
    before["metadata"]["uid"] = answer["metadata"]["uid"] = "u"
    assert diff.is_result_of_patch(before, patch, answer) is is_all
