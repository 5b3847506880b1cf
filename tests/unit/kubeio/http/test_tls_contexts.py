"""Contexts: what they trust, what they demand, and that keys leave no trace."""

from __future__ import annotations

import contextlib
import os
import ssl
import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import trustme
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from kubeio.config.endpoint import Endpoint
from kubeio.errors import CredentialsError
from kubeio.http import tls_contexts

CA = trustme.CA()
LEAF = CA.issue_cert("client.invalid", common_name="me")
CERT = LEAF.cert_chain_pems[0].bytes()
KEY = LEAF.private_key_pem.bytes()


def _open_files():
    return len(list(Path("/proc/self/fd").iterdir()))


def _endpoint(**fields):
    return Endpoint(**({"server": "https://x", "ca": CA.cert_pem.bytes()} | fields))


def test_chain_and_host_are_always_checked():
    made = tls_contexts.create_context(_endpoint(strict=False))
    assert made.verify_mode is ssl.CERT_REQUIRED
    assert made.check_hostname is True
    assert made.minimum_version is ssl.TLSVersion.TLSv1_2


@pytest.mark.parametrize("strict", [True, False])
def test_strictness_is_the_endpoints(strict):
    flags = tls_contexts.create_context(_endpoint(strict=strict)).verify_flags
    assert bool(flags & ssl.VERIFY_X509_STRICT) is strict


def _loose_chain():
    """An authority and a server of the kind that old installers made: no key identifiers."""
    now = datetime.now(UTC)

    def build(subject, issuer, key, signer, extension):
        name = [x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, n)]) for n in (subject, issuer)]
        return (
            x509.CertificateBuilder()
            .subject_name(name[0])
            .issuer_name(name[1])
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(days=1))
            .not_valid_after(now + timedelta(days=1))
            .add_extension(extension, critical=isinstance(extension, x509.BasicConstraints))
            .sign(signer, hashes.SHA256())
        )

    ca_key, key = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    ca = build("ca", "ca", ca_key, ca_key, x509.BasicConstraints(ca=True, path_length=None))
    leaf = build("x", "ca", key, ca_key, x509.SubjectAlternativeName([x509.DNSName("x")]))
    pem = serialization.Encoding.PEM
    private = key.private_bytes(
        pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return ca.public_bytes(pem), leaf.public_bytes(pem) + private


def _shake_hands(client, server, name):
    """Let two contexts talk in memory."""
    up, down = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = [
        client.wrap_bio(down, up, server_hostname=name),
        server.wrap_bio(up, down, server_side=True),
    ]
    for _ in range(4):
        for end in ends:
            with contextlib.suppress(ssl.SSLWantReadError):
                end.do_handshake()
    return ends[0].version()


@pytest.mark.parametrize("strict", [True, False])
def test_old_authorities_pass_where_the_endpoint_reports_it_and_names_still_count(tmp_path, strict):
    ca, pair = _loose_chain()
    (tmp_path / "pair").write_bytes(pair)
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(tmp_path / "pair")
    client = tls_contexts.create_context(_endpoint(ca=ca, strict=strict))
    if strict:
        with pytest.raises(ssl.SSLCertVerificationError, match="Missing"):
            _shake_hands(client, server, "x")
        return
    assert _shake_hands(client, server, "x") == "TLSv1.3"
    with pytest.raises(ssl.SSLCertVerificationError, match="Hostname mismatch"):
        _shake_hands(client, server, "y")


def test_only_the_given_authority_is_trusted():
    (only,) = tls_contexts.create_context(_endpoint()).get_ca_certs(binary_form=True)
    assert only == ssl.PEM_cert_to_DER_cert(CA.cert_pem.bytes().decode())


def test_without_an_authority_the_systems_are_trusted(monkeypatch):
    monkeypatch.setenv("SSL_CERT_FILE", "")
    with tempfile.NamedTemporaryFile() as bundle:
        bundle.write(CA.cert_pem.bytes())
        bundle.flush()
        monkeypatch.setenv("SSL_CERT_FILE", bundle.name)
        assert tls_contexts.create_context(_endpoint(ca=b"")).get_ca_certs()


@pytest.mark.parametrize("has_memfd", [True, False])
def test_a_client_key_leaves_nothing_on_the_disk(tmp_path, monkeypatch, has_memfd):
    if not has_memfd:
        monkeypatch.delattr(os, "memfd_create")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    open_before = _open_files()
    tls_contexts.create_context(_endpoint(client_cert=CERT, client_key=KEY))
    assert list(tmp_path.iterdir()) == []
    assert _open_files() == open_before


@pytest.mark.parametrize("ca", [b"not pem", b"\xff\xfe", b"-----BEGIN CERTIFICATE-----\nxx\n"])
def test_an_authority_that_is_not_pem_is_a_sentence(ca):
    with pytest.raises(CredentialsError, match="authority given for https://x is not PEM"):
        tls_contexts.create_context(_endpoint(ca=ca))


def test_a_key_of_another_certificate_is_a_sentence():
    other = CA.issue_cert("client.invalid").private_key_pem.bytes()
    with pytest.raises(CredentialsError, match="belong together"):
        tls_contexts.create_context(_endpoint(client_cert=CERT, client_key=other))


def test_an_encrypted_key_is_refused_and_sends_no_request():
    key = serialization.load_pem_private_key(KEY, None)
    locked = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.BestAvailableEncryption(b"x"),
    )
    with pytest.raises(CredentialsError, match="must not be encrypted"):
        tls_contexts.create_context(_endpoint(client_cert=CERT, client_key=locked))
