"""Claims of pods for devices: closed by default, and named directly in the super pod."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from syncer.model.rejections import RejectedError
from syncer.rules import resource_claims
from syncer.rules.placement import cluster_scheduler
from syncer.rules.pods import pod_build
from tests.support.syncer.pods import FACTS, pod, rules

OFFERED = FACTS._replace(device_claims=True)
CLASS_RESOURCE = "deviceclass.resource.kubernetes.io/gpu.example.com"
TEMPLATE = [{"name": "gpu", "resourceClaimTemplateName": "each"}]


def pod_with(*claims: dict[str, Any], generated: dict[str, str] | None = None) -> dict[str, Any]:
    """Return a pod with claims, of which some are created from templates."""
    body = pod(resourceClaims=list(claims))
    body["spec"]["containers"][0]["resources"] = {"claims": [{"name": "gpu", "request": "r"}]}
    body["status"]["resourceClaimStatuses"] = [
        {"name": name, "resourceClaimName": claim} for name, claim in (generated or {}).items()
    ]
    return body


def build(body: dict[str, Any]) -> dict[str, Any]:
    """Return the spec of the super pod of a tenant that is offered devices."""
    before = copy.deepcopy(body)
    spec: dict[str, Any] = pod_build.build_super_pod(body, OFFERED).pod["spec"]
    assert body == before
    return spec


def test_without_a_rule_claims_are_refused():
    body = pod_with({"name": "gpu", "resourceClaimName": "mine"})
    assert rules(body) == {"resource-claims"}


def test_claims_are_named_directly():
    body = pod_with(
        {"name": "gpu", "resourceClaimName": "mine"},
        {"name": "other", "resourceClaimTemplateName": "each"},
        generated={"other": "p-other-abcde"},
    )
    spec = build(body)
    assert spec["resourceClaims"] == [
        {"name": "gpu", "resourceClaimName": "mine"},
        {"name": "other", "resourceClaimName": "p-other-abcde"},
    ]
    assert spec["containers"][0]["resources"] == {"claims": [{"name": "gpu", "request": "r"}]}


def test_no_template_reaches_the_super_cluster():
    """A template there could ask for what the rule closes."""
    spec = build(pod_with(*TEMPLATE))
    assert spec["resourceClaims"] == []
    (found,) = resource_claims.list_pod_claims(pod_with(*TEMPLATE))
    assert found == ("gpu", "", True)


@pytest.mark.parametrize(
    "entry",
    [
        {"name": "gpu"},
        {"name": "gpu", "resourceClaimName": "a", "resourceClaimTemplateName": "b"},
        {"name": "gpu", "resourceClaimName": "../other"},
        {"name": "gpu", "resourceClaimName": "a", "podGroup": {"name": "b"}},
    ],
)
def test_malformed_entries_are_refused(entry: dict[str, Any]):
    with pytest.raises(RejectedError):
        build(pod_with(entry))


def test_fields_of_the_pod_as_a_whole_stay_closed():
    body = pod(resources={"claims": [{"name": "gpu"}]})
    with pytest.raises(RejectedError):
        build(body)


@pytest.mark.parametrize("field", ["limits", "requests"])
@pytest.mark.parametrize("kind", ["containers", "initContainers"])
@pytest.mark.parametrize("facts", [FACTS, OFFERED])
def test_a_class_is_no_resource_of_a_container(facts: Any, kind: str, field: str):
    """The scheduler of the super cluster allocates devices of any class by such a request."""
    asking = {"name": "c", "image": "i", "resources": {field: {CLASS_RESOURCE: "1"}}}
    body = pod(**{"containers": [{"name": "main", "image": "i"}], kind: [asking]})
    with pytest.raises(RejectedError) as refused:
        pod_build.build_super_pod(body, facts)
    (problem,) = refused.value.problems
    assert (problem.rule, problem.path) == ("resource-claims", f"spec.{kind}[0].resources")


def test_other_extended_resources_are_requested_as_before():
    resources = {"limits": {"example.com/gpu": "1"}, "requests": {"example.com/gpu": "1"}}
    containers = [{"name": "main", "image": "i", "resources": resources}]
    assert build(pod(containers=containers))["containers"][0]["resources"] == resources


def test_ephemeral_containers_have_no_claims():
    table = resource_claims.open_fields(pod_build.security_levels.get_table(FACTS.policy))
    assert set(table) == {"resourceClaims", "initContainers", "containers"}


def test_such_pods_run_in_the_home_cluster_only():
    asked = cluster_scheduler.build_requirements(pod_with(*TEMPLATE), {})
    assert asked.home_only_reason
    assert not cluster_scheduler.build_requirements(pod(), {}).home_only_reason
