"""Manifests of users as objects, and texts that are none."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vcmanager.plan.content import addon_manifests

CONFIG_MAP = "{apiVersion: v1, kind: ConfigMap, metadata: {name: a, namespace: web}, data: {x: y}}"


def parse(**data: str) -> addon_manifests.ParsedAddon:
    body = {
        "metadata": {"name": "base"},
        "data": {key.replace("_", "."): data[key] for key in data},
    }
    return addon_manifests.parse_manifests(body)


def test_documents_of_all_keys_are_objects_and_definitions_come_first():
    found = parse(
        b_yaml=f"{CONFIG_MAP}\n---\n# nothing\n---\n"
        "{apiVersion: v1, kind: Namespace, metadata: {name: web}}",
        a_yaml="{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition,"
        " metadata: {name: x.example.com}}",
    )
    assert found.problems == ()
    assert [each.body["kind"] for each in found.objects] == [
        "Namespace",
        "CustomResourceDefinition",
        "ConfigMap",
    ]
    assert found.objects[-1].title == "ConfigMap base, b.yaml, document 1: ConfigMap web/a"


def test_fields_of_an_api_server_are_left_out():
    text = (
        "{apiVersion: v1, kind: Pod, metadata: {name: a, uid: u, resourceVersion: '1',"
        " creationTimestamp: null}, status: {phase: Running}}"
    )
    (found,) = parse(a=text).objects
    assert found.body == {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}}


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("a: [", "is no YAML"),
        ("just a text", "is not an object"),
        ("[1, 2]", "is not an object"),
        ("{kind: Pod, metadata: {name: a}}", "apiVersion is missing"),
        ("{apiVersion: v1, metadata: {name: a}}", "kind is missing"),
        ("{apiVersion: v1, kind: Pod}", "metadata.name is missing"),
        ("{apiVersion: v1, kind: Pod, metadata: {generateName: a}}", "metadata.name is missing"),
        ("{apiVersion: v1, kind: Pod, metadata: {name: a, namespace: [b]}}", "is not a name"),
        ("{apiVersion: v1, kind: List, items: []}", "is a list"),
        ("{apiVersion: ../../v1, kind: Pod, metadata: {name: a}}", "apiVersion is not valid"),
        ("{apiVersion: v1, kind: 'Pod/x', metadata: {name: a}}", "kind is not valid"),
        ("{apiVersion: v1, kind: Pod, metadata: {name: a}, x: 2026-01-01}", "JSON does not have"),
        ("{apiVersion: v1, kind: Pod, metadata: {name: a}, x: .nan}", "JSON does not have"),
        ("a: &x [1]\nb: *x", "has an alias"),
        ("[" * 100 + "]" * 100, "levels"),
        ("[" * 200_000, "levels"),
        ("!!python/object/apply:os.system [id]", "is no YAML"),
    ],
)
def test_a_document_that_is_no_object_is_named_and_nothing_is_applied(text, why):
    found = parse(good_yaml=CONFIG_MAP, bad_yaml=text)
    assert found.objects == ()
    assert "bad.yaml" in found.problems[0]
    assert why in found.problems[0]


def test_limits_on_size_and_number():
    found = parse(a="#" * (addon_manifests.MAX_BYTES + 1))
    assert str(addon_manifests.MAX_BYTES) in found.problems[0]
    many = "\n---\n".join([CONFIG_MAP] * (addon_manifests.MAX_OBJECTS + 1))
    assert parse(a=many).objects == ()
    assert str(addon_manifests.MAX_OBJECTS) in parse(a=many).problems[0]
    assert "no manifests" in parse(a="# nothing").problems[0]


@given(st.text(max_size=80))
def test_any_text_has_objects_or_problems(text):
    found = parse(a=text)
    assert bool(found.objects) != bool(found.problems)


def test_the_digest_follows_the_data_only():
    one = {"metadata": {"name": "a", "labels": {"x": "1"}}, "data": {"a": "1"}}
    same = {"metadata": {"name": "a"}, "data": {"a": "1"}}
    assert addon_manifests.compute_digest(one) == addon_manifests.compute_digest(same)
    other = {"metadata": {"name": "a"}, "data": {"a": "2"}}
    assert addon_manifests.compute_digest(one) != addon_manifests.compute_digest(other)


def test_the_namespace_follows_the_scope_of_the_kind():
    body = {"metadata": {"name": "a"}}
    found = addon_manifests.place_object(body, is_namespaced=True)
    assert found["metadata"] == {"name": "a", "namespace": "default"}
    placed = {"metadata": {"name": "a", "namespace": "web"}}
    assert addon_manifests.place_object(placed, is_namespaced=True) == placed
    assert addon_manifests.place_object(placed, is_namespaced=False)["metadata"] == {"name": "a"}
