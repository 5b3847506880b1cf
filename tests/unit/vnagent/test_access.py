"""What the agent's account may do: very little, and each row with a reason."""

import pytest

from vnagent.access import ACCESS

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
TOLD = {("", "events", ("create",), (), True)}


@pytest.mark.parametrize(
    ("upstream", "wanted"),
    [
        ("kubelet", ALWAYS | STRAIGHT),
        ("apiserver", ALWAYS | AROUND),
        ("auto", ALWAYS | STRAIGHT | AROUND | TOLD),
    ],
)
def test_the_agent_may_go_the_way_that_it_is_told_and_ask_for_a_certificate(upstream, wanted):
    """SEC-12: no secrets, no writes of pods or of their status; nodes/proxy for kubelets alone."""
    rows = [row for row in ACCESS if row.when is None or upstream in row.when[1]]
    granted = {
        (row.group, resource, row.verbs, row.names, row.namespaced)
        for row in rows
        for resource in row.resources
    }
    assert granted == wanted
    assert all(row.when is None or row.when[0] == "agent.upstream" for row in ACCESS)
