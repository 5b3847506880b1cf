"""Requests of agents, with real accounts and tokens bound to real pods."""

import base64
import io
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from kubectl_vc.client.config_flags import ConfigFlags
from kubectl_vc.output.terminal import Terminal
from kubectl_vc.verbs import rotate_authorities
from kubectl_vc.verbs.rotate_authorities import RotateOptions
from kubeio import Object
from kubeio.api.client import Client
from kubeio.config.endpoint import Endpoint
from tenancy import resources, wellknown
from tests.integration.vcmanager.conftest import NAMESPACE, ManagerStage
from tests.support.account_tokens import request_account_token
from tests.support.eventually import eventually
from tests.support.names import fresh_name
from vcmanager.agents import authorities, csr_signer
from vcmanager.pki import authority, bundles
from vcmanager.runtime.keys import AGENT_TRUST_KEY, ReconcileKey

IP = "10.73.0.9"


@dataclass(frozen=True, kw_only=True)
class AgentCredential:
    """An agent pod and its credential."""

    stage: ManagerStage
    pod: Object

    async def client(self, *, account: str = "vn-agent", bound: bool = True) -> Client:
        """Return a client with a token of an account, bound to the pod or not."""
        token = await request_account_token(
            self.stage.admin, NAMESPACE, account, bound_to=self.pod if bound else None
        )
        plane = self.stage.plane
        return Client(Endpoint(server=plane.server, ca=plane.ca, token=token))

    async def submit(self, client: Client, address: str = IP) -> str:
        """Ask for a certificate. Return the request's name."""
        key = ec.generate_private_key(ec.SECP256R1())
        request = (
            x509.CertificateSigningRequestBuilder()
            .subject_name(x509.Name([]))
            .add_extension(
                x509.SubjectAlternativeName([x509.IPAddress(ip_address(address))]), critical=False
            )
            .sign(key, hashes.SHA256())
            .public_bytes(serialization.Encoding.PEM)
        )
        name = fresh_name("csr")
        body = {
            "metadata": {"name": name},
            "spec": {
                "signerName": wellknown.AGENT_SERVING_SIGNER,
                "usages": ["digital signature", "server auth"],
                "request": base64.b64encode(request).decode(),
            },
        }
        # Rights that were given a moment ago may not count yet.
        await eventually(lambda: client.create(resources.CERTIFICATE_SIGNING_REQUESTS, body))
        return name

    async def ask(self, client: Client, address: str = IP) -> Object:
        """Ask for a certificate and have the manager judge."""
        return await self.judged(await self.submit(client, address))

    async def judged(self, name: str) -> Object:
        """Have the manager judge a request. Return what became of it."""
        await csr_signer.reconcile_csr(
            self.stage.means, ReconcileKey("CertificateSigningRequest", "", name)
        )
        return await self.stage.admin.get(resources.CERTIFICATE_SIGNING_REQUESTS, name)


@pytest.fixture
async def agent(stage: ManagerStage) -> AsyncIterator[AgentCredential]:
    rbac = "rbac.authorization.k8s.io"
    for account in ("vn-agent", "other"):
        await stage.admin.apply(
            resources.SERVICE_ACCOUNTS,
            {
                "apiVersion": "v1",
                "kind": "ServiceAccount",
                "metadata": {"name": account, "namespace": NAMESPACE},
            },
            field_manager="test",
        )
    rule = {
        "apiGroups": ["certificates.k8s.io"],
        "resources": ["certificatesigningrequests"],
        "verbs": ["create"],
    }
    group = {"apiGroup": rbac, "kind": "Group", "name": f"system:serviceaccounts:{NAMESPACE}"}
    for resource, kind, more in (
        (resources.CLUSTER_ROLES, "ClusterRole", {"rules": [rule]}),
        (
            resources.CLUSTER_ROLE_BINDINGS,
            "ClusterRoleBinding",
            {
                "roleRef": {"apiGroup": rbac, "kind": "ClusterRole", "name": "ask"},
                "subjects": [group],
            },
        ),
    ):
        body = {"apiVersion": f"{rbac}/v1", "kind": kind, "metadata": {"name": "ask"}, **more}
        await stage.admin.apply(resource, body, field_manager="test")
    pod = await stage.admin.create(
        resources.PODS,
        {
            "metadata": {
                "name": fresh_name("vn-agent"),
                "namespace": NAMESPACE,
                "labels": {"app.kubernetes.io/name": "vn-agent"},
            },
            "spec": {
                "serviceAccountName": "vn-agent",
                "containers": [{"name": "vn-agent", "image": "x"}],
            },
        },
    )
    await stage.admin.patch(
        resources.PODS,
        pod["metadata"]["name"],
        {"status": {"phase": "Running", "podIP": IP, "podIPs": [{"ip": IP}]}},
        namespace=NAMESPACE,
        subresource="status",
    )
    yield AgentCredential(stage=stage, pod=pod)
    await stage.admin.delete(
        resources.PODS, pod["metadata"]["name"], namespace=NAMESPACE, grace_seconds=0
    )


def verdict(request: Object) -> str:
    return next(iter(request["status"].get("conditions") or [{"type": "none"}]))["type"]


async def test_the_living_agent_gets_its_certificate(agent: AgentCredential):
    async with await agent.client() as client:
        request = await agent.ask(client)
    assert verdict(request) == "Approved"
    made = x509.load_pem_x509_certificate(base64.b64decode(request["status"]["certificate"]))
    names = made.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.IPAddress) == [ip_address(IP)]
    secret = await agent.stage.admin.get(
        resources.SECRETS, "vn-agent-serving-ca", namespace=NAMESPACE
    )
    authority = bundles.read_key_pair(secret)
    assert authority is not None
    made.verify_directly_issued_by(x509.load_pem_x509_certificate(authority.certificate))


async def test_an_ended_authority_is_replaced_on_request_and_signs_what_waited(
    agent: AgentCredential, tmp_path: Path
):
    """REL-169."""
    stage, place = agent.stage, {"namespace": NAMESPACE}
    name = wellknown.AGENT_SERVING_AUTHORITY_SECRET
    await authorities.reconcile_agent_trust(stage.means, AGENT_TRUST_KEY)
    ended = authority.make_authority(name, now=datetime.now(UTC) - timedelta(days=4000))
    data = bundles.build_key_pair_secret(name, NAMESPACE, ended)["data"]
    await stage.admin.patch(resources.SECRETS, name, {"data": data}, **place)
    async with await agent.client() as client:
        waiting = await agent.ask(client)
    assert verdict(waiting) == "Approved"
    assert "certificate" not in waiting["status"]

    await authorities.reconcile_agent_trust(stage.means, AGENT_TRUST_KEY)
    kept = await stage.admin.get(resources.SECRETS, name, **place)
    assert kept["data"] == data
    out = io.StringIO()
    kubeconfig = tmp_path / "super.kubeconfig"
    kubeconfig.write_bytes(stage.plane.kubeconfig())
    await rotate_authorities.run_rotate(
        ConfigFlags(kubeconfig=str(kubeconfig)),
        Terminal(out, io.StringIO()),
        RotateOptions(
            name="",
            authorities=(wellknown.AGENT_SERVING_AUTHORITY,),
            force_drop="",
            manager_namespace=NAMESPACE,
        ),
    )
    assert "rotation of agent-serving" in out.getvalue()
    for _ in range(2):  # the Secret is watched, so its change queues the key again
        await authorities.reconcile_agent_trust(stage.means, AGENT_TRUST_KEY)
    signed = await agent.judged(waiting["metadata"]["name"])
    trust = await stage.admin.get(resources.CONFIG_MAPS, wellknown.AGENT_CLIENT_TRUST, **place)
    x509.load_pem_x509_certificate(
        base64.b64decode(signed["status"]["certificate"])
    ).verify_directly_issued_by(
        x509.load_pem_x509_certificate(trust["data"]["serving-ca.crt"].encode())
    )


async def test_another_address_is_denied_with_a_reason(agent: AgentCredential):
    async with await agent.client() as client:
        request = await agent.ask(client, "10.73.0.10")
    assert verdict(request) == "Denied"
    assert "only the addresses of the agent pod" in request["status"]["conditions"][0]["message"]
    assert "certificate" not in request["status"]


async def test_a_token_that_is_bound_to_no_pod_is_denied(agent: AgentCredential):
    async with await agent.client(bound=False) as client:
        request = await agent.ask(client)
    assert verdict(request) == "Denied"


async def test_another_account_is_denied(agent: AgentCredential):
    async with await agent.client(account="other", bound=False) as client:
        request = await agent.ask(client)
    assert verdict(request) == "Denied"


async def test_even_the_super_admin_is_denied(agent: AgentCredential):
    request = await agent.ask(agent.stage.admin)
    assert verdict(request) == "Denied"


async def test_a_pod_that_is_no_longer_there_is_denied(agent: AgentCredential):
    async with await agent.client() as client:
        await agent.stage.admin.patch(
            resources.PODS,
            agent.pod["metadata"]["name"],
            {"metadata": {"labels": {"app.kubernetes.io/name": "something-else"}}},
            namespace=NAMESPACE,
        )
        request = await agent.ask(client)
    assert verdict(request) == "Denied"


async def test_what_was_approved_by_hand_and_may_not_be_signed_has_failed(agent: AgentCredential):
    async with await agent.client() as client:
        name = await agent.submit(client, "10.73.0.10")
    admin = agent.stage.admin
    request = await admin.get(resources.CERTIFICATE_SIGNING_REQUESTS, name)
    approved = {"type": "Approved", "status": "True", "reason": "ByHand", "message": "by hand"}
    await admin.replace(
        resources.CERTIFICATE_SIGNING_REQUESTS,
        {**request, "status": {"conditions": [approved]}},
        subresource="approval",
        field_manager="test",
    )
    judged = await agent.judged(name)
    conditions = {each["type"]: each for each in judged["status"]["conditions"]}
    assert set(conditions) == {"Approved", "Failed"}
    assert "address" in conditions["Failed"]["message"]
    assert "certificate" not in judged["status"]
    again = await agent.judged(name)
    assert again["metadata"]["resourceVersion"] == judged["metadata"]["resourceVersion"]


async def test_a_request_is_judged_once(agent: AgentCredential):
    async with await agent.client() as client:
        request = await agent.ask(client)
    again = await agent.judged(request["metadata"]["name"])
    assert again["metadata"]["resourceVersion"] == request["metadata"]["resourceVersion"]
