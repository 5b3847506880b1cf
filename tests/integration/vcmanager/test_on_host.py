"""The manager's own certificates and flags, under the real programs: etcd, kube-apiserver and
kube-controller-manager run on loopback with exactly the files that their pods would mount.

What Go's verifier, etcd and the API server refuse, they refuse here.
"""

import asyncio
import base64
import contextlib
import re
import ssl
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from clusterversions import catalog
from kubeio import errors
from kubeio.api.client import Client
from kubeio.config.endpoint import Endpoint
from tenancy import resources
from tests.integration.vcmanager.conftest import ManagerStage, cluster_version
from tests.integration.vcmanager.hosted_control_plane import HostTenant, on_host, who
from tests.support.account_tokens import request_account_token
from tests.support.eventually import eventually
from vcmanager.pki import authority, inventory
from vcmanager.pki.authority import KeyPair


@pytest.fixture(params=["short", "upstream", pytest.param("newest", marks=pytest.mark.thorough)])
async def tenant(request, stage: ManagerStage, tmp_path: Path) -> AsyncIterator[HostTenant]:
    name = "v1.36"
    if request.param == "newest":
        version = cluster_version("newest-on-host", kubernetesVersion=catalog.list_minors()[-1])
        name = version["metadata"]["name"]
        await stage.admin.apply(resources.CLUSTER_VERSIONS, version, field_manager="test")
    if request.param == "upstream":
        sample = yaml.safe_load(catalog.read_sample("upstream-shape"))
        name = sample["metadata"]["name"] = "on-host"
        await stage.admin.apply(resources.CLUSTER_VERSIONS, sample, field_manager="test")
    cluster = await stage.declare(clusterVersionName=name, dns="none")
    async with on_host(stage, cluster, tmp_path) as found:
        yield found


async def minted(manager: Client, common_name: str) -> tuple[bytes, bytes]:
    """Have the tenant's own controllers sign a certificate, as its admin can."""
    key = ec.generate_private_key(ec.SECP256R1())
    request = (
        x509.CertificateSigningRequestBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)]))
        .sign(key, hashes.SHA256())
    )
    name = f"csr-{common_name}".replace(":", "-")
    body = {
        "metadata": {"name": name},
        "spec": {
            "signerName": "kubernetes.io/kube-apiserver-client",
            "usages": ["client auth"],
            "request": base64.b64encode(request.public_bytes(serialization.Encoding.PEM)).decode(),
        },
    }
    made = await manager.create(resources.CERTIFICATE_SIGNING_REQUESTS, body)
    condition = {"type": "Approved", "status": "True", "reason": "Test", "message": "test"}
    made["status"] = {"conditions": [condition]}
    await manager.replace(resources.CERTIFICATE_SIGNING_REQUESTS, made, subresource="approval")

    async def signed():
        found = await manager.get(resources.CERTIFICATE_SIGNING_REQUESTS, name)
        return found["status"].get("certificate")

    certificate = await eventually(signed, within=30)
    return base64.b64decode(certificate), key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.TraditionalOpenSSL,
        serialization.NoEncryption(),
    )


@pytest.mark.parametrize("tenant", ["newest"], indirect=True)
async def test_a_control_plane_of_the_newest_minor_runs_with_our_flags(tenant: HostTenant):
    newest = catalog.list_minors()[-1]
    assert newest != catalog.DEFAULT_MINOR
    async with Client(await tenant.endpoint("admin")) as admin:
        assert (await admin.version()).startswith(f"v{newest}.")
        assert (await who(admin))["groups"] == ["tenancy:admins", "system:authenticated"]
        await admin.create(resources.NAMESPACES, {"metadata": {"name": "mine"}})
        for resource, name in (
            (resources.CONFIG_MAPS, "kube-root-ca.crt"),
            (resources.SERVICE_ACCOUNTS, "default"),
        ):
            await eventually(
                lambda resource=resource, name=name: admin.get(resource, name, namespace="mine"),
                within=30,
            )


async def etcd_answers(tenant: HostTenant, certificate: bytes, key: bytes, folder: Path) -> bool:
    """Return whether etcd lets a client certificate in."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.verify_flags |= ssl.VERIFY_X509_STRICT
    context.load_verify_locations(cadata=(await tenant.pair("etcd-authority")).certificate.decode())
    file = folder / "client.pem"
    file.write_bytes(certificate + key)
    context.load_cert_chain(file)
    try:
        reader, writer = await asyncio.open_connection(
            "127.0.0.1", tenant.etcd_port, ssl=context, server_hostname="127.0.0.1"
        )
        writer.write(b"GET /version HTTP/1.1\r\nHost: etcd\r\nConnection: close\r\n\r\n")
        answer = await reader.read()
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()
    except (ssl.SSLError, ConnectionError):
        return False
    return b" 200 OK" in answer


async def test_the_certificates_work_and_open_only_what_they_are_for(
    tenant: HostTenant, tmp_path: Path
):
    """SEC-23, SEC-24: one walk, because the programs take seconds to start."""
    async with (
        Client(await tenant.endpoint("admin")) as admin,
        Client(await tenant.endpoint("manager")) as manager,
        Client(await tenant.endpoint("syncer")) as syncer,
    ):
        # Who is who, over connections that are verified to the letter on both sides.
        assert (await who(admin))["groups"] == ["tenancy:admins", "system:authenticated"]
        assert (await who(syncer))["username"] == "tenancy:syncer"
        assert "system:masters" in (await who(manager))["groups"]
        await admin.create(resources.NAMESPACES, {"metadata": {"name": "mine"}})
        with pytest.raises(errors.Forbidden):
            await syncer.create(resources.CLUSTER_ROLES, {"metadata": {"name": "x"}, "rules": []})

        # Access is taken back by taking the binding away.
        await manager.delete(resources.CLUSTER_ROLE_BINDINGS, "tenancy:admins")

        async def is_revoked():
            with contextlib.suppress(errors.Forbidden):
                await admin.list(resources.SECRETS)
                return False
            return True

        await eventually(is_revoked)

        # The pods' root is the serving authority, and nothing else.
        published = await eventually(
            lambda: manager.get(resources.CONFIG_MAPS, "kube-root-ca.crt", namespace="default"),
            within=30,
        )
        serving = await tenant.pair("root-ca")
        assert published["data"]["ca.crt"].strip() == serving.certificate.decode().strip()

        # What a tenant's admin may have signed opens neither the store nor the front door.
        certificate, key = await minted(manager, "front-proxy-client")
        client_authority = await tenant.pair("client-authority")
        x509.load_pem_x509_certificate(certificate).verify_directly_issued_by(
            x509.load_pem_x509_certificate(client_authority.certificate)
        )
        assert not await etcd_answers(tenant, certificate, key, tmp_path)
        endpoint = await tenant.endpoint("admin")
        assert not await etcd_answers(tenant, endpoint.client_cert, endpoint.client_key, tmp_path)
        own = await tenant.pair("apiserver-etcd-client")
        assert await etcd_answers(tenant, own.certificate, own.key, tmp_path)
        assert await header_is_believed(tenant, certificate, key, tmp_path) == "front-proxy-client"
        proxy = await tenant.pair("front-proxy-ca")
        assert await header_is_believed(tenant, proxy.certificate, proxy.key, tmp_path) == "boss"


async def header_is_believed(
    tenant: HostTenant, certificate: bytes, key: bytes, folder: Path
) -> str:
    """Return who the API takes a caller for that says in a header to be another owner."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(cadata=(await tenant.pair("root-ca")).certificate.decode())
    file = folder / "proxy.pem"
    file.write_bytes(certificate + key)
    context.load_cert_chain(file)
    reader, writer = await asyncio.open_connection(
        "127.0.0.1", tenant.api_port, ssl=context, server_hostname="127.0.0.1"
    )
    body = b'{"apiVersion":"authentication.k8s.io/v1","kind":"SelfSubjectReview"}'
    writer.write(
        b"POST /apis/authentication.k8s.io/v1/selfsubjectreviews HTTP/1.1\r\nHost: api\r\n"
        b"X-Remote-User: boss\r\nX-Remote-Group: system:authenticated\r\n"
        b"Content-Type: application/json\r\nConnection: close\r\n"
        b"Content-Length: %d\r\n\r\n%s" % (len(body), body)
    )
    answer = await reader.read()
    writer.close()
    found = re.search(rb'"username":"([^"]+)"', answer)
    assert found is not None, answer
    return found[1].decode()


STRANGERS_MAY = ("/livez", "/readyz", "/healthz")
STRANGERS_MAY_NOT = (
    "/",
    "/api",
    "/apis",
    "/version",
    "/metrics",
    "/openapi/v3",
    "/.well-known/openid-configuration",
    "/openid/v1/jwks",
    "/readyz/etcd",
    "/livez/ping",
    "/debug/pprof/",
    "/logs/",
    "/api/v1/nodes",
    "/api/v1/namespaces/default/secrets",
    "/api/v1/namespaces/kube-public/configmaps/cluster-info",
)


@pytest.mark.parametrize("tenant", ["short"], indirect=True)
async def test_an_unauthenticated_client_may_only_read_the_health(tenant: HostTenant):
    serving = await tenant.pair("root-ca")
    stranger = Endpoint(server=tenant.server, ca=serving.certificate)
    async with Client(stranger) as client:
        for path in STRANGERS_MAY:
            assert await client.raw("GET", path)
        for path in STRANGERS_MAY_NOT:
            with pytest.raises(errors.Unauthorized):
                await client.raw("GET", path)


@pytest.mark.parametrize("tenant", ["short"], indirect=True)
async def test_tokens_name_the_tenants_own_issuer_and_end_when_they_say(tenant: HostTenant):
    async with Client(await tenant.endpoint("manager")) as manager:
        token = await request_account_token(manager, "default", "default")
        payload = token.split(".")[1]
        claims = yaml.safe_load(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
        assert claims["iss"] == "https://kubernetes.default.svc.cluster.local"
        assert claims["exp"] - claims["iat"] == 3600
    serving = await tenant.pair("root-ca")
    account = Endpoint(server=tenant.server, ca=serving.certificate, token=token)
    async with Client(account) as client:
        found = yaml.safe_load(await client.raw("GET", "/.well-known/openid-configuration"))
        assert found["issuer"] == claims["iss"]
        assert found["jwks_uri"] == f"{claims['iss']}/openid/v1/jwks"


async def served_certificate(port: int, client: tuple[bytes, bytes], folder: Path) -> bytes:
    """Return the certificate, in DER, that a server shows."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    file = folder / "asking.pem"
    file.write_bytes(b"".join(client))
    context.load_cert_chain(file)
    _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
    shown = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
    writer.close()
    with contextlib.suppress(OSError):
        await writer.wait_closed()
    return shown


def replace_files(folder: Path, made: KeyPair) -> None:
    """Replace certificate and key at once, as the kubelet does."""
    for name, value in (("tls.crt", made.certificate), ("tls.key", made.key)):
        (folder / f"{name}.next").write_bytes(value)
    for name in ("tls.crt", "tls.key"):
        (folder / f"{name}.next").replace(folder / name)


@pytest.mark.parametrize(
    "tenant", ["short", pytest.param("newest", marks=pytest.mark.thorough)], indirect=True
)
async def test_renewed_files_are_served_without_a_restart(tenant: HostTenant, tmp_path: Path):
    """The rows of `reloaded_files` for servers and for clients of etcd, with the real programs."""
    facts = tenant.certificate_facts
    leaves = {row.secret: row for row in inventory.list_leaves(facts)}
    now, day = datetime.now(UTC), timedelta(days=1)
    own = await tenant.pair("apiserver-etcd-client")
    asker = (own.certificate, own.key)
    for secret, place, root, port in (
        ("etcd-ca", "etcd/etc/kubernetes/pki/etcd", "etcd-authority", tenant.etcd_port),
        ("apiserver-ca", "apiserver/etc/kubernetes/pki/apiserver", "root-ca", tenant.api_port),
    ):
        before = await served_certificate(port, asker, tmp_path)
        issuer = await tenant.pair(root)
        made = authority.make_leaf(issuer, leaves[secret].subject, lifetime=day, now=now)
        replace_files(tenant.folder / place, made)
        wanted = ssl.PEM_cert_to_DER_cert(made.certificate.decode())
        assert before != wanted

        async def is_served(port=port, wanted=wanted):
            return await served_certificate(port, asker, tmp_path) == wanted

        await eventually(is_served, within=90)
    # A new client authority is trusted beside the old one, with no restart.
    fresh = authority.make_authority("fresh", now=now)
    trust = tenant.folder / "apiserver/etc/kubernetes/pki/trust/client.crt"
    (trust.parent / "next").write_bytes(trust.read_bytes() + fresh.certificate)
    (trust.parent / "next").replace(trust)
    admin = await tenant.endpoint("admin")
    subject = authority.CertificateSubject(
        common_name="x", organizations=("tenancy:admins",), usages=frozenset({"client"})
    )
    leaf = authority.make_leaf(fresh, subject, lifetime=day, now=now)
    other = replace(admin, client_cert=leaf.certificate, client_key=leaf.key)
    async with Client(admin) as old, Client(other) as new:

        async def is_admitted():
            with contextlib.suppress(errors.Unauthorized):
                return (await who(new))["username"] == "x"
            return False

        await eventually(is_admitted, within=90)
        assert (await who(old))["username"] == "admin"
    assert not any(process.has_ended for process in tenant.processes)


@pytest.mark.parametrize(
    "tenant", ["short", pytest.param("newest", marks=pytest.mark.thorough)], indirect=True
)
async def test_open_watches_do_not_keep_a_stopped_api_server(tenant: HostTenant):
    """REL-167. The controller manager watches. The kubelet kills a pod 20 s after its deletion."""
    api_server = tenant.processes[1]
    await api_server.stop(patience=18)
    assert api_server.exit_code == 0, api_server.tail()
