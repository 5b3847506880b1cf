"""What a thief can do with the token of an agent: streams to pods of tenants, and its own node.

The thief's account is bound to cluster-admin here, so the admission policy alone refuses.
"""

from __future__ import annotations

from typing import Any

import pytest

from kubeio import errors
from tenancy import resources
from tests.chart.gate import refused
from tests.chart.stolen_tokens import AGENT, BY_KIND, POD, StolenTokens, body
from tests.support.helm import NAMESPACE
from tests.support.names import fresh_name

pytestmark = pytest.mark.integration


def stream(namespace: str, pod: str, subresource: str) -> str:
    """Return the path of a stream."""
    query = {"exec": "?command=sh", "attach": "?stdout=true"}.get(subresource, "")
    return f"/api/v1/namespaces/{namespace}/pods/{pod}/{subresource}{query}"


async def passes(attempt: Any, policy: str) -> None:
    """Try, and accept each answer but the policy's: there are no kubelets here."""
    told = ""
    try:
        await attempt()
    except errors.ApiError as problem:
        told = problem.server_message
    assert policy not in told, told


@pytest.mark.parametrize("subresource", ["exec", "attach", "portforward"])
async def test_the_agents_token_opens_streams_in_namespaces_of_tenants_only(
    stolen: StolenTokens, subresource: str
):
    """SEC-204."""
    stage, home = stolen.stage, stolen.stage.namespace(stolen.stage.own)
    for namespace in ("kube-system", "default", NAMESPACE, stage.own.root, home):
        name = fresh_name("p")
        await stage.admin.create(resources.PODS, body("Pod", name, namespace, spec=POD))
        path = stream(namespace, name, subresource)
        if namespace == home:
            await passes(lambda p=path: stolen.agent.raw("POST", p), AGENT)
        else:
            told = await refused(lambda p=path: stolen.agent.raw("POST", p), AGENT)
            assert f"{namespace} is not one" in told


async def test_the_agents_token_calls_its_own_node_only(stolen: StolenTokens):
    """SEC-204."""
    other = fresh_name("other")
    await stolen.stage.admin.create(resources.NODES, body("Node", other))
    for name in (other, "missing"):
        told = await refused(
            lambda n=name: stolen.agent.raw("GET", f"/api/v1/nodes/{n}/proxy/pods"), AGENT
        )
        assert f"its token names '{stolen.node}'" in told
    own = f"/api/v1/nodes/{stolen.node}/proxy/pods"
    await passes(lambda: stolen.agent.raw("GET", own), AGENT)


AGENT_WRITES = [
    ("Secret", "kube-system", {}),
    ("Secret", NAMESPACE, {}),
    ("Secret", "SPACE", {}),
    ("ConfigMap", NAMESPACE, {}),
    ("ConfigMap", "SPACE", {}),
    ("Pod", "SPACE", {"spec": POD}),
    ("Pod", "kube-system", {"spec": POD}),
    ("Service", "SPACE", {"spec": {"ports": [{"port": 80}]}}),
    ("ServiceAccount", NAMESPACE, {}),
    ("Namespace", "", {}),
    ("Node", "", {}),
    ("ClusterRole", "", {"rules": []}),
    ("Lease", NAMESPACE, {}),
    (
        "Event",
        "default",
        {"involvedObject": {"kind": "Pod", "name": "vn-agent-x", "namespace": "default"}},
    ),
    (
        "Event",
        NAMESPACE,
        {"involvedObject": {"kind": "Secret", "name": "vn-agent-x", "namespace": NAMESPACE}},
    ),
]


async def test_the_agents_token_writes_nothing(stolen: StolenTokens):
    """SEC-204."""
    home = stolen.stage.namespace(stolen.stage.own)
    for kind, place, fields in AGENT_WRITES:
        resource, namespace = BY_KIND[kind], home if place == "SPACE" else place
        made = body(kind, fresh_name("o"), namespace, resource.api_version, **fields)
        await refused(lambda r=resource, b=made: stolen.agent.create(r, b, dry_run=True), AGENT)
    for resource, name, namespace in (
        (resources.NAMESPACES, home, ""),
        (resources.NODES, stolen.node, ""),
        (resources.PODS, "victim", home),
    ):
        if resource is resources.PODS:
            await stolen.stage.admin.create(resource, body("Pod", name, namespace, spec=POD))
        await refused(
            lambda r=resource, n=name, ns=namespace: stolen.agent.delete(
                r, n, namespace=ns, dry_run=True
            ),
            AGENT,
        )
    event = body("Event", fresh_name("e"), NAMESPACE)
    event["involvedObject"] = {"kind": "Pod", "name": "vn-agent-x", "namespace": NAMESPACE}
    await stolen.agent.create(BY_KIND["Event"], event, dry_run=True)
