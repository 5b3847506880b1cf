"""What the agent's account may do: very little, and each row with a reason."""

from vnagent.access import ACCESS


def test_the_agent_may_reach_kubelets_and_ask_for_a_certificate():
    """SEC-12: no list, no secrets, no pods, nothing through the API server but its own request."""
    granted = {(row.group, resource, row.verbs) for row in ACCESS for resource in row.resources}
    assert granted == {
        ("", "nodes/proxy", ("get", "create")),
        ("certificates.k8s.io", "certificatesigningrequests", ("create", "get")),
    }
