"""Rights of the agent's account: few, each row with a reason."""

import pytest

from tenancy.rbac import RbacRule
from vnagent.rbac import RBAC_RULES, TARGET_HOME_RBAC_RULES, TARGET_RBAC_RULES

ALWAYS = {
    ("", "configmaps", ("get", "watch"), ("vn-agent-access",), True),
    ("certificates.k8s.io", "certificatesigningrequests", ("create", "get"), (), False),
}
STRAIGHT = {
    ("", "nodes/proxy", ("get", "create"), (), False),
    ("", "nodes/metrics", ("get",), (), False),
    ("", "nodes/stats", ("get",), (), False),
}
AROUND = {
    ("", "pods", ("list",), (), False),
    ("", "pods/log", ("get",), (), False),
    ("", "pods/exec", ("get", "create"), (), False),
    ("", "pods/attach", ("get", "create"), (), False),
    ("", "pods/portforward", ("get", "create"), (), False),
}
SHOWN = {
    ("authentication.k8s.io", "tokenreviews", ("create",), (), False),
    ("authorization.k8s.io", "subjectaccessreviews", ("create",), (), False),
}
"""Further rights if only users with a role may read the metrics."""
TOLD = {("", "events", ("create",), (), True)}


def is_wanted(when: tuple[str, tuple[str, ...]], value: tuple[str, str]) -> bool:
    """Return whether a row is granted for a value of the chart."""
    return when[0] == value[0] and value[1] in when[1]


@pytest.mark.parametrize(
    ("upstream", "wanted"),
    [
        ("kubelet", ALWAYS | STRAIGHT),
        ("apiserver", ALWAYS | AROUND | TOLD),
        ("auto", ALWAYS | STRAIGHT | AROUND | TOLD),
    ],
)
def test_the_agent_may_go_the_configured_way_and_ask_for_a_certificate(upstream, wanted):
    """SEC-12: no secrets, no writes of pods or of their status. Nodes/proxy for kubelets alone."""
    way = ("agent.upstream", upstream)
    rows = [row for row in RBAC_RULES if row.enabled_by is None or is_wanted(row.enabled_by, way)]
    granted = {
        (row.group, resource, row.verbs, row.names, row.namespaced)
        for row in rows
        for resource in row.resources
    }
    assert granted == wanted
    secure = ("agent.metrics.secure", "true")
    assert {
        (row.group, resource, row.verbs, row.names, row.namespaced)
        for row in RBAC_RULES
        for resource in row.resources
        if row.enabled_by is not None and is_wanted(row.enabled_by, secure)
    } == SHOWN
    known = {"agent.upstream", "agent.metrics.secure"}
    assert all(row.enabled_by is None or row.enabled_by[0] in known for row in RBAC_RULES)


def granted_by(rows: tuple[RbacRule, ...]) -> set[tuple[str, str, tuple[str, ...], tuple, bool]]:
    return {
        (row.group, resource, row.verbs, row.names, row.namespaced)
        for row in rows
        for resource in row.resources
    }


def test_the_agent_of_a_target_has_no_right_to_pods_at_home_and_one_to_nodes_in_one_mode():
    """SEC-12: two credentials, and neither does what the other is for."""
    assert granted_by(TARGET_HOME_RBAC_RULES) == ALWAYS | SHOWN
    assert granted_by(TARGET_RBAC_RULES["apiserver"]) == AROUND
    assert granted_by(TARGET_RBAC_RULES["agent"]) == {
        ("", "pods", ("list",), (), False),
        ("", "nodes/proxy", ("get", "create"), (), False),
    }
    assert all(row.enabled_by is None for rows in TARGET_RBAC_RULES.values() for row in rows)
