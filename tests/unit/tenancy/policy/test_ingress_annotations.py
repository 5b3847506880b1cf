"""Curated annotations of Ingresses: exact keys, whole values, nothing that writes configuration."""

from __future__ import annotations

import pytest

from tenancy.policies import parse_tenant_policy
from tenancy.policy import ingress_annotations

DANGEROUS = ("snippet", "auth", "alias", "rewrite", "middleware", "canary", "mirror", "upstream")
DANGEROUS += (
    "secret",
    "regex",
    "redirect-",
    "app-root",
    "common-name",
    "sans",
    "options",
    "limit-r",
)


def test_no_set_has_a_key_that_reaches_beyond_the_tenants_own():
    for controller, keys in ingress_annotations.INGRESS_ANNOTATIONS.items():
        for key in keys:
            name = key.rpartition("/")[2]
            assert not [word for word in DANGEROUS if word in name], (controller, key)


@pytest.mark.parametrize("value", ["", "x;y", 'x"', "x\n", "{}", "$x", "a\\b", "true\n"])
def test_no_key_takes_a_value_that_could_end_a_directive(value):
    for keys in ingress_annotations.INGRESS_ANNOTATIONS.values():
        assert not [key for key, pattern in keys.items() if pattern.fullmatch(value)]


def test_a_policy_lists_the_keys_of_its_sets_beside_its_own():
    own = {"metadata": {"annotations": {"Ingress": ["a.example/x"]}}}
    spec = {**own, "network": {"ingressAnnotations": ["cert-manager"]}}
    found = parse_tenant_policy({"metadata": {"name": "p"}, "spec": spec}).metadata.annotations
    assert found["Ingress"][0] == "a.example/x"
    assert "cert-manager.io/cluster-issuer" in found["Ingress"]
    assert not [key for key in found["Ingress"] if "nginx" in key]
    assert parse_tenant_policy({"metadata": {"name": "p"}, "spec": own}).metadata.annotations == {
        "Ingress": ("a.example/x",)
    }


def test_a_key_of_no_set_may_have_any_value():
    assert ingress_annotations.has_allowed_value("a.example/x", "any;thing", ("nginx",))
    key = "nginx.ingress.kubernetes.io/ssl-redirect"
    assert not ingress_annotations.has_allowed_value(key, "no", ("nginx", "traefik"))
    assert ingress_annotations.has_allowed_value(key, "no", ("traefik",))
