"""Bounds of a stolen token of the API proxy: it reads VirtualClusters, and nothing else.

No admission policy is about this account, so RBAC refuses each request.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from kubeio.api.client import Client
from tenancy import resources, wellknown
from tests.chart.conftest import ChartApiServer
from tests.chart.gate import AdmissionStage, token
from tests.chart.stolen_tokens import POD, body
from tests.support.eventually import eventually
from tests.support.helm import NAMESPACE, named, render
from tests.support.names import fresh_name
from tests.support.refusals import Attempt, check_refused, list_streams

pytestmark = pytest.mark.integration

ON = ("--set", "apiProxy.enabled=true,apiProxy.baseDomain=clusters.example.com")
ROLE = f"virtual-cluster:{wellknown.API_PROXY}"
TENANCY = "/apis/tenancy.x-k8s.io/v1alpha1"


@pytest.fixture
async def proxy(server: ChartApiServer, stage: AdmissionStage) -> AsyncIterator[Client]:
    """A client with the token of the proxy's account, and with the rights that the chart grants."""
    objects = render(*ON)
    for resource, name in (
        (resources.SERVICE_ACCOUNTS, wellknown.API_PROXY),
        (resources.CLUSTER_ROLES, ROLE),
        (resources.CLUSTER_ROLE_BINDINGS, ROLE),
    ):
        made = named(objects, resource.kind, name)
        if resource.namespaced:
            made["metadata"]["namespace"] = NAMESPACE
        await stage.admin.apply(resource, made, field_manager="test")
    stolen = await token(stage.admin, wellknown.API_PROXY)
    async with Client(server.plane.endpoint_with_token(token=stolen)) as client:
        yield client


def list_attempts(home: str, root: str, tenant: str) -> list[Attempt]:
    """Return reads and writes outside of the purpose. Each namespace has the pod `p`."""
    of = f"{TENANCY}/namespaces/default/virtualclusters/{tenant}"
    reads = (
        "/api/v1/secrets",
        f"/api/v1/namespaces/{NAMESPACE}/secrets",
        f"/api/v1/namespaces/{root}/secrets/admin-kubeconfig",
        f"/api/v1/namespaces/{home}/secrets",
        f"/api/v1/namespaces/{NAMESPACE}/configmaps",
        "/api/v1/pods",
        f"/api/v1/namespaces/{home}/pods/p",
        f"/api/v1/namespaces/{home}/pods/p/log",
        "/api/v1/namespaces",
        "/api/v1/nodes",
        "/api/v1/nodes/any/proxy/pods",
        "/api/v1/services",
        f"/api/v1/namespaces/{root}/endpoints",
        f"{TENANCY}/superclusters",
        f"{TENANCY}/tenantpolicies",
        f"{TENANCY}/clusterversions",
    )
    secret = {"metadata": {"name": "s"}}
    marked = {"metadata": {"labels": {"a": "b"}}}
    return [
        *(Attempt("GET", path) for path in reads),
        *(each for namespace in (home, root) for each in list_streams(namespace, "p")),
        *(
            Attempt("POST", f"/api/v1/namespaces/{each}/secrets", secret)
            for each in (NAMESPACE, root, home, "kube-system")
        ),
        Attempt("PATCH", of, marked),
        Attempt("PATCH", f"{of}/status", {"status": {"phase": "Running"}}),
        Attempt("DELETE", of),
        Attempt("POST", f"{TENANCY}/namespaces/default/virtualclusters", secret),
        Attempt("POST", f"/api/v1/namespaces/{home}/pods", body("Pod", "n", home, spec=POD)),
        Attempt("PATCH", f"/api/v1/namespaces/{root}", marked),
        Attempt("DELETE", f"/api/v1/namespaces/{root}"),
        Attempt("POST", f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/vc-manager/token", {}),
    ]


async def test_the_proxys_token_reads_virtual_clusters_and_nothing_else(
    stage: AdmissionStage, proxy: Client
):
    """SEC-214."""
    name, home = fresh_name("vc"), stage.namespace(stage.own)
    made = body("VirtualCluster", name, "default", "tenancy.x-k8s.io/v1alpha1")
    made["spec"] = {"clusterVersionName": "v1.36"}
    await stage.admin.create(resources.VIRTUAL_CLUSTERS, made)
    for namespace in (home, stage.own.root):
        pod = body("Pod", "p", namespace, spec=POD)
        await stage.admin.apply(resources.PODS, pod, field_manager="test")
    await check_refused(proxy, list_attempts(home, stage.own.root, name))

    async def list_names() -> bool:
        found = await proxy.list(resources.VIRTUAL_CLUSTERS)
        return name in [each["metadata"]["name"] for each in found["items"]]

    await eventually(list_names)
    await proxy.get(resources.VIRTUAL_CLUSTERS, name, namespace="default")
    await proxy.raw("GET", f"{TENANCY}/virtualclusters?watch=true&timeoutSeconds=1")
