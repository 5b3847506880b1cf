import ssl
import subprocess
from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import load_pem_private_key, load_pem_public_key
from cryptography.x509.oid import ExtensionOID

from tests.support.vcmanager.factories import FACTS, NOW
from vcmanager.pki import authority, inventory
from vcmanager.pki.authority import CertificateSubject, KeyPair

DAY = timedelta(days=1)


def certificate(pair: KeyPair) -> x509.Certificate:
    return x509.load_pem_x509_certificate(pair.certificate)


@pytest.fixture(scope="module")
def issuer() -> KeyPair:
    return authority.make_authority("test authority", now=NOW)


def test_an_authority_signs_certificates_and_no_further_authority(issuer: KeyPair):
    made = certificate(issuer)
    constraints = made.extensions.get_extension_for_class(x509.BasicConstraints)
    assert constraints.critical
    assert (constraints.value.ca, constraints.value.path_length) == (True, 0)
    usage = made.extensions.get_extension_for_class(x509.KeyUsage)
    assert usage.critical
    assert usage.value.key_cert_sign
    assert made.not_valid_after_utc - NOW > timedelta(days=3650)
    assert isinstance(made.public_key(), ec.EllipticCurvePublicKey)


def test_a_leaf_reports_who_it_is_and_what_for(issuer: KeyPair):
    subject = CertificateSubject(
        common_name="kube-apiserver",
        organizations=("a", "b"),
        dns_names=("kubernetes", "kubernetes.default.svc"),
        addresses=("10.96.4.1", "fd00::1"),
        uris=("vc://uid/root",),
        usages=frozenset({"server", "client"}),
    )
    made = certificate(authority.make_leaf(issuer, subject, lifetime=90 * DAY, now=NOW))
    oids = {extension.oid for extension in made.extensions}
    assert oids == {
        ExtensionOID.BASIC_CONSTRAINTS,
        ExtensionOID.KEY_USAGE,
        ExtensionOID.EXTENDED_KEY_USAGE,
        ExtensionOID.SUBJECT_KEY_IDENTIFIER,
        ExtensionOID.AUTHORITY_KEY_IDENTIFIER,
        ExtensionOID.SUBJECT_ALTERNATIVE_NAME,
    }
    assert not made.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    assert made.not_valid_after_utc == NOW + 90 * DAY
    assert made.not_valid_before_utc == NOW - authority.CLOCK_SKEW
    assert made.subject.rfc4514_string() == "CN=kube-apiserver,O=b,O=a"
    made.verify_directly_issued_by(certificate(issuer))


def test_a_leaf_never_outlives_its_authority(issuer: KeyPair):
    subject = CertificateSubject(common_name="x", usages=frozenset({"client"}))
    made = authority.make_leaf(issuer, subject, lifetime=timedelta(days=36500), now=NOW)
    assert certificate(made).not_valid_after_utc == certificate(issuer).not_valid_after_utc


def test_serial_numbers_and_keys_are_never_equal(issuer: KeyPair):
    subject = CertificateSubject(common_name="x", usages=frozenset({"client"}))
    made = [authority.make_leaf(issuer, subject, lifetime=DAY, now=NOW) for _ in range(3)]
    assert len({certificate(each).serial_number for each in made}) == 3
    assert len({each.key for each in made}) == 3


def test_service_account_keys_belong_together():
    pair = authority.make_service_account_keys()
    private = load_pem_private_key(pair.key, password=None)
    assert private.public_key() == load_pem_public_key(pair.certificate)


def test_keys_are_not_shown(issuer: KeyPair):
    assert "PRIVATE" not in repr(issuer)


def handshake(
    server: KeyPair, roots: KeyPair, name: str, client: KeyPair | None = None, tmp_path=None
):
    """Shake hands in memory, verified to the letter of RFC 5280 on both sides."""
    contexts = []
    for purpose, pair in ((ssl.PROTOCOL_TLS_SERVER, server), (ssl.PROTOCOL_TLS_CLIENT, client)):
        context = ssl.SSLContext(purpose)
        context.verify_flags |= ssl.VERIFY_X509_STRICT
        context.load_verify_locations(cadata=roots.certificate.decode())
        if pair is not None:
            file = tmp_path / f"{purpose.name}.pem"
            file.write_bytes(pair.certificate + pair.key)
            context.load_cert_chain(file)
        contexts.append(context)
    serving, calling = contexts
    serving.verify_mode = ssl.CERT_REQUIRED if client is not None else ssl.CERT_NONE
    up, down = ssl.MemoryBIO(), ssl.MemoryBIO()
    sides = [
        serving.wrap_bio(up, down, server_side=True),
        calling.wrap_bio(down, up, server_hostname=name),
    ]
    waiting = set(sides)
    for _ in range(10):
        for side in list(waiting):
            try:
                side.do_handshake()
                waiting.discard(side)
            except ssl.SSLWantReadError:
                continue
    assert not waiting


@pytest.fixture(scope="module")
def present(issuer: KeyPair):
    """Today's authority: OpenSSL compares with the real clock."""
    now = datetime.now(UTC)
    return authority.make_authority("test authority", now=now), now


def test_openssl_accepts_server_and_client_strictly(present, tmp_path):
    roots, now = present
    subject = {leaf.secret: leaf.subject for leaf in inventory.list_leaves(FACTS)}
    server = authority.make_leaf(roots, subject["apiserver-ca"], lifetime=DAY, now=now)
    client = authority.make_leaf(roots, subject["front-proxy-ca"], lifetime=DAY, now=now)
    for name in ("kubernetes.default.svc", "10.96.4.1", "127.0.0.1", "vc.example.org"):
        handshake(server, roots, name, client, tmp_path)


def test_openssl_refuses_another_name(present, tmp_path):
    roots, now = present
    subject = CertificateSubject(common_name="a", dns_names=("a",), usages=frozenset({"server"}))
    server = authority.make_leaf(roots, subject, lifetime=DAY, now=now)
    with pytest.raises(ssl.SSLCertVerificationError, match="Hostname mismatch"):
        handshake(server, roots, "b", tmp_path=tmp_path)


def test_openssl_refuses_a_client_certificate_as_a_server(present, tmp_path):
    roots, now = present
    subject = CertificateSubject(common_name="a", dns_names=("a",), usages=frozenset({"client"}))
    server = authority.make_leaf(roots, subject, lifetime=DAY, now=now)
    with pytest.raises(ssl.SSLCertVerificationError, match="unsuitable certificate purpose"):
        handshake(server, roots, "a", tmp_path=tmp_path)


def test_openssl_verifies_the_chain_on_the_command_line(present, tmp_path):
    roots, now = present
    (tmp_path / "ca.pem").write_bytes(roots.certificate)
    for leaf in inventory.list_leaves(FACTS):
        pair = authority.make_leaf(roots, leaf.subject, lifetime=DAY, now=now)
        (tmp_path / "leaf.pem").write_bytes(pair.certificate)
        done = subprocess.run(
            ["openssl", "verify", "-x509_strict", "-CAfile", "ca.pem", "leaf.pem"],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
