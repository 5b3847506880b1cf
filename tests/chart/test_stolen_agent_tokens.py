"""Bounds of a stolen token of an agent: streams to pods of tenants, and its own node.

The thief's account is bound to cluster-admin here, so the admission policy alone refuses.
"""

from __future__ import annotations

import base64
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from kubeio import errors
from kubeio.api.client import Client
from tenancy import resources, wellknown
from tests.chart.conftest import ChartApiServer
from tests.chart.gate import AdmissionStage, refused
from tests.chart.stolen_tokens import AGENT, BY_KIND, POD, StolenTokens, body, bound_token
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


async def test_one_life_of_an_agent_passes(server: ChartApiServer, stage: AdmissionStage):
    """SEC-204: with the rights of the chart alone, all that an agent does with its token."""
    node = fresh_name("node")
    await stage.admin.create(resources.NODES, body("Node", node))
    token = await bound_token(stage.admin, node)
    home, name = stage.namespace(stage.own), fresh_name("p")
    await stage.admin.create(resources.PODS, body("Pod", name, home, spec=POD))
    access = body("ConfigMap", wellknown.AGENT_ACCESS, NAMESPACE)
    await stage.admin.apply(resources.CONFIG_MAPS, access, field_manager="test")
    request = {
        "metadata": {"generateName": "vn-agent-"},
        "spec": {
            "signerName": wellknown.AGENT_SERVING_SIGNER,
            "usages": ["digital signature", "server auth"],
            "request": base64.b64encode(build_request()).decode(),
        },
    }
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


def build_request() -> bytes:
    """Return a certificate signing request, PEM."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "vn-agent")])
    request = x509.CertificateSigningRequestBuilder().subject_name(name).sign(key, hashes.SHA256())
    return request.public_bytes(serialization.Encoding.PEM)
