"""The serving certificate: what is asked, what is taken, when it is renewed."""

import asyncio
import base64
import contextlib
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address

import pytest
import trustme
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from tenancy.resources import CERTIFICATE_SIGNING_REQUESTS
from tests.support import tls_sockets
from tests.support.memapi import clusters, verbs
from tests.support.memapi.api import ApiRequest
from tests.support.memapi.refusals import StatusError
from tests.support.memapi.served import Served
from tests.support.vnagent import certificates
from vnagent.client.https_client import HttpsClient, ServerAddress
from vnagent.server import serving_certificate
from vnagent.server.serving_certificate import (
    AgentPod,
    CertificateNotIssuedError,
    ServingCertificate,
    ServingKeyPair,
)
from vnagent.stream.file_watch import WatchedFile
from vnagent.stream.receive_buffer import ReceiveBuffer

POD = AgentPod(name="vn-agent-x7k2p", address="10.244.1.9")
LIFE = timedelta(hours=24)


def sign(request_pem: bytes, *, address: str = "", life: timedelta = LIFE) -> bytes:
    """Do the signer's work: a certificate for the request's key."""
    authority = certificates.make_authority("vn-agent-serving")
    request = x509.load_pem_x509_csr(request_pem)
    names = request.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    if address:
        names = x509.SubjectAlternativeName([x509.IPAddress(ip_address(address))])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(request.subject)
        .issuer_name(authority.certificate.subject)
        .public_key(request.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now)
        .not_valid_after(now + life)
        .add_extension(names, critical=False)
        .sign(authority.key, hashes.SHA256())
    )
    return certificate.public_bytes(serialization.Encoding.PEM)


def test_a_request_reports_who_we_are_and_nothing_more():
    """The signer compares: one IP, our own."""
    key, request_pem = serving_certificate.build_signing_request(POD)
    request = x509.load_pem_x509_csr(request_pem)
    assert request.is_signature_valid
    assert request.subject.rfc4514_string() == "CN=vn-agent"
    (extension,) = request.extensions
    assert list(extension.value) == [x509.IPAddress(ip_address(POD.address))]
    private = serialization.load_pem_private_key(key, None)
    assert isinstance(private, ec.EllipticCurvePrivateKey)
    assert private.public_key() == request.public_key()
    assert serving_certificate.build_signing_request(POD)[0] != key


def test_the_manifest_names_the_signer():
    """The request names the usages and the longest lifetime."""
    wanted = serving_certificate.build_csr(POD, b"request")
    assert wanted["metadata"]["name"].startswith("vn-agent-x7k2p-")
    assert wanted["spec"] == {
        "request": base64.b64encode(b"request").decode(),
        "signerName": "tenancy.x-k8s.io/vn-agent-serving",
        "expirationSeconds": 24 * 3600,
        "usages": ["digital signature", "server auth"],
    }


def test_an_answer_is_awaited_taken_or_refused():
    """Approval alone is no certificate yet."""
    assert serving_certificate.read_issued_certificate({}) is None
    assert (
        serving_certificate.read_issued_certificate(
            {"status": {"conditions": [{"type": "Approved"}]}}
        )
        is None
    )
    assert (
        serving_certificate.read_issued_certificate(
            {"status": {"certificate": base64.b64encode(b"pem").decode()}}
        )
        == b"pem"
    )
    for kind in ("Denied", "Failed"):
        condition = {"type": kind, "reason": "WrongAddress", "message": "not your IP"}
        with pytest.raises(CertificateNotIssuedError, match="WrongAddress: not your IP"):
            serving_certificate.read_issued_certificate(
                {"status": {"conditions": [condition], "certificate": "eA=="}}
            )


def test_renewal_is_at_two_thirds():
    """The renewal follows the lifetime that the signer chose, not the requested one."""
    key, request = serving_certificate.build_signing_request(POD)
    certificate = sign(request, life=timedelta(days=30))
    began = x509.load_pem_x509_certificate(certificate).not_valid_before_utc
    assert serving_certificate.compute_renewal(certificate, key, POD) == began + timedelta(days=15)


def test_a_certificate_for_another_owner_is_not_used():
    """Tenants would refuse it, and no one would know why."""
    key, request = serving_certificate.build_signing_request(POD)
    for odd in (sign(request, address="10.0.0.1"), b"", b"-----BEGIN CERTIFICATE-----\n"):
        with pytest.raises(CertificateNotIssuedError):
            serving_certificate.compute_renewal(odd, key, POD)
    _, of_another_key = serving_certificate.build_signing_request(POD)
    with pytest.raises(CertificateNotIssuedError, match="for another key"):
        serving_certificate.compute_renewal(sign(of_another_key), key, POD)


class SigningApi(Served):
    """An API server, and the signer's decision on the newest request after a few looks."""

    def __init__(self) -> None:
        super().__init__(clusters.fresh("super", "10.96.0.0/16", accounts=False), self._refused)
        self.refuse = 0
        self.looks_before_issue = 2
        self.deny = False
        self.life = LIFE

    def _refused(self, request: ApiRequest) -> StatusError | None:
        if request.method == "GET":
            self._judge(request.target.rpartition("/")[2])
        elif self.refuse:
            self.refuse -= 1
            return StatusError(403, "Forbidden", "may not create")
        return None

    def _judge(self, name: str) -> None:
        collection = self.cluster.of(CERTIFICATE_SIGNING_REQUESTS)
        found = verbs.found(collection, "", name)
        if self.looks_before_issue:
            self.looks_before_issue -= 1
            return
        if self.deny:
            self.deny = False
            condition = {"type": "Denied", "reason": "No", "message": "not you"}
            status: dict = {"conditions": [condition]}
        else:
            wanted = base64.b64decode(found.decode()["spec"]["request"])
            signed = sign(wanted, life=self.life)
            status = {"certificate": base64.b64encode(signed).decode()}
        verbs.patch(collection, found, lambda body: {**body, "status": status}, {}, "signer")

    @property
    def posted(self) -> list[dict]:
        """The requests that were made, in their order."""
        made = self.cluster.of(CERTIFICATE_SIGNING_REQUESTS).all()
        return [stored.decode() for stored in made]


@contextlib.asynccontextmanager
async def keeping(api: SigningApi, folder, monkeypatch):
    """Run the keeper against an API. Yields a queue of what it hands over."""
    monkeypatch.setattr(serving_certificate, "POLL_INTERVALS_SECONDS", (0.01,))
    monkeypatch.setattr(serving_certificate, "RETRY_INTERVALS_SECONDS", (0.01,))
    authority = trustme.CA()
    files = [WatchedFile(folder / name) for name in ("ca.crt", "token")]
    files[0].path.write_bytes(authority.cert_pem.bytes())
    files[1].path.write_bytes(b"bound-token")
    for file in files:
        await file.refresh()
    async with api.running(tls=tls_sockets.server_context(authority, "127.0.0.1")):
        origin = HttpsClient(
            ServerAddress("127.0.0.1", api.port, "127.0.0.1"),
            authorities=files[0],
            token=files[1],
            buffer=ReceiveBuffer(),
        )
        used: asyncio.Queue[ServingKeyPair] = asyncio.Queue()
        keeper = asyncio.ensure_future(ServingCertificate(origin, POD).run(used.put_nowait))
        try:
            async with asyncio.timeout(tls_sockets.PATIENCE_SECONDS):
                yield used
        finally:
            keeper.cancel()
            await asyncio.gather(keeper, return_exceptions=True)


def fits(credential: ServingKeyPair) -> bool:
    """Return whether certificate and key belong together."""
    certificate = x509.load_pem_x509_certificate(credential.certificate)
    private = serialization.load_pem_private_key(credential.key, None)
    return private.public_key() == certificate.public_key()


async def test_a_certificate_is_asked_for_and_used(tmp_path, monkeypatch):
    """Posted once, looked at until it is there."""
    api = SigningApi()
    async with keeping(api, tmp_path, monkeypatch) as used:
        assert fits(await used.get())
    assert len(api.posted) == 1
    assert {request.authorization for request in api.requests} == {"Bearer bound-token"}
    first = api.requests[0]
    assert (first.method, first.target) == (
        "POST",
        "/apis/certificates.k8s.io/v1/certificatesigningrequests",
    )


async def test_refusals_do_not_end_the_asking(tmp_path, monkeypatch):
    """A right that comes later, a denial, and then a certificate with a key of its own."""
    api = SigningApi()
    api.refuse, api.deny = 2, True
    async with keeping(api, tmp_path, monkeypatch) as used:
        assert fits(await used.get())
    first, second = (posted["spec"]["request"] for posted in api.posted)
    assert first != second


async def test_a_certificate_is_renewed_in_time(tmp_path, monkeypatch):
    """REL-55: another key each time, and nothing is asked for before two thirds are over."""
    api = SigningApi()
    api.life = timedelta(seconds=3)
    async with keeping(api, tmp_path, monkeypatch) as used:
        first = await used.get()
        second = await used.get()
        due = serving_certificate.compute_renewal(first.certificate, first.key, POD)
        assert datetime.now(UTC) >= due
    assert fits(second)
    assert second.key != first.key


def test_credentials_are_never_shown():
    """Not even by accident."""
    assert "secret" not in repr(ServingKeyPair(b"certificate", b"secret"))
