import base64
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from vcmanager.pki import authority, requests
from vcmanager.pki.requests import InvalidCsrError, RequestedNames

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
SHA256 = hashes.SHA256()
KEY = ec.generate_private_key(ec.SECP256R1())


def csr(*names, key=KEY, digest=SHA256, extension=None):
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "admin")])
    builder = x509.CertificateSigningRequestBuilder().subject_name(subject)
    if names:
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
    if extension is not None:
        builder = builder.add_extension(extension, critical=True)
    return builder.sign(key, digest).public_bytes(serialization.Encoding.PEM)


def address(text):
    return x509.IPAddress(ip_address(text))


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        ((), RequestedNames((), 0)),
        ((address("10.73.0.9"),), RequestedNames(("10.73.0.9",), 0)),
        ((address("fd00::1"), x509.DNSName("web")), RequestedNames(("fd00::1",), 1)),
        ((x509.DNSName("a"), x509.RFC822Name("a@example.com")), RequestedNames((), 2)),
    ],
    ids=["none", "an address", "an address and a name", "names alone"],
)
def test_names_of_a_request(names, expected):
    assert requests.read_names(csr(*names)) == expected


def forge(request):
    """Return a request whose signature is of another subject."""
    lines = request.splitlines()
    content = base64.b64decode(b"".join(lines[1:-1])).replace(b"admin", b"other")
    return b"\n".join([lines[0], base64.b64encode(content), lines[-1], b""])


@pytest.mark.parametrize(
    ("request_text", "problem"),
    [
        (b"", "cannot be read"),
        (b"-----BEGIN CERTIFICATE REQUEST-----\nAAAA\n-----END CERTIFICATE REQUEST-----\n", "read"),
        (forge(csr(address("10.73.0.9"))), "not signed by its own key"),
        (csr(key=rsa.generate_private_key(65537, 1024)), "2048 bits"),  # noqa: S505 - refused
        (csr(key=ed25519.Ed25519PrivateKey.generate(), digest=None), "at least 2048 bits"),
    ],
    ids=["empty", "no request in it", "forged", "a short RSA key", "another algorithm"],
)
def test_request_is_refused(request_text, problem):
    with pytest.raises(InvalidCsrError, match=problem):
        requests.read_names(request_text)


def test_certificate_has_the_checked_names_alone():
    issuer = authority.make_authority("test", now=NOW)
    asked = csr(
        address("10.73.0.9"),
        x509.DNSName("kubernetes"),
        extension=x509.BasicConstraints(ca=True, path_length=None),
    )
    signed = requests.sign_request(
        issuer,
        asked,
        common_name="system:node",
        addresses=["10.73.0.9"],
        lifetime=timedelta(days=1),
        now=NOW,
    )
    made = x509.load_pem_x509_certificate(signed)
    names = made.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert list(names) == [address("10.73.0.9")]
    usages = made.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    assert list(usages) == [ExtendedKeyUsageOID.SERVER_AUTH]
    (common_name,) = made.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    assert common_name.value == "system:node"
    assert made.public_key() == KEY.public_key()
    assert not made.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
