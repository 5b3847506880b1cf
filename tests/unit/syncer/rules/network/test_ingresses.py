"""Ingresses: rules and classes down, addresses up."""

from __future__ import annotations

from typing import Any

import pytest

from syncer.model.rejections import ForbiddenObjectError, RejectedError
from syncer.rules.network import ingresses
from tests.support.syncer.tenant_views import add, as_live, network_view, object_of, policy

CLASS = "IngressClass"
BACKEND = {"service": {"name": "web", "port": {"number": 80}}}


def ingress(**spec: Any) -> dict[str, Any]:
    """Return an Ingress with one rule."""
    path = {"path": "/", "pathType": "Prefix", "backend": BACKEND}
    rules = [{"host": "a.example", "http": {"paths": [path]}}]
    return object_of("Ingress", spec={"rules": rules, **spec})


OPEN = policy(network={"catchAllIngresses": "Allow"})


def test_names_stay_and_a_default_class_in_the_super_cluster_is_left_alone():
    own = ingress(tls=[{"hosts": ["a.example"], "secretName": "cert"}], defaultBackend=BACKEND)
    twin = ingresses.build_ingress(own, network_view(policy=OPEN))
    assert twin["spec"] == own["spec"]
    given = as_live(twin, spec={**twin["spec"], "ingressClassName": "default"})
    assert ingresses.build_change(given, twin) is None
    view = network_view()
    add(view.super_stores[CLASS], "other")
    named = ingresses.build_ingress(ingress(ingressClassName="other"), view)
    put = ingresses.build_change(given, named)
    assert put is not None
    assert put["spec"]["ingressClassName"] == "other"


def test_a_resource_backend_added_in_the_super_cluster_is_drift():
    twin = ingresses.build_ingress(ingress(defaultBackend=BACKEND), network_view(policy=OPEN))
    foreign = {"resource": {"kind": "Bucket", "name": "b"}}
    assert ingresses.build_change(
        as_live(twin, spec={**twin["spec"], "defaultBackend": foreign}), twin
    )


def test_classes_by_list_and_never_the_unknown_default():
    listed = {"names": ["web", "gone"], "matchLabels": {"open": "yes"}}
    view = network_view(policy=policy(sync={"ingressClasses": listed}))
    add(view.super_stores[CLASS], "web")
    add(view.super_stores[CLASS], "internal")
    add(view.super_stores[CLASS], "labelled", labels={"open": "yes"})
    for name in ("web", "labelled"):
        twin = ingresses.build_ingress(ingress(ingressClassName=name), view)
        assert twin["spec"]["ingressClassName"] == name
    for other in ({"ingressClassName": "internal"}, {}, {"ingressClassName": ["web"]}):
        with pytest.raises(ForbiddenObjectError) as refused:
            ingresses.build_ingress(ingress(**other), view)
        assert refused.value.problems[0].rule == "ingress-class"


def test_a_missing_class_freezes_the_copy_and_removes_nothing():
    with pytest.raises(RejectedError) as rejected:
        ingresses.build_ingress(ingress(ingressClassName="gone"), network_view())
    assert rejected.value.problems[0].rule == "ingress-class"
    assert not isinstance(rejected.value, ForbiddenObjectError)


@pytest.mark.parametrize(
    ("spec", "rule"),
    [
        ({"defaultBackend": {"resource": {"kind": "Bucket", "name": "b"}}}, "ingress-backend"),
        ({"rules": "all"}, "malformed"),
        ({"rules": [{"http": {"paths": ["/"]}}]}, "malformed"),
        ({"tls": [{"hosts": {"a": 1}}]}, "malformed"),
        ({"surprise": 1}, "unknown-field"),
    ],
)
def test_ingresses_that_are_rejected(spec, rule):
    with pytest.raises(RejectedError) as rejected:
        ingresses.build_ingress(ingress(**spec), network_view())
    assert {problem.rule for problem in rejected.value.problems} == {rule}
    assert not isinstance(rejected.value, ForbiddenObjectError)


def test_an_unknown_annotation_holds_it():
    for key in ("nginx.ingress.kubernetes.io/server-snippet", "kubernetes.io/ingress.class"):
        own = ingress()
        own["metadata"]["annotations"] = {key: "x"}
        with pytest.raises(RejectedError):
            ingresses.build_ingress(own, network_view())


def test_a_cluster_without_ingresses_is_reported():
    with pytest.raises(ForbiddenObjectError):
        ingresses.build_ingress(
            ingress(), network_view(policy=policy(sync={"ingresses": "Refuse"}))
        )


def test_addresses_go_up_and_nothing_else():
    own = ingress()
    real = {"ip": "198.51.100.7", "ports": [{"port": 80, "protocol": "TCP"}]}
    live = {"status": {"loadBalancer": {"ingress": [{**real, "surprise": "x"}]}, "other": 1}}
    assert ingresses.build_status_up(own, live) == {
        "metadata": {"uid": "u"},
        "status": {"loadBalancer": {"ingress": [real]}},
    }
    own["status"] = {"loadBalancer": {"ingress": [real]}}
    assert ingresses.build_status_up(own, live) is None
    assert ingresses.build_status_up(own, {}) == {
        "metadata": {"uid": "u"},
        "status": {"loadBalancer": {"ingress": None}},
    }
    own["status"] = ["forged"]
    assert ingresses.build_status_up(own, live) is not None


@pytest.mark.parametrize(
    ("tls", "found"),
    [
        ([{"secretName": "a"}, {"secretName": "b"}, {"hosts": ["x"]}], {"a", "b"}),
        ("all", set()),
        ([["a"], {"secretName": {"a": 1}}, None], set()),
    ],
)
def test_secrets_that_an_ingress_names(tls, found):
    assert ingresses.list_secrets(ingress(tls=tls)) == found
    assert ingresses.list_secrets({"spec": None}) == frozenset()
