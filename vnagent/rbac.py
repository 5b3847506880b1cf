"""Permissions of agents, the source of the chart's RBAC and of the role for agents in targets.

Hazard: an agent of a node must have no right in a target, and the agent of a target none to pods in
the home cluster. Otherwise a breach of one agent would reach pods of both clusters.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from tenancy import wellknown
from tenancy.rbac import Access

STRAIGHT = ("agent.upstream", ("auto", "kubelet"))
"""Chart values with which calls may go straight to the kubelet."""
AROUND = ("agent.upstream", ("auto", "apiserver"))
"""Chart values with which calls may go through the API server."""
SHOWN = ("agent.metrics.secure", ("true",))
"""Chart value with which only callers that RBAC allows may read metrics."""

ACCESS: tuple[Access, ...] = (
    Access(
        "",
        ("nodes/proxy",),
        ("get", "create"),
        "Kubelets hand out their list of pods, logs, exec, attach and port-forward for nothing"
        " less; which of it a tenant gets, the agent's gate decides.",
        when=STRAIGHT,
    ),
    Access(
        "",
        ("nodes/metrics", "nodes/stats"),
        ("get",),
        "Kubelets hand out figures for these alone, nodes/proxy does not stand for them; a tenant"
        " gets those of its own pods.",
        when=STRAIGHT,
    ),
    Access(
        "",
        ("pods",),
        ("list",),
        "Reads which pods are on its node, where the kubelet's certificate does not verify; RBAC"
        " cannot say which node.",
        when=AROUND,
    ),
    Access(
        "",
        ("pods/log",),
        ("get",),
        "Reads logs there; which pods a tenant gets, the agent's gate decides.",
        when=AROUND,
    ),
    Access(
        "",
        ("pods/attach", "pods/exec", "pods/portforward"),
        ("get", "create"),
        "Opens streams there: POST is create, and a WebSocket's GET is both.",
        when=AROUND,
    ),
    Access(
        "",
        ("events",),
        ("create",),
        "Says on its own pod which way it goes, and why.",
        namespaced=True,
        when=AROUND,
    ),
    Access(
        "",
        ("configmaps",),
        ("get", "watch"),
        "Which calls each tenant's policy lets through is written there by vc-manager.",
        names=(wellknown.AGENT_ACCESS,),
        namespaced=True,
    ),
    Access(
        "certificates.k8s.io",
        ("certificatesigningrequests",),
        ("create", "get"),
        "Asks for its own serving certificate and fetches it.",
    ),
    Access(
        "authentication.k8s.io",
        ("tokenreviews",),
        ("create",),
        "Asks whose a token is that is shown for the agent's metrics.",
        when=SHOWN,
    ),
    Access(
        "authorization.k8s.io",
        ("subjectaccessreviews",),
        ("create",),
        "Asks whether its holder may read metrics.",
        when=SHOWN,
    ),
)

TARGET_HOME_ACCESS: tuple[Access, ...] = tuple(
    row for row in ACCESS if row.when not in (STRAIGHT, AROUND)
)
"""Permissions of a target's agent in the home cluster. None of them is about pods."""

_THE_POD = Access(
    "",
    ("pods",),
    ("list",),
    "Reads the one pod that a call means; RBAC cannot say whose pods.",
)


def _always(rows: Iterable[Access]) -> tuple[Access, ...]:
    return tuple(replace(row, when=None) for row in rows)


TARGET_ACCESS: Mapping[str, tuple[Access, ...]] = {
    "apiserver": (
        _THE_POD,
        *_always(row for row in ACCESS if row.when == AROUND and "pods/" in row.resources[0]),
    ),
    "agent": (_THE_POD, *_always(row for row in ACCESS if "nodes/proxy" in row.resources)),
}
"""Permissions in the target by `SuperCluster.spec.mode`. The agent has a separate credential for
it.
"""
