"""vc-manager with the API proxy: endpoint, certificate, NetworkPolicy and condition of a tenant."""

import asyncio
import base64
import ssl
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest
import yaml
from cryptography import x509

from kubeio import Object
from tenancy import resources, wellknown
from tests.integration.vcmanager.conftest import ManagerStage
from tests.support.eventually import eventually
from tests.support.names import fresh_name
from vcmanager.runtime.host_watch import HostWatch
from vcmanager.runtime.keys import build_virtual_cluster_key
from vcmanager.runtime.options import ApiProxySettings

BASE = "clusters.example.com"


@pytest.fixture
async def proxied(stage: ManagerStage) -> AsyncIterator[ManagerStage]:
    """The stage of a chart with the proxy."""
    woken = stage.woken
    watch = HostWatch(
        stage.manager,
        BASE,
        lambda claim: woken.append(build_virtual_cluster_key(claim.namespace, claim.name)),
    )
    following = asyncio.ensure_future(watch.run())
    await watch.wait_synced()
    proxy = ApiProxySettings(base_domain=BASE, address="192.0.2.7", port=30443)
    settings = replace(stage.means.settings, api_proxy=proxy)
    yield replace(stage, means=replace(stage.means, settings=settings, hosts=watch))
    following.cancel()
    await asyncio.wait([following])


async def read_cluster(stage: ManagerStage, cluster: Object) -> dict[str, Any]:
    """Return the cluster of the admin kubeconfig."""
    secret = await stage.secret(cluster, "admin-kubeconfig")
    document = yaml.safe_load(base64.b64decode(secret["data"]["admin-kubeconfig"]))
    found: dict[str, Any] = document["clusters"][0]["cluster"]
    return found


async def read_names(stage: ManagerStage, cluster: Object) -> list[str]:
    """Return the DNS names of the API server's certificate."""
    secret = await stage.secret(cluster, "apiserver-ca")
    pem = next(
        data
        for data in map(base64.b64decode, secret["data"].values())
        if b"BEGIN CERTIFICATE" in data
    )
    certificate = x509.load_pem_x509_certificate(pem)
    extension = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName)
    return extension.value.get_values_for_type(x509.DNSName)


async def read_api_peers(stage: ManagerStage, cluster: Object) -> list[Object]:
    """Return the peers that may reach the API server."""
    policy = await stage.admin.get(
        resources.NETWORK_POLICIES, "apiserver", namespace=stage.root(cluster)
    )
    peers: list[Object] = policy["spec"]["ingress"][0]["from"]
    return peers


async def test_a_tenant_is_published_under_its_generated_name(proxied: ManagerStage):
    cluster = await proxied.declare(fresh_name("shop"))
    await proxied.bring_up(cluster)
    host = f"{cluster['metadata']['name']}.default.{BASE}"
    found = await read_cluster(proxied, cluster)
    assert (found["server"], found["tls-server-name"]) == ("https://192.0.2.7:30443", host)
    assert host in await read_names(proxied, cluster)
    status = (await proxied.fresh(cluster))["status"]
    assert status["endpoint"] == "https://192.0.2.7:30443"
    service = await proxied.admin.get(
        resources.SERVICES, "apiserver-svc", namespace=proxied.root(cluster)
    )
    address = f"{service['spec']['clusterIP']}:{service['spec']['ports'][0]['port']}"
    assert status["apiServerAddress"] == address
    condition = await proxied.condition(cluster, wellknown.HOSTNAME_ACCEPTED) or {}
    assert (condition["status"], condition["reason"]) == ("True", "Accepted")
    peers = await read_api_peers(proxied, cluster)
    assert not [each for each in peers if "ipBlock" in each]


async def test_the_newer_of_two_tenants_is_published_without_the_name(proxied: ManagerStage):
    host = f"{fresh_name('shop')}.example.com"
    older = await proxied.declare(fresh_name("older"), endpoint={"hostname": host})
    await asyncio.sleep(1.1)  # creation timestamps have seconds
    newer = await proxied.declare(fresh_name("newer"), endpoint={"hostname": host})
    watch = proxied.means.hosts
    assert watch is not None
    await eventually(lambda: dict(watch.iterate_owners()).get(host))
    await proxied.bring_up(newer)  # without a host name it is ready all the same
    condition = await proxied.condition(newer, wellknown.HOSTNAME_ACCEPTED) or {}
    assert (condition["status"], condition["reason"]) == ("False", "HostnameTaken")
    assert "Set spec.endpoint.hostname to another DNS name" in condition["message"]
    assert older["metadata"]["name"] not in condition["message"]
    assert host not in (await read_cluster(proxied, newer))["server"]
    assert "tls-server-name" not in await read_cluster(proxied, newer)
    assert host not in await read_names(proxied, newer)
    assert [each for each in await read_api_peers(proxied, newer) if "ipBlock" in each]
    proxied.woken.clear()
    metadata = older["metadata"]
    await proxied.admin.delete(
        resources.VIRTUAL_CLUSTERS, metadata["name"], namespace=metadata["namespace"]
    )
    key = build_virtual_cluster_key("default", newer["metadata"]["name"])
    await eventually(lambda: key in proxied.woken)
    await proxied.work(newer)
    condition = await proxied.condition(newer, wellknown.HOSTNAME_ACCEPTED) or {}
    assert condition["status"] == "True"
    assert (await read_cluster(proxied, newer))["tls-server-name"] == host
    assert host in await read_names(proxied, newer)


async def test_the_name_reaches_the_sni_of_a_client(proxied: ManagerStage):
    """A client takes the server name of the kubeconfig as SNI, as client-go does."""
    cluster = await proxied.declare(fresh_name("sni"))
    await proxied.bring_up(cluster)
    found = await read_cluster(proxied, cluster)
    context = ssl.create_default_context()
    outgoing = ssl.MemoryBIO()
    peer = context.wrap_bio(ssl.MemoryBIO(), outgoing, server_hostname=found["tls-server-name"])
    with pytest.raises(ssl.SSLWantReadError):
        peer.do_handshake()
    assert found["tls-server-name"].encode() in outgoing.read()
