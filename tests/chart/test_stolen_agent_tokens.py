"""Bounds of a stolen token of an agent: streams to pods of tenants, and its own node.

The thief's account is bound to cluster-admin here, so the admission policy alone refuses.
"""

from __future__ import annotations

from typing import Any

import pytest

from kubeio import Object, errors
from kubeio.api.client import Client
from tenancy import resources, wellknown
from tests.chart.conftest import ChartApiServer
from tests.chart.gate import AdmissionStage, refused, token
from tests.chart.stolen_tokens import (
    AGENT,
    BY_KIND,
    POD,
    StolenTokens,
    body,
    bound_token,
    build_signing_request,
)
from tests.support.helm import NAMESPACE
from tests.support.names import fresh_name
from tests.support.refusals import Attempt, check_refused, list_streams

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


def list_writes(stage: AdmissionStage, node: str) -> list[Attempt]:
    """Return writes that no agent needs."""
    home = stage.namespace(stage.own)
    accounts = f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts"
    made = []
    for kind, place, fields in AGENT_WRITES:
        resource, namespace = BY_KIND[kind], home if place == "SPACE" else place
        sent = body(kind, fresh_name("o"), namespace, resource.api_version, **fields)
        made.append(Attempt("POST", resource.build_path(namespace), sent))
    return [
        *made,
        Attempt("DELETE", f"/api/v1/namespaces/{home}"),
        Attempt("DELETE", f"/api/v1/nodes/{node}"),
        Attempt("PATCH", f"/api/v1/nodes/{node}", {"metadata": {"labels": {"a": "b"}}}),
        Attempt("DELETE", f"/api/v1/namespaces/{home}/pods/p"),
        *(Attempt("POST", f"{accounts}/{each}/token", {"spec": {}}) for each in ACCOUNTS),
    ]


ACCOUNTS = ("vc-manager", "vc-syncer", "vn-agent", "vn-agent-target")


async def place_pods(stage: AdmissionStage) -> tuple[str, list[str]]:
    """Create the pod `p` in a super namespace and in namespaces outside. Return both."""
    home = stage.namespace(stage.own)
    outside = ["kube-system", "default", NAMESPACE, stage.own.root]
    for namespace in (home, *outside):
        made = body("Pod", "p", namespace, spec=POD)
        await stage.admin.apply(resources.PODS, made, field_manager="test")
    return home, outside


async def test_the_policy_alone_refuses_what_an_agent_does_not_need(stolen: StolenTokens):
    """SEC-204: bound to cluster-admin, it opens streams to pods of tenants and writes nothing."""
    _, outside = await place_pods(stolen.stage)
    streams = [each for namespace in outside for each in list_streams(namespace, "p")]
    writes = list_writes(stolen.stage, stolen.node)
    await check_refused(stolen.agent, [*streams, *writes], reason=AGENT)
    event = body("Event", fresh_name("e"), NAMESPACE)
    event["involvedObject"] = {"kind": "Pod", "name": "vn-agent-x", "namespace": NAMESPACE}
    await stolen.agent.create(BY_KIND["Event"], event, dry_run=True)


async def test_the_policy_alone_refuses_each_stream_of_the_agent_of_a_target(stolen: StolenTokens):
    """SEC-204: bound to cluster-admin, it reaches neither pods of tenants nor nodes at home."""
    home, outside = await place_pods(stolen.stage)
    streams = [each for namespace in (home, *outside) for each in list_streams(namespace, "p")]
    nodes = [
        Attempt(verb, f"/api/v1/nodes/{stolen.node}/proxy/pods") for verb in ("GET", "POST", "PUT")
    ]
    writes = list_writes(stolen.stage, stolen.node)
    await check_refused(stolen.target_agent, [*streams, *nodes, *writes], reason=AGENT)


READS = (
    "/api/v1/secrets",
    "/api/v1/namespaces/kube-system/secrets/any",
    f"/api/v1/namespaces/{NAMESPACE}/secrets/vn-agent-client-ca",
    "/api/v1/namespaces/{home}/secrets",
    "/api/v1/namespaces/{root}/secrets/admin-kubeconfig",
    "/api/v1/configmaps",
    f"/api/v1/namespaces/{NAMESPACE}/configmaps/any",
    "/api/v1/namespaces/{home}/configmaps",
    "/api/v1/namespaces/{home}/pods/p",
    "/api/v1/pods?watch=true&timeoutSeconds=1",
    "/api/v1/namespaces",
    "/api/v1/namespaces/kube-system",
    "/api/v1/nodes",
    "/api/v1/nodes/any",
    "/api/v1/nodes/any/proxy/pods",
    "/api/v1/services",
    "/api/v1/namespaces/{root}/endpoints",
    "/api/v1/serviceaccounts",
    "/api/v1/events",
    "/apis/apps/v1/deployments",
    "/apis/rbac.authorization.k8s.io/v1/clusterroles",
    "/apis/tenancy.x-k8s.io/v1alpha1/virtualclusters",
    "/apis/tenancy.x-k8s.io/v1alpha1/superclusters",
    "/apis/certificates.k8s.io/v1/certificatesigningrequests",
    "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies",
)
"""Paths that no agent may read, with placeholders for namespaces."""
TARGET_READS = (
    "/api/v1/pods",
    "/api/v1/namespaces/{home}/pods",
    "/api/v1/namespaces/{home}/pods/p/log",
    "/api/v1/namespaces/{root}/pods/p/log",
    "/api/v1/namespaces/kube-system/pods/p/log",
)
"""Paths that the agent of a node may read, and the agent of a target may not."""


def list_reads(stage: AdmissionStage, *paths: str) -> list[Attempt]:
    """Return reads of these paths."""
    home, root = stage.namespace(stage.own), stage.own.root
    return [Attempt("GET", path.format(home=home, root=root)) for path in paths]


async def test_with_the_rights_of_the_chart_an_agent_reads_and_writes_nothing_else(
    server: ChartApiServer, stage: AdmissionStage
):
    """SEC-204: by RBAC, where admission sees nothing."""
    _, outside = await place_pods(stage)
    node = fresh_name("node")
    await stage.admin.create(resources.NODES, body("Node", node))
    streams = [each for namespace in outside for each in list_streams(namespace, "p")]
    writes, reads = list_writes(stage, node), list_reads(stage, *READS)
    token_of_node = await bound_token(stage.admin, node)
    async with Client(server.plane.endpoint_with_token(token=token_of_node)) as agent:
        await check_refused(agent, [*reads, *writes, *streams])


async def test_with_the_rights_of_the_chart_the_agent_of_a_target_reads_no_pod(
    server: ChartApiServer, stage: AdmissionStage
):
    """SEC-204: it has no right to pods and nodes at home, and keeps what it needs."""
    home, outside = await place_pods(stage)
    node = fresh_name("node")
    await stage.admin.create(resources.NODES, body("Node", node))
    streams = [each for namespace in (home, *outside) for each in list_streams(namespace, "p")]
    writes, reads = list_writes(stage, node), list_reads(stage, *READS, *TARGET_READS)
    own = server.plane.endpoint_with_token(token=await token(stage.admin, "vn-agent-target"))
    access = body("ConfigMap", wellknown.AGENT_ACCESS, NAMESPACE)
    await stage.admin.apply(resources.CONFIG_MAPS, access, field_manager="test")
    async with Client(own) as agent:
        await check_refused(agent, [*reads, *writes, *streams])
        await agent.get(resources.CONFIG_MAPS, wellknown.AGENT_ACCESS, namespace=NAMESPACE)
        made = await agent.create(resources.CERTIFICATE_SIGNING_REQUESTS, build_signing_request())
        await agent.get(resources.CERTIFICATE_SIGNING_REQUESTS, made["metadata"]["name"])
        for path, spec in (
            ("authentication.k8s.io/v1/tokenreviews", {"token": "any"}),
            ("authorization.k8s.io/v1/subjectaccessreviews", REVIEW),
        ):
            await agent.raw("POST", f"/apis/{path}", body={"spec": spec})


REVIEW: Object = {"user": "any", "nonResourceAttributes": {"path": "/metrics", "verb": "get"}}


async def test_one_life_of_an_agent_passes(server: ChartApiServer, stage: AdmissionStage):
    """SEC-204: with the rights of the chart alone, all that an agent does with its token."""
    node = fresh_name("node")
    await stage.admin.create(resources.NODES, body("Node", node))
    token = await bound_token(stage.admin, node)
    home, name = stage.namespace(stage.own), fresh_name("p")
    await stage.admin.create(resources.PODS, body("Pod", name, home, spec=POD))
    access = body("ConfigMap", wellknown.AGENT_ACCESS, NAMESPACE)
    await stage.admin.apply(resources.CONFIG_MAPS, access, field_manager="test")
    request = build_signing_request()
    event = body("Event", fresh_name("e"), NAMESPACE)
    event["involvedObject"] = {"kind": "Pod", "name": "vn-agent-x", "namespace": NAMESPACE}
    async with Client(server.plane.endpoint_with_token(token=token)) as agent:
        await agent.get(resources.CONFIG_MAPS, wellknown.AGENT_ACCESS, namespace=NAMESPACE)
        made = await agent.create(resources.CERTIFICATE_SIGNING_REQUESTS, request)
        await agent.get(resources.CERTIFICATE_SIGNING_REQUESTS, made["metadata"]["name"])
        await agent.list(resources.PODS, field_selector=f"spec.nodeName={node}")
        await agent.create(BY_KIND["Event"], event, dry_run=True)
        for subresource in ("exec", "attach", "portforward"):
            path = stream(home, name, subresource)
            await passes(lambda p=path: agent.raw("POST", p), "forbidden")
        log = f"/api/v1/namespaces/{home}/pods/{name}/log"
        await passes(lambda: agent.raw("GET", log), "forbidden")
