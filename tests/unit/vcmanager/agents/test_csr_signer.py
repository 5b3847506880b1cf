import base64
from datetime import timedelta
from ipaddress import ip_address

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import NameOID

from kubeio.controller.worker import RequeueAfter
from tenancy import wellknown
from tests.support.vcmanager.factories import NOW, RecordingClient, fake_means
from vcmanager.agents import csr_signer
from vcmanager.agents.csr_signer import CsrApproval, CsrDenial, CsrPending
from vcmanager.pki import authority, bundles
from vcmanager.runtime.keys import ReconcileKey

KEY = ec.generate_private_key(ec.SECP256R1())
ACCOUNT = "system:serviceaccount:vc-manager:vn-agent"
IP = "10.73.0.9"


def csr(*names, key=KEY, common_name="whoever") -> bytes:
    builder = x509.CertificateSigningRequestBuilder().subject_name(
        x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])
    )
    if names:
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
    return builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


def address(text: str) -> x509.IPAddress:
    return x509.IPAddress(ip_address(text))


def request(body: bytes | None = None, **spec):
    return {
        "metadata": {"name": "r"},
        "spec": {
            "username": ACCOUNT,
            "extra": {
                csr_signer.POD_NAME_EXTRA: ["vn-agent-x"],
                csr_signer.POD_UID_EXTRA: ["pod-uid"],
            },
            "usages": ["digital signature", "server auth"],
            "request": base64.b64encode(body or csr(address(IP))).decode(),
            **spec,
        },
    }


def pod(*, metadata=None, spec=None, status=None):
    return {
        "metadata": {
            "name": "vn-agent-x",
            "uid": "pod-uid",
            "labels": {"app.kubernetes.io/name": "vn-agent"},
            **(metadata or {}),
        },
        "spec": {"serviceAccountName": "vn-agent", **(spec or {})},
        "status": {"phase": "Running", "podIPs": [{"ip": IP}], **(status or {})},
    }


def test_the_live_agent_gets_a_certificate_for_its_own_address():
    assert csr_signer.decide_request(request(), pod()) == CsrApproval((IP,), timedelta(hours=24))


@pytest.mark.parametrize(
    "user",
    [
        "system:serviceaccount:default:vn-agent",
        "system:serviceaccount:vc-manager:vc-syncer",
        "admin",
        "",
    ],
)
def test_only_the_agents_account_may_ask(user):
    assert isinstance(
        csr_signer.get_requesting_pod(request(username=user), "vc-manager"), CsrDenial
    )


@pytest.mark.parametrize(
    "extra", [{}, {csr_signer.POD_NAME_EXTRA: []}, {csr_signer.POD_NAME_EXTRA: ["a", "b"]}]
)
def test_a_token_that_is_bound_to_no_pod_is_refused(extra):
    assert isinstance(csr_signer.get_requesting_pod(request(extra=extra), "vc-manager"), CsrDenial)


def test_the_pod_is_the_one_that_the_token_names():
    assert csr_signer.get_requesting_pod(request(), "vc-manager") == "vn-agent-x"


@pytest.mark.parametrize(
    "found",
    [
        None,
        pod(metadata={"uid": "a newer pod of that name"}),
        pod(metadata={"labels": {}}),
        pod(metadata={"labels": {"app.kubernetes.io/name": "other"}}),
        pod(metadata={"deletionTimestamp": "now"}),
        pod(spec={"serviceAccountName": "default"}),
        pod(status={"phase": "Failed"}),
        pod(status={"phase": "Succeeded"}),
        pod(status={"podIPs": [{"ip": "10.73.0.10"}]}),
    ],
)
def test_a_pod_that_is_not_the_living_agent_is_refused(found):
    assert isinstance(csr_signer.decide_request(request(), found), CsrDenial)


TARGETS = "system:serviceaccount:vc-manager:vn-agent-target"


def test_the_agent_of_a_target_gets_one_by_an_account_of_its_own():
    labelled = {"labels": {"app.kubernetes.io/name": "vn-agent-target"}}
    served = pod(metadata=labelled, spec={"serviceAccountName": "vn-agent-target"})
    asked = request(username=TARGETS)
    assert csr_signer.get_requesting_pod(asked, "vc-manager") == "vn-agent-x"
    assert csr_signer.decide_request(asked, served) == CsrApproval((IP,), timedelta(hours=24))
    for odd in (
        pod(),
        pod(metadata=labelled),
        pod(spec={"serviceAccountName": "vn-agent-target"}),
    ):
        assert isinstance(csr_signer.decide_request(asked, odd), CsrDenial)
    assert isinstance(csr_signer.decide_request(request(), served), CsrDenial)
    other = pod(
        metadata={"labels": {"app.kubernetes.io/name": "x"}}, spec={"serviceAccountName": "x"}
    )
    assert isinstance(csr_signer.decide_request(request(username="a:b:x"), other), CsrDenial)


@pytest.mark.parametrize("status", [{"podIPs": []}, {"podIPs": None}])
def test_an_agent_whose_address_is_not_reported_yet_is_judged_later(status):
    assert csr_signer.decide_request(request(), pod(status=status)) == CsrPending()
    assert isinstance(
        csr_signer.decide_request(request(usages=["client auth"]), pod(status=status)), CsrDenial
    )
    ended = pod(status={**status, "phase": "Failed"})
    assert isinstance(csr_signer.decide_request(request(), ended), CsrDenial)


async def test_a_request_that_is_judged_later_is_looked_at_again_and_not_denied():
    found = request(signerName=wellknown.AGENT_SERVING_SIGNER)
    super_client = RecordingClient({"r": found, "vn-agent-x": pod(status={"podIPs": []})})
    means = fake_means(super_client)
    key = ReconcileKey("CertificateSigningRequest", "", "r")
    assert await csr_signer.reconcile_csr(means, key) == RequeueAfter(1.0)
    assert super_client.calls == []


async def test_a_request_waits_while_the_authority_has_ended():
    """REL-169: no certificate can be issued then, and the agent keeps its request."""
    ended = authority.make_authority("ended", now=NOW - timedelta(days=4000))
    super_client = RecordingClient(
        {"r": request(signerName=wellknown.AGENT_SERVING_SIGNER), "vn-agent-x": pod()}
    )
    for name in wellknown.SHARED_AUTHORITIES.values():
        secret = bundles.build_key_pair_secret(name, "vc-manager", ended)
        super_client.objects[name] = secret
    key = ReconcileKey("CertificateSigningRequest", "", "r")
    super_client.objects["r"]["status"] = {"conditions": [{"type": "Approved"}]}
    assert await csr_signer.reconcile_csr(fake_means(super_client), key) == RequeueAfter(30.0)
    assert ("replace", "r") not in super_client.calls


@pytest.mark.parametrize(
    "names",
    [
        (),
        (address("10.73.0.10"),),
        (address(IP), address("10.73.0.10")),
        (address(IP), x509.DNSName("kubernetes")),
        (x509.DNSName(IP),),
        (address(IP), x509.UniformResourceIdentifier("vc://uid/root")),
        (address(IP), x509.RFC822Name("a@example.org")),
    ],
)
def test_any_name_but_the_pods_own_address_is_refused(names):
    assert isinstance(csr_signer.decide_request(request(csr(*names)), pod()), CsrDenial)


@pytest.mark.parametrize(
    "usages",
    [
        [],
        ["client auth"],
        ["server auth", "client auth"],
        ["digital signature"],
        ["server auth", "cert sign"],
    ],
)
def test_any_use_but_serving_is_refused(usages):
    assert isinstance(csr_signer.decide_request(request(usages=usages), pod()), CsrDenial)


def test_what_is_no_request_is_refused():
    for body in (
        b"nonsense",
        b"-----BEGIN CERTIFICATE REQUEST-----\nAAAA\n-----END CERTIFICATE REQUEST-----\n",
    ):
        assert isinstance(csr_signer.decide_request(request(body), pod()), CsrDenial)
    assert isinstance(csr_signer.decide_request(request(request="%%%"), pod()), CsrDenial)


def test_a_weak_key_is_refused():
    weak = rsa.generate_private_key(public_exponent=65537, key_size=1024)  # noqa: S505 - weak on purpose
    assert isinstance(
        csr_signer.decide_request(request(csr(address(IP), key=weak)), pod()), CsrDenial
    )


@pytest.mark.parametrize(
    ("seconds", "hours"), [(None, 24), (3600, 1), (86400, 24), (86400 * 90, 24)]
)
def test_no_certificate_lives_longer_than_a_day(seconds, hours):
    """SEC-233."""
    more = {} if seconds is None else {"expirationSeconds": seconds}
    assert csr_signer.decide_request(request(**more), pod()).lifetime == timedelta(hours=hours)


def test_both_addresses_of_a_pod_are_its_own():
    both = [{"ip": IP}, {"ip": "fd00::9"}]
    body = csr(address(IP), address("fd00:0::9"))
    assert csr_signer.decide_request(request(body), pod(status={"podIPs": both})).addresses == (
        IP,
        "fd00::9",
    )
