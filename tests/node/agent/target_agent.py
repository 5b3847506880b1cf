"""An agent beside the rig's, of the node whose kubelet is its own authority.

Its account has the rights of `agent.upstream=apiserver` and no others, so that whatever works here
works without `nodes/proxy`.
"""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest

from tenancy import wellknown
from tests.node.agent.rig import AgentRig, patch_node
from tests.support import grants
from tests.support.agents import SPACE, address_toward, api_flags, is_ready, start_agent, write
from tests.support.kubectl import until
from tests.support.processes import free_port
from vnagent.rbac import RBAC_RULES

NAME = f"{SPACE}-far"
VIRTUAL = "virtual-far"
POD = "vn-agent-far"


@contextmanager
def beside(rig: AgentRig) -> Iterator[AgentRig]:
    """Have an agent of the second node, and the first tenant's node for it. Yields its rig."""
    nodes = sorted(rig.super_kubectl.items("nodes"), key=lambda item: item["metadata"]["name"])
    if len(nodes) < 2:
        pytest.skip("the super cluster that is up has one node; the second one is self-signed")
    node = nodes[1]
    name = node["metadata"]["name"]
    addresses = {a["type"]: a["address"] for a in node["status"]["addresses"]}
    _make_account(rig)
    port, health_port = free_port(), free_port()
    agent = start_agent(
        *(rig.folder, addresses["InternalIP"], port, health_port),
        *("--upstream=auto", f"--node-name={name}", f"--pod-name={POD}", "--pod-uid=far"),
        f"--token-file={rig.folder / 'far-token'}",
        *api_flags(rig.super_kubectl),
        log="far.log",
    )
    try:
        until(lambda: is_ready(health_port), "the agent of the second node is ready")
        node_object = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": VIRTUAL}}
        rig.tenant.kubectl.apply(node_object)
        host = {"type": wellknown.AGENT_ADDRESS, "address": address_toward(addresses["InternalIP"])}
        endpoint = {"kubeletEndpoint": {"Port": port}}
        patch_node(rig.tenant, VIRTUAL, addresses=[host], daemonEndpoints=endpoint)
        yield replace(
            rig,
            agent=agent,
            port=port,
            health_port=health_port,
            node=name,
            node_ip=addresses["InternalIP"],
            virtual=VIRTUAL,
        )
    finally:
        asyncio.run(agent.stop())
        rig.tenant.kubectl.run("delete", "node", VIRTUAL, "--ignore-not-found")
        rig.super_kubectl.run("delete", "clusterrole,clusterrolebinding", NAME)


def _make_account(rig: AgentRig) -> None:
    """Make an account that may do nothing toward kubelets, and a token of it."""
    rows = [row for row in RBAC_RULES if row.enabled_by is None or "apiserver" in row.enabled_by[1]]
    rows += [row for row in RBAC_RULES if row.resources == ("events",)]
    account = grants.build_account("far", SPACE)
    rig.super_kubectl.apply(
        {
            "apiVersion": "v1",
            "kind": "ServiceAccount",
            "metadata": {"name": "far", "namespace": SPACE},
        },
        *grants.build_grant(grants.build_rules(rows), account, name=NAME),
    )
    token = rig.super_kubectl.run("create", "token", "far", "-n", SPACE, "--duration=2h")
    write(rig.folder / "far-token", token.encode())
