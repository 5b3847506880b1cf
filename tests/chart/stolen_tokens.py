"""Two tenants, and thieves with the tokens of vc-manager and of agents, before the chart's gate.

The accounts of the thieves are bound to cluster-admin, so the admission policy alone refuses.
"""

from __future__ import annotations

import base64
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from kubeio import Object
from kubeio.api.client import Client
from tenancy import resources, wellknown
from tests.chart.gate import AdmissionStage, token
from tests.support.account_tokens import request_account_token
from tests.support.controlplane import LocalControlPlane
from tests.support.grants import build_account
from tests.support.helm import NAMESPACE
from tests.support.names import fresh_name

MANAGER, AGENT = "virtual-cluster-manager", "virtual-cluster-agent"
RBAC = "rbac.authorization.k8s.io"
CONTAINER = {"name": "etcd", "image": "registry.example/etcd:1"}
POD: Object = {
    "automountServiceAccountToken": False,
    "containers": [CONTAINER],
    "volumes": [{"name": "data", "emptyDir": {}}, {"name": "ca", "secret": {"secretName": "x"}}],
}
BY_KIND = {
    each.kind: each for each in vars(resources).values() if isinstance(each, resources.Resource)
}


@dataclass(frozen=True, kw_only=True)
class StolenTokens:
    """Two tenants, and a client with each stolen token."""

    stage: AdmissionStage
    manager: Client
    agent: Client
    node: str
    """Node that the agent's token is bound to."""
    target_agent: Client
    """With the token of the agent of a target."""


async def bound_token(admin: Client, node: str) -> str:
    """Return a token of the agent's account that is bound to a pod on a node."""
    name = fresh_name("vn-agent")
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {
            "serviceAccountName": "vn-agent",
            "nodeName": node,
            "containers": [{"name": "vn-agent", "image": "x"}],
        },
    }
    made = await admin.create(resources.PODS, pod)
    return await request_account_token(admin, NAMESPACE, "vn-agent", bound_to=made)


@contextlib.asynccontextmanager
async def steal_tokens(
    plane: LocalControlPlane, stage: AdmissionStage
) -> AsyncIterator[StolenTokens]:
    """Yield the tokens. The bindings to cluster-admin end with the block."""
    admin, node = stage.admin, fresh_name("node")
    await admin.create(resources.NODES, {"metadata": {"name": node}})
    accounts = ("vc-manager", "vn-agent", "vn-agent-target")
    names = [fresh_name("wide") for _ in accounts]
    for name, account in zip(names, accounts, strict=True):
        await admin.create(
            resources.CLUSTER_ROLE_BINDINGS,
            {
                "apiVersion": f"{RBAC}/v1",
                "kind": "ClusterRoleBinding",
                "metadata": {"name": name},
                "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": "cluster-admin"},
                "subjects": [build_account(account, NAMESPACE)],
            },
        )
    manager = plane.endpoint_with_token(token=await token(admin, "vc-manager"))
    agent = plane.endpoint_with_token(token=await bound_token(admin, node))
    target_agent = plane.endpoint_with_token(token=await token(admin, "vn-agent-target"))
    try:
        async with Client(manager) as first, Client(agent) as second, Client(target_agent) as third:
            yield StolenTokens(
                stage=stage, manager=first, agent=second, node=node, target_agent=third
            )
    finally:
        for name in names:
            await admin.delete(resources.CLUSTER_ROLE_BINDINGS, name)


def body(kind: str, name: str, namespace: str = "", api: str = "v1", **fields: Any) -> Object:
    """Return an object."""
    place = {"namespace": namespace} if namespace else {}
    return {"apiVersion": api, "kind": kind, "metadata": {"name": name, **place}, **fields}


def build_signing_request() -> Object:
    """Return the request of an agent for its serving certificate."""
    return {
        "metadata": {"generateName": "vn-agent-"},
        "spec": {
            "signerName": wellknown.AGENT_SERVING_SIGNER,
            "usages": ["digital signature", "server auth"],
            "request": base64.b64encode(build_request()).decode(),
        },
    }


def build_request() -> bytes:
    """Return a certificate signing request, PEM."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "vn-agent")])
    request = x509.CertificateSigningRequestBuilder().subject_name(name).sign(key, hashes.SHA256())
    return request.public_bytes(serialization.Encoding.PEM)
