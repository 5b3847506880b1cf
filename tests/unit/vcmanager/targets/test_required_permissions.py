"""Rights that a rule grants, and the report about missing ones."""

import pytest

from vcmanager.targets import required_permissions
from vcmanager.targets.required_permissions import RequiredPermission

LOG = RequiredPermission("", "pods/log", "get")


def rule(**more):
    return {"apiGroups": [""], "resources": ["pods/log"], "verbs": ["get"]} | more


@pytest.mark.parametrize(
    ("found", "grants"),
    [
        (rule(), True),
        (rule(verbs=["*"]), True),
        (rule(apiGroups=["*"]), True),
        (rule(resources=["*"]), True),
        (rule(resources=["*/log"]), True),
        (rule(verbs=["list"]), False),
        (rule(apiGroups=["apps"]), False),
        (rule(resources=["pods"]), False),
        (rule(resources=["*/exec"]), False),
        (rule(resourceNames=["one"]), False),
        ({}, False),
        ({"verbs": None, "resources": None, "apiGroups": None}, False),
    ],
)
def test_what_a_rule_grants(found, grants):
    assert (required_permissions.list_missing([LOG], [found]) == []) is grants


def test_missing_rights_are_reported_by_kind():
    lacking = [
        RequiredPermission("", "pods", "create"),
        RequiredPermission("networking.k8s.io", "networkpolicies", "list"),
        RequiredPermission("", "pods", "delete"),
        RequiredPermission("policy", "poddisruptionbudgets/status", "get"),
    ]
    assert required_permissions.format_missing(lacking) == (
        "pods: create, delete; networkpolicies.networking.k8s.io: list;"
        " poddisruptionbudgets.policy/status: get"
    )


def test_what_is_needed_is_what_the_role_for_targets_grants():
    needed = required_permissions.list_required()
    assert RequiredPermission("", "pods", "create") in needed
    assert RequiredPermission("rbac.authorization.k8s.io", "rolebindings", "create") in needed
    assert not any(right.resource == "secrets" for right in needed)
    assert not {right.group for right in needed} & {"tenancy.x-k8s.io", "coordination.k8s.io"}
    assert not {right.resource for right in needed} & {"services", "persistentvolumes", "leases"}


def test_a_review_asks_for_the_subresource_apart():
    assert LOG.build_review()["spec"]["resourceAttributes"] == {
        "group": "",
        "resource": "pods",
        "subresource": "log",
        "verb": "get",
    }
