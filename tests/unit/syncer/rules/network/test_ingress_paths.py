"""Paths, backends and annotation values of Ingresses that reach a shared controller."""

from __future__ import annotations

from typing import Any

import pytest

from syncer.model.rejections import ForbiddenObjectError, RejectedError
from syncer.rules.network import ingresses
from tenancy.policies import parse_tenant_policy
from tests.support.syncer.tenant_views import add, network_view, object_of, policy

BACKEND = {"service": {"name": "web", "port": {"number": 80}}}


def ingress(**spec: Any) -> dict[str, Any]:
    """Return an Ingress."""
    return object_of("Ingress", spec=spec)


BAD_PATHS = [
    "/x { proxy_pass http://169.254.169.254; }",  # CVE-2026-24512
    "/x;return 200",  # CVE-2021-25745
    "/x\nserver { }",  # CVE-2021-25748
    '/x" {',  # CVE-2026-4342
    *("/#x", "/a\\b", "/a'b", "/a`b", "/a b", "/a$b", "/(a|b)", "/a*", "/a\tb", "/ä", "a", ""),
    *("/" + "x" * 512, "/\x1b[31m", "/a\r\nb", 7, ["/"]),
]
SPECIFIC = "ImplementationSpecific"


def pathed(path: Any, kind: Any = "Prefix") -> dict[str, Any]:
    """Return an Ingress with one path."""
    found = {"path": path, "pathType": kind, "backend": BACKEND}
    return ingress(rules=[{"host": "a.example", "http": {"paths": [found]}}])


def refused_rules(own: dict[str, Any], **network: Any) -> set[str]:
    with pytest.raises(RejectedError) as refused:
        ingresses.build_ingress(own, network_view(policy=policy(network=network)))
    return {problem.rule for problem in refused.value.problems}


@pytest.mark.parametrize("path", BAD_PATHS)
@pytest.mark.parametrize("kind", ["Prefix", "Exact"])
def test_a_path_has_no_character_with_a_meaning_in_a_controllers_configuration(path, kind):
    """SEC-51: payloads of four CVEs among them."""
    assert refused_rules(pathed(path, kind)) == {"ingress-path"}


@pytest.mark.parametrize("path", ["/", "/api/v1", "/.well-known/acme-challenge/x", "/~a/%20+@:=,-"])
@pytest.mark.parametrize("kind", ["Prefix", "Exact"])
def test_an_ordinary_path_is_synced(path, kind):
    own = pathed(path, kind)
    assert ingresses.build_ingress(own, network_view())["spec"] == own["spec"]


@pytest.mark.parametrize("kind", [SPECIFIC, "", None, "Regex", ["Prefix"]])
def test_a_type_of_path_that_controllers_interpret_is_refused(kind):
    assert refused_rules(pathed("/x", kind)) == {"ingress-path"}


def test_a_policy_allows_paths_that_controllers_interpret_but_no_other_characters():
    allowing = {"implementationSpecificPaths": "Allow"}
    view = network_view(policy=policy(network=allowing))
    for path in ("/*", "/api/*", ""):
        own = pathed(path, SPECIFIC)
        assert ingresses.build_ingress(own, view)["spec"] == own["spec"]
    assert refused_rules(pathed("/x;y", SPECIFIC), **allowing) == {"ingress-path"}
    assert refused_rules(pathed("/*", "Prefix"), **allowing) == {"ingress-path"}


@pytest.mark.parametrize("is_default", [True, False])
def test_an_external_name_is_no_backend_unless_the_policy_allows_it(is_default):
    """SEC-51: the controller would resolve a name of the tenant's DNS zone."""
    own = ingress(defaultBackend=BACKEND, rules=[]) if is_default else pathed("/")
    for allowed in ("Allow", "Refuse"):
        limits = policy(network={"catchAllIngresses": "Allow", "externalNameBackends": allowed})
        view = network_view(policy=limits)
        spec = {"type": "ExternalName", "externalName": "meta.attacker.example"}
        add(view.stores["Service"], "web", namespace="web", spec=spec)
        if allowed == "Allow":
            assert ingresses.build_ingress(own, view)["spec"] == own["spec"]
            continue
        with pytest.raises(ForbiddenObjectError, match=r"spec\.network\.externalNameBackends"):
            ingresses.build_ingress(own, view)
        elsewhere = network_view(policy=limits)
        add(elsewhere.stores["Service"], "web", namespace="other", spec=spec)
        add(elsewhere.stores["Service"], "web", namespace="web", spec={"type": "ClusterIP"})
        assert ingresses.build_ingress(own, elsewhere)


CURATED = {"network": {"ingressAnnotations": ["nginx", "traefik", "cert-manager"]}}


@pytest.mark.parametrize(
    ("key", "value", "is_synced"),
    [
        ("cert-manager.io/cluster-issuer", "letsencrypt", True),
        ("nginx.ingress.kubernetes.io/proxy-body-size", "8m", True),
        ("traefik.ingress.kubernetes.io/router.entrypoints", "websecure", True),
        ("cert-manager.io/cluster-issuer", 'x";', False),
        ("nginx.ingress.kubernetes.io/proxy-body-size", "8m; proxy_pass http://x", False),
        ("nginx.ingress.kubernetes.io/proxy-body-size", "8m\n", False),
        ("traefik.ingress.kubernetes.io/router.entrypoints", "metrics", False),
        ("nginx.ingress.kubernetes.io/server-snippet", "x", False),
        ("nginx.ingress.kubernetes.io/configuration-snippet", "x", False),
        ("nginx.ingress.kubernetes.io/auth-url", "http://10.0.0.1", False),
        ("nginx.ingress.kubernetes.io/server-alias", "victim.example", False),
        ("nginx.ingress.kubernetes.io/proxy-ssl-secret", "other/secret", False),
        ("traefik.ingress.kubernetes.io/router.middlewares", "other-x@kubernetescrd", False),
        ("cert-manager.io/common-name", "victim.example", False),
        ("acme.cert-manager.io/http01-edit-in-place", "true", False),
    ],
)
def test_curated_annotations_are_synced_with_safe_keys_and_values_only(key, value, is_synced):
    """SEC-51: exact keys and whole values."""
    body = {"metadata": {"name": "p"}, "spec": CURATED}
    own = pathed("/")
    own["metadata"]["annotations"] = {key: value}
    view = network_view(policy=parse_tenant_policy(body))
    if is_synced:
        assert ingresses.build_ingress(own, view)["metadata"]["annotations"][key] == value
        with pytest.raises(RejectedError):
            ingresses.build_ingress(own, network_view())  # the default policy names no set
        return
    with pytest.raises(RejectedError) as refused:
        ingresses.build_ingress(own, view)
    assert {problem.rule for problem in refused.value.problems} == {"annotation"}
