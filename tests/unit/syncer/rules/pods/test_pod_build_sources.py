"""Sources of a super pod: tokens, certificates, fields and variables of the tenant."""

from __future__ import annotations

from typing import Any

import pytest

from syncer.model.rejections import RejectedError
from syncer.rules.pods import pod_build
from tenancy import names, wellknown
from tenancy.policies import MetadataSpec, TenantPolicySpec
from tests.support.syncer.pods import ACCOUNT, FACTS, TENANT, below, build, pod, rules


def access_volume() -> dict[str, Any]:
    """Return the volume that the API server adds to every pod."""
    return {
        "name": "kube-api-access-x",
        "projected": {
            "defaultMode": 420,
            "sources": [
                {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
                {
                    "configMap": {
                        "name": "kube-root-ca.crt",
                        "items": [{"key": "ca.crt", "path": "ca.crt"}],
                    }
                },
                {
                    "downwardAPI": {
                        "items": [
                            {
                                "path": "namespace",
                                "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"},
                            }
                        ]
                    }
                },
            ],
        },
    }


def test_the_api_access_of_a_pod_is_the_tenants():
    made = build(pod(volumes=[access_volume()], serviceAccountName="robot"))
    token, authority, namespace = made["spec"]["volumes"][0]["projected"]["sources"]
    secret = names.build_token_secret_name(ACCOUNT, "", 7200)
    assert token == {"secret": {"name": secret, "items": [{"key": "token", "path": "token"}]}}
    assert authority["configMap"]["name"] == names.SUPER_ROOT_CA
    field = namespace["downwardAPI"]["items"][0]["fieldRef"]["fieldPath"]
    assert field == f"metadata.annotations['{wellknown.NAMESPACE}']"
    assert "serviceAccountToken" not in str(made)


def test_a_token_for_another_audience_is_bound_to_the_pod():
    source = {"audience": "vault", "expirationSeconds": 900, "path": "t"}
    volume = {"name": "v", "projected": {"sources": [{"serviceAccountToken": source}]}}
    made = build(pod(volumes=[volume]))
    name = made["spec"]["volumes"][0]["projected"]["sources"][0]["secret"]["name"]
    assert name == names.build_token_secret_name(ACCOUNT, "vault", 900, "pod-uid")


@pytest.mark.parametrize("audience", ["a" * 4097, "\u00e9" * 2049])
def test_an_audience_that_no_secret_can_record_is_refused(audience):
    source = {"audience": audience, "path": "t"}
    sources = [{"configMap": {"name": "c"}}, {"serviceAccountToken": source}]
    tenant_pod = pod(volumes=[{"name": "v", "projected": {"sources": sources}}])
    with pytest.raises(RejectedError) as raised:
        pod_build.build_super_pod(tenant_pod, FACTS)
    (problem,) = raised.value.problems
    assert problem.rule == "token-audience"
    path = "spec.volumes[0].projected.sources[1].serviceAccountToken.audience"
    assert str(problem).startswith(f"{path} has 409")
    source["audience"] = "a" * 4096
    assert build(tenant_pod)


def test_the_root_ca_is_renamed_wherever_it_is_named():
    container = {
        "name": "main",
        "image": "i",
        "env": [
            {
                "name": "A",
                "valueFrom": {"configMapKeyRef": {"name": "kube-root-ca.crt", "key": "k"}},
            }
        ],
        "envFrom": [{"configMapRef": {"name": "kube-root-ca.crt"}}],
    }
    volume = {"name": "v", "configMap": {"name": "kube-root-ca.crt"}}
    made = build(pod(containers=[container], volumes=[volume]))
    assert "'kube-root-ca.crt'" not in str(made)
    assert str(made).count(names.SUPER_ROOT_CA) == 3


def test_field_references_read_the_tenants_values():
    def env(name: str, path: str) -> dict[str, Any]:
        return {"name": name, "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": path}}}

    paths = {
        "NAMESPACE": "metadata.namespace",
        "UID": "metadata.uid",
        "NAME": "metadata.name",
        "ACCOUNT": "spec.serviceAccountName",
        "NODE": "spec.nodeName",
        "PASSED": "metadata.labels['app']",
        "DROPPED": "metadata.labels['x.k8s.io/y']",
        "NOTE": "metadata.annotations['example.com/note']",
    }
    container = {"name": "main", "image": "i", "env": [env(k, v) for k, v in paths.items()]}
    made = build(
        pod(
            {
                "labels": {"app": "web", "x.k8s.io/y": "z"},
                "annotations": {"example.com/note": "hello"},
            },
            containers=[container],
            serviceAccountName="robot",
        )
    )
    found = {item["name"]: item for item in made["spec"]["containers"][0]["env"]}
    annotations = made["metadata"]["annotations"]

    def path(name: str) -> str:
        return found[name]["valueFrom"]["fieldRef"]["fieldPath"]

    def mirrored(name: str) -> str:
        return annotations[path(name).removeprefix("metadata.annotations['").removesuffix("']")]

    assert mirrored("NAMESPACE") == "web"
    assert mirrored("UID") == "pod-uid"
    assert mirrored("DROPPED") == "z"
    assert mirrored("NOTE") == "hello"
    assert path("NAME") == "metadata.name"
    assert path("NODE") == "spec.nodeName"
    assert path("PASSED") == "metadata.labels['app']"
    assert found["ACCOUNT"] == {"name": "ACCOUNT", "value": "robot"}


def test_names_that_a_policy_keeps_in_the_tenant_are_read_from_what_is_mirrored():
    passing = MetadataSpec(label_domains=("istio.io",), opaque_prefixes=("team",))
    facts = FACTS._replace(policy=TenantPolicySpec(metadata=passing))
    paths = {
        "LABEL": "metadata.labels['team']",
        "NOTE": "metadata.annotations['team-note']",
        "LISTED": "metadata.labels['istio.io/rev']",
    }
    refs = {name: {"fieldRef": {"fieldPath": path}} for name, path in paths.items()}
    variables = [{"name": name, "valueFrom": ref} for name, ref in refs.items()]
    container = {"name": "main", "image": "i", "env": variables}
    own = {"labels": {"team": "blue", "istio.io/rev": "1"}, "annotations": {"team-note": "n"}}
    tenant_pod = pod(own, containers=[container])
    made = pod_build.build_super_pod(tenant_pod, facts).pod
    found = {item["name"]: item for item in made["spec"]["containers"][0]["env"]}

    def value(name: str) -> str:
        field = found[name]["valueFrom"]["fieldRef"]["fieldPath"].removeprefix("metadata.")
        where, key = field.removesuffix("']").split("['")
        return str(made["metadata"][where][key])

    assert {name: value(name) for name in paths} == {"LABEL": "blue", "NOTE": "n", "LISTED": "1"}
    again = pod_build.build_metadata(tenant_pod, TENANT, below("web"), policy=facts.policy)
    assert again["annotations"] == made["metadata"]["annotations"]


def test_files_of_labels_and_annotations_show_the_tenants():
    items = [
        {"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}},
        {"path": "annotations", "fieldRef": {"fieldPath": "metadata.annotations"}},
    ]
    tenant_pod = pod(
        {"labels": {"b": "2", "a": "1"}, "annotations": {"k": 'say "hi"\n'}},
        volumes=[{"name": "v", "downwardAPI": {"items": items}}],
    )
    made = build(tenant_pod)
    annotations = made["metadata"]["annotations"]
    assert annotations["mirror.tenancy.x-k8s.io/labels"] == 'a="1"\nb="2"'
    assert annotations["mirror.tenancy.x-k8s.io/annotations"] == 'k="say \\"hi\\"\\n"'
    # What is kept up to date later is what was built.
    again = pod_build.build_metadata(tenant_pod, TENANT, below("web"))
    assert again["annotations"] == annotations


def test_every_container_has_the_service_variables_below_its_own_sources():
    container = {
        "name": "main",
        "image": "i",
        "env": [{"name": "KUBERNETES_SERVICE_PORT", "value": "own"}],
        "envFrom": [{"configMapRef": {"name": "c"}}],
    }
    spec = build(pod(containers=[container], initContainers=[{"name": "setup", "image": "i"}]))[
        "spec"
    ]
    first = {"configMapRef": {"name": "vc-service-variables"}}
    assert spec["containers"][0]["env"] == container["env"]
    assert spec["containers"][0]["envFrom"] == [first, {"configMapRef": {"name": "c"}}]
    assert spec["initContainers"][0]["envFrom"] == [first]
    assert spec["enableServiceLinks"] is False, "those of the super cluster stay out"
    spec = build(pod(containers=[container], enableServiceLinks=False))["spec"]
    assert spec["containers"][0]["envFrom"][0] == {"configMapRef": {"name": "vc-api-variables"}}


@pytest.mark.parametrize("name", ["vc-service-variables", "vc-api-variables"])
def test_a_tenant_names_no_config_map_of_variables(name):
    container = {"name": "main", "image": "i", "envFrom": [{"configMapRef": {"name": name}}]}
    assert rules(pod(containers=[container])) == {"reserved-name"}
