"""Contexts: what they trust, what they demand, and that keys leave no trace."""

from __future__ import annotations

import os
import ssl
import tempfile
from pathlib import Path

import pytest
import trustme

from kubeio import tls
from kubeio.endpoint import Endpoint
from kubeio.errors import CredentialsProblem

CA = trustme.CA()
LEAF = CA.issue_cert("client.invalid", common_name="me")
CERT = LEAF.cert_chain_pems[0].bytes()
KEY = LEAF.private_key_pem.bytes()


def _open_files():
    return len(list(Path("/proc/self/fd").iterdir()))


def _endpoint(**fields):
    return Endpoint(**({"server": "https://x", "ca": CA.cert_pem.bytes()} | fields))


def test_chain_and_host_are_always_checked():
    made = tls.context(_endpoint(strict=False))
    assert made.verify_mode is ssl.CERT_REQUIRED
    assert made.check_hostname is True
    assert made.minimum_version is ssl.TLSVersion.TLSv1_2


@pytest.mark.parametrize("strict", [True, False])
def test_strictness_is_the_endpoints(strict):
    flags = tls.context(_endpoint(strict=strict)).verify_flags
    assert bool(flags & ssl.VERIFY_X509_STRICT) is strict


def test_only_the_given_authority_is_trusted():
    (only,) = tls.context(_endpoint()).get_ca_certs(binary_form=True)
    assert only == ssl.PEM_cert_to_DER_cert(CA.cert_pem.bytes().decode())


def test_without_an_authority_the_systems_are_trusted(monkeypatch):
    monkeypatch.setenv("SSL_CERT_FILE", "")
    with tempfile.NamedTemporaryFile() as bundle:
        bundle.write(CA.cert_pem.bytes())
        bundle.flush()
        monkeypatch.setenv("SSL_CERT_FILE", bundle.name)
        assert tls.context(_endpoint(ca=b"")).get_ca_certs()


@pytest.mark.parametrize("has_memfd", [True, False])
def test_a_client_key_leaves_nothing_on_the_disk(tmp_path, monkeypatch, has_memfd):
    if not has_memfd:
        monkeypatch.delattr(os, "memfd_create")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    open_before = _open_files()
    tls.context(_endpoint(client_cert=CERT, client_key=KEY))
    assert list(tmp_path.iterdir()) == []
    assert _open_files() == open_before


@pytest.mark.parametrize("ca", [b"not pem", b"\xff\xfe", b"-----BEGIN CERTIFICATE-----\nxx\n"])
def test_an_authority_that_is_not_pem_is_a_sentence(ca):
    with pytest.raises(CredentialsProblem, match="authority given for https://x is not PEM"):
        tls.context(_endpoint(ca=ca))


def test_a_key_of_another_certificate_is_a_sentence():
    other = CA.issue_cert("client.invalid").private_key_pem.bytes()
    with pytest.raises(CredentialsProblem, match="belong together"):
        tls.context(_endpoint(client_cert=CERT, client_key=other))


def test_an_encrypted_key_is_refused_and_asks_nobody():
    from cryptography.hazmat.primitives import serialization  # noqa: PLC0415 - only here

    key = serialization.load_pem_private_key(KEY, None)
    locked = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.BestAvailableEncryption(b"x"),
    )
    with pytest.raises(CredentialsProblem, match="must not be encrypted"):
        tls.context(_endpoint(client_cert=CERT, client_key=locked))
