"""Permissions of agents, the source of the chart's RBAC and of the role for agents in targets.

Hazard: an agent of a node must have no right in a target, and the agent of a target none to pods in
the home cluster. Otherwise a breach of one agent would reach pods of both clusters.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from tenancy import wellknown
from tenancy.rbac import RbacRule

KUBELET_UPSTREAM_VALUES = ("agent.upstream", ("auto", "kubelet"))
"""Chart values with which calls may go straight to the kubelet."""
API_SERVER_UPSTREAM_VALUES = ("agent.upstream", ("auto", "apiserver"))
"""Chart values with which calls may go through the API server."""
SECURE_METRICS_VALUES = ("agent.metrics.secure", ("true",))
"""Chart value with which only callers that RBAC allows may read metrics."""

RBAC_RULES: tuple[RbacRule, ...] = (
    RbacRule(
        "",
        ("nodes/proxy",),
        ("get", "create"),
        "Lists pods and opens logs, exec, attach and port-forward at kubelets, which require"
        " nodes/proxy. The agent checks which pods a tenant may access.",
        enabled_by=KUBELET_UPSTREAM_VALUES,
    ),
    RbacRule(
        "",
        ("nodes/metrics", "nodes/stats"),
        ("get",),
        "Reads metrics of kubelets, which nodes/proxy does not cover. A tenant gets those of its"
        " own pods.",
        enabled_by=KUBELET_UPSTREAM_VALUES,
    ),
    RbacRule(
        "",
        ("pods",),
        ("list",),
        "Reads the pods of its node if the kubelet's certificate does not verify. RBAC cannot"
        " limit this to one node.",
        enabled_by=API_SERVER_UPSTREAM_VALUES,
    ),
    RbacRule(
        "",
        ("pods/log",),
        ("get",),
        "Reads logs. The agent checks which pods a tenant may access.",
        enabled_by=API_SERVER_UPSTREAM_VALUES,
    ),
    RbacRule(
        "",
        ("pods/attach", "pods/exec", "pods/portforward"),
        ("get", "create"),
        "Opens streams. POST is the verb create, and a WebSocket's GET needs both verbs.",
        enabled_by=API_SERVER_UPSTREAM_VALUES,
    ),
    RbacRule(
        "",
        ("events",),
        ("create",),
        "Posts Events on its own pod about its upstream mode.",
        namespaced=True,
        enabled_by=API_SERVER_UPSTREAM_VALUES,
    ),
    RbacRule(
        "",
        ("configmaps",),
        ("get", "watch"),
        "Reads which calls each tenant's policy allows, written by vc-manager.",
        names=(wellknown.AGENT_ACCESS,),
        namespaced=True,
    ),
    RbacRule(
        "certificates.k8s.io",
        ("certificatesigningrequests",),
        ("create", "get"),
        "Requests its own serving certificate and fetches it.",
    ),
    RbacRule(
        "authentication.k8s.io",
        ("tokenreviews",),
        ("create",),
        "Reviews the tokens of clients that read the agent's metrics.",
        enabled_by=SECURE_METRICS_VALUES,
    ),
    RbacRule(
        "authorization.k8s.io",
        ("subjectaccessreviews",),
        ("create",),
        "Reviews whether such a client may read metrics.",
        enabled_by=SECURE_METRICS_VALUES,
    ),
)

TARGET_HOME_RBAC_RULES: tuple[RbacRule, ...] = tuple(
    row
    for row in RBAC_RULES
    if row.enabled_by not in (KUBELET_UPSTREAM_VALUES, API_SERVER_UPSTREAM_VALUES)
)
"""Permissions of a target's agent in the home cluster. None of them is about pods."""

_READ_PODS_RULE = RbacRule(
    "",
    ("pods",),
    ("list",),
    "Reads the one pod of a call. RBAC cannot limit this to the pods of tenants.",
)


def _drop_conditions(rows: Iterable[RbacRule]) -> tuple[RbacRule, ...]:
    return tuple(replace(row, enabled_by=None) for row in rows)


TARGET_RBAC_RULES: Mapping[str, tuple[RbacRule, ...]] = {
    "apiserver": (
        _READ_PODS_RULE,
        *_drop_conditions(
            row
            for row in RBAC_RULES
            if row.enabled_by == API_SERVER_UPSTREAM_VALUES and "pods/" in row.resources[0]
        ),
    ),
    "agent": (
        _READ_PODS_RULE,
        *_drop_conditions(row for row in RBAC_RULES if "nodes/proxy" in row.resources),
    ),
}
"""Permissions in the target by `SuperCluster.spec.mode`. The agent has a separate credential for
it.
"""
