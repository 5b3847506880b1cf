"""References of a pod and of an Ingress to other objects, and the reverse index."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from syncer.model.references import (
    ACCOUNT_TOKEN,
    POD_TOKEN,
    ObjectReference,
    ReferenceIndex,
    build_user_name,
    is_reserved_name,
    list_pod_needs,
    list_references,
)

POD = {
    "metadata": {"name": "p", "namespace": "web", "uid": "u"},
    "spec": {
        "serviceAccountName": "robot",
        "imagePullSecrets": [{"name": "pull"}],
        "volumes": [
            {"name": "a", "secret": {"secretName": "s1"}},
            {"name": "b", "configMap": {"name": "c1"}},
            {
                "name": "c",
                "projected": {
                    "sources": [
                        {"secret": {"name": "s2"}},
                        {"configMap": {"name": "c2"}},
                        {"serviceAccountToken": {"path": "t"}},
                        {"serviceAccountToken": {"path": "v", "audience": "vault"}},
                    ]
                },
            },
            {"name": "d", "emptyDir": {}},
        ],
        "initContainers": [{"envFrom": [{"configMapRef": {"name": "c3"}}]}],
        "containers": [
            {
                "envFrom": [{"secretRef": {"name": "s3"}}],
                "env": [
                    {"name": "A", "valueFrom": {"secretKeyRef": {"name": "s4", "key": "k"}}},
                    {"name": "B", "valueFrom": {"configMapKeyRef": {"name": "c4", "key": "k"}}},
                    {"name": "C", "value": "plain"},
                ],
            }
        ],
        "ephemeralContainers": [{"envFrom": [{"secretRef": {"name": "s5"}}]}],
    },
}


def test_every_place_that_names_an_object_is_walked():
    found = list_references(POD["spec"])
    assert {ref.name for ref in found if ref.kind == "Secret"} == {
        "pull",
        "s1",
        "s2",
        "s3",
        "s4",
        "s5",
    }
    assert {ref.name for ref in found if ref.kind == "ConfigMap"} == {"c1", "c2", "c3", "c4"}
    tokens = {ObjectReference(ACCOUNT_TOKEN, "robot"), ObjectReference(POD_TOKEN, "u")}
    assert list_pod_needs(POD) == found | tokens


@pytest.mark.parametrize("spec", [{"volumes": "none"}, {"containers": [3]}, {"containers": {}}])
def test_a_malformed_pod_needs_nothing(spec):
    assert list_references(spec) == frozenset()
    sources = [{"serviceAccountToken": {"audience": "vault"}}]
    bound = {"volumes": [{"projected": {"sources": sources}}]}
    assert list_pod_needs({"metadata": {}, "spec": bound}) == frozenset()
    assert list_pod_needs({"metadata": {"uid": "u"}, "spec": spec}) == frozenset()


@pytest.mark.parametrize(
    ("kind", "name", "reserved"),
    [
        ("Secret", "vc-token-abc", True),
        ("Secret", "token", False),
        ("ConfigMap", "tenant-kube-root-ca.crt", True),
        ("ConfigMap", "kube-root-ca.crt", False),
        ("ConfigMap", "vc-token-abc", False),
    ],
)
def test_reserved_names(kind, name, reserved):
    assert is_reserved_name(kind, name) is reserved


pods = st.sampled_from(["p1", "p2", "p3"])


refs = st.frozensets(
    st.builds(ObjectReference, st.sampled_from(["Secret", "ConfigMap"]), st.sampled_from("ab"))
)


@given(st.lists(st.tuples(pods, refs), max_size=20))
def test_the_reverse_index_reports_what_the_pods_say(steps):
    index, truth = ReferenceIndex(), {}
    for pod, needed in steps:
        changed = index.set("web", pod, needed)
        assert changed == truth.get(pod, frozenset()) ^ needed
        truth[pod] = needed
        for kind in ("Secret", "ConfigMap"):
            for name in "ab":
                ref = ObjectReference(kind, name)
                users = {pod for pod, needs in truth.items() if ref in needs}
                assert index.list_users("web", ref) == users
                assert index.is_used("web", ref) == bool(users)
                assert index.is_shared("web", ref) == (len(users) > 1)
                assert not index.is_used("other", ref)


def test_a_pod_and_an_ingress_of_one_name_are_two_users():
    references, ref = ReferenceIndex(), ObjectReference("Secret", "cert")
    references.set("web", "x", [ref])
    references.set("web", build_user_name("Ingress", "x"), [ref])
    references.set("web", "x", [])
    assert references.is_used("web", ref)
    assert references.list_users("web", ref) == {"Ingress/x"}
