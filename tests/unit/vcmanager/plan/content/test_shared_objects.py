"""Which objects of the super cluster a tenant gets, and which never."""

from __future__ import annotations

from typing import Any

import pytest

from tenancy import ownership, wellknown
from tenancy.policies import SharedObjects
from tests.support.vcmanager.factories import TENANT
from vcmanager.plan.content import shared_objects

SOURCE = {"labels": {wellknown.SHARED_SOURCE: "enabled"}}
RULE = SharedObjects(kind="Secret", namespace="platform", match_labels={"share": "all"})
NAMESPACES: dict[str, dict[str, str]] = {
    "kube-public": {},
    "default": {},
    "shop": {"team": "shop"},
    "web": {"team": "web"},
}


def secret(name: str = "pull", **fields: Any) -> dict[str, Any]:
    metadata = {"name": name, "namespace": "platform", "uid": "s", "labels": {"share": "all"}}
    return {"metadata": metadata, "data": {"a": "YQ=="}, "type": "Opaque", **fields}


def test_a_namespace_is_a_source_only_by_its_label():
    assert shared_objects.find_namespace_problem("platform", SOURCE, "vc-manager") == ""
    for metadata in ({}, {"labels": {wellknown.SHARED_SOURCE: "yes"}}):
        problem = shared_objects.find_namespace_problem("platform", metadata, "vc-manager")
        assert wellknown.SHARED_SOURCE in problem
    assert "does not exist" in shared_objects.find_namespace_problem("x", None, "vc-manager")


@pytest.mark.parametrize("name", ["vc-manager", "kube-system", "kube-node-lease"])
def test_namespaces_with_credentials_are_never_a_source(name):
    assert "never a source" in shared_objects.find_namespace_problem(name, SOURCE, "vc-manager")


@pytest.mark.parametrize(
    "marks",
    [
        {"labels": ownership.build_owner_labels(TENANT, "web")},
        {"labels": ownership.build_owner_labels(TENANT, "")},
        {"annotations": ownership.build_owner_annotations(TENANT, "web", "uid")},
        {"annotations": {wellknown.ROOT_NAMESPACE: "true"}},
    ],
)
def test_a_root_or_super_namespace_is_never_a_source(marks):
    metadata = {**marks, "labels": {**marks.get("labels", {}), **SOURCE["labels"]}}
    problem = shared_objects.find_namespace_problem(TENANT.root, metadata, "vc-manager")
    assert "belongs to a tenant" in problem


def test_a_rule_without_labels_selects_nothing():
    assert shared_objects.is_selected(RULE, secret())
    bare = SharedObjects(kind="Secret", namespace="platform")
    assert not shared_objects.is_selected(bare, secret())
    gone = secret()
    gone["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    assert not shared_objects.is_selected(RULE, gone)


@pytest.mark.parametrize(
    ("names", "labels", "expected"),
    [
        ((), {}, ["kube-public"]),
        (("shop", "gone"), {}, ["shop"]),
        ((), {"team": "web"}, ["web"]),
        (("default",), {"team": "shop"}, ["default", "shop"]),
    ],
)
def test_namespaces_of_the_tenant_by_name_by_label_and_by_default(names, labels, expected):
    rule = SharedObjects(
        kind="Secret",
        namespace="platform",
        match_labels={"share": "all"},
        tenant_namespaces=names,
        tenant_namespace_labels=labels,
    )
    assert shared_objects.select_namespaces(rule, NAMESPACES) == expected


def test_an_object_has_the_content_of_its_source_and_nothing_else():
    source = secret(type="kubernetes.io/dockerconfigjson", immutable=True)
    source["metadata"] |= {"annotations": {"note": "internal"}, "finalizers": ["x/y"]}
    ((key, found),) = shared_objects.build_wish([(RULE, source)], NAMESPACES).objects.items()
    assert key == ("Secret", "kube-public", "pull")
    assert set(found) == {"apiVersion", "kind", "metadata", "data", "type"}
    assert found["type"] == "kubernetes.io/dockerconfigjson"
    assert found["metadata"]["labels"] == {wellknown.SHARED: "true"}
    assert set(found["metadata"]["annotations"]) == {wellknown.LAST_WRITTEN_DIGEST}
    assert "platform" not in str(found)


@pytest.mark.parametrize(
    "kind",
    [
        "kubernetes.io/service-account-token",
        "bootstrap.kubernetes.io/token",
        "helm.sh/release.v1",
    ],
)
def test_tokens_and_releases_are_never_shared(kind):
    found = shared_objects.build_wish([(RULE, secret(type=kind))], NAMESPACES)
    assert not found.objects
    assert "never shared" in found.problems[0]


def test_a_source_that_is_too_large_and_too_many_sources_are_left_out_with_a_problem():
    large = secret(data={"a": "x" * shared_objects.MAX_OBJECT_BYTES})
    found = shared_objects.build_wish([(RULE, large)], NAMESPACES)
    assert not found.objects
    assert str(shared_objects.MAX_OBJECT_BYTES) in found.problems[0]
    many = [(RULE, secret(f"s{number}")) for number in range(shared_objects.MAX_OBJECTS + 1)]
    found = shared_objects.build_wish(many, NAMESPACES)
    assert len(found.objects) == shared_objects.MAX_OBJECTS
    assert len(found.problems) == 1


def test_of_two_sources_with_one_name_the_first_is_used():
    other = SharedObjects(kind="Secret", namespace="second", match_labels={"share": "all"})
    pair = [(RULE, secret()), (other, secret(data={"b": "Yg=="}))]
    found = shared_objects.build_wish(pair, NAMESPACES)
    assert found.objects["Secret", "kube-public", "pull"]["data"] == {"a": "YQ=="}
    assert "name of another shared object" in found.problems[0]


def test_two_rules_that_select_one_source_give_it_to_the_namespaces_of_both():
    first, second = (
        SharedObjects(
            kind="Secret",
            namespace="platform",
            match_labels={"share": "all"},
            tenant_namespaces=names,
        )
        for names in (("shop",), ("shop", "web"))
    )
    found = shared_objects.build_wish([(first, secret()), (second, secret())], NAMESPACES)
    assert [namespace for _, namespace, _ in found.objects] == ["shop", "web"]
    assert found.problems == ()


def test_a_source_with_a_name_that_is_taken_in_one_namespace_reaches_the_others():
    first = SharedObjects(
        kind="Secret",
        namespace="platform",
        match_labels={"share": "all"},
        tenant_namespaces=("shop",),
    )
    second = SharedObjects(
        kind="Secret",
        namespace="second",
        match_labels={"share": "all"},
        tenant_namespaces=("shop", "web"),
    )
    pair = [(first, secret()), (second, secret(data={"b": "Yg=="}))]
    found = shared_objects.build_wish(pair, NAMESPACES)
    assert found.objects["Secret", "shop", "pull"]["data"] == {"a": "YQ=="}
    assert found.objects["Secret", "web", "pull"]["data"] == {"b": "Yg=="}
    assert len(found.problems) == 1


def test_the_root_authority_of_the_super_cluster_is_not_shared():
    rule = SharedObjects(kind="ConfigMap", namespace="platform", match_labels={"share": "all"})
    assert not shared_objects.is_selected(rule, secret("kube-root-ca.crt"))


def live(source: dict[str, Any], **changed: Any) -> dict[str, Any]:
    """Return an object as the tenant's API shows it, after a change."""
    made = shared_objects.build_object("Secret", "kube-public", source)
    metadata = {**made["metadata"], "uid": "u", "resourceVersion": "5", "finalizers": ["a/b"]}
    return {**made, "metadata": metadata, **changed}


def test_an_edit_is_distinguished_from_a_change_of_the_source():
    wanted = shared_objects.build_object("Secret", "kube-public", secret())
    assert shared_objects.is_current(live(secret()), wanted)
    edited = live(secret(), data={"a": "eA=="})
    assert not shared_objects.is_current(edited, wanted)
    assert shared_objects.was_edited(edited, wanted)
    older = live(secret(data={"a": "b2xk"}))
    assert not shared_objects.is_current(older, wanted)
    assert not shared_objects.was_edited(older, wanted)
    labelled = live(secret())
    labelled["metadata"]["labels"] = {**labelled["metadata"]["labels"], "mine": "1"}
    assert not shared_objects.is_current(labelled, wanted)
    assert shared_objects.was_edited(labelled, wanted)


def test_a_replacement_keeps_identity_and_finalizers_and_drops_added_keys():
    wanted = shared_objects.build_object("Secret", "kube-public", secret())
    body = shared_objects.build_replacement(live(secret(), data={"a": "", "b": ""}), wanted)
    assert body["data"] == {"a": "YQ=="}
    assert body["metadata"]["resourceVersion"] == "5"
    assert body["metadata"]["finalizers"] == ["a/b"]
    assert shared_objects.must_recreate(live(secret(), immutable=True), wanted)
    assert shared_objects.must_recreate(live(secret(), type="kubernetes.io/tls"), wanted)
    assert not shared_objects.must_recreate(live(secret()), wanted)
