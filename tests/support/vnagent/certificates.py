"""Certificates of every odd kind, for tests."""

import ssl
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

VC_UID = "0f0e0d0c-0b0a-4900-8800-070605040302"
KEY = "default-b41df0-one"
URI = f"vc://{VC_UID}/{KEY}"
DAY = timedelta(days=1)

PrivateKey = ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey | ed25519.Ed25519PrivateKey


@dataclass(frozen=True)
class SigningAuthority:
    """Something that signs."""

    key: ec.EllipticCurvePrivateKey
    certificate: x509.Certificate

    @property
    def pem(self) -> bytes:
        return self.certificate.public_bytes(serialization.Encoding.PEM)


def make_authority(
    name: str = "vn-agent-client",
    *,
    parent: SigningAuthority | None = None,
    path_length: int | None = 0,
) -> SigningAuthority:
    """Return a root, or an authority below another."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    signer = parent.key if parent else key
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(parent.certificate.subject if parent else subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - 400 * DAY)
        .not_valid_after(now + 400 * DAY)
        .add_extension(x509.BasicConstraints(ca=True, path_length=path_length), critical=True)
        .add_extension(_usage(signs=False, certifies=True), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()),
            critical=False,
        )
        .sign(signer, hashes.SHA256())
    )
    return SigningAuthority(key, certificate)


@dataclass(frozen=True)
class ClientCertificate:
    """Contents of a client certificate. The defaults are the valid one."""

    common_name: str = "kube-apiserver-kubelet-client"
    names: tuple[x509.GeneralName, ...] = (x509.UniformResourceIdentifier(URI),)
    usages: tuple[x509.ObjectIdentifier, ...] | None = (ExtendedKeyUsageOID.CLIENT_AUTH,)
    is_authority: bool = False
    signs: bool = True
    begins: timedelta = -DAY
    ends: timedelta = DAY
    digest: hashes.HashAlgorithm | None = field(default_factory=hashes.SHA256)
    key: PrivateKey | None = None
    unknown_critical: bool = False


VALID = ClientCertificate()


def named(*names: str) -> ClientCertificate:
    """Return a leaf with other URIs."""
    return replace(VALID, names=tuple(map(x509.UniformResourceIdentifier, names)))


def sign(
    authority: SigningAuthority, leaf: ClientCertificate
) -> tuple[x509.Certificate, PrivateKey]:
    """Return a certificate and its key."""
    key = leaf.key or ec.generate_private_key(ec.SECP256R1())
    now = datetime.now(UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, leaf.common_name)]))
        .issuer_name(authority.certificate.subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now + leaf.begins)
        .not_valid_after(now + leaf.ends)
        .add_extension(x509.BasicConstraints(leaf.is_authority, None), critical=True)
        .add_extension(_usage(signs=leaf.signs, certifies=leaf.is_authority), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(authority.key.public_key()),
            critical=False,
        )
    )
    if leaf.names:
        names = x509.SubjectAlternativeName(leaf.names)
        builder = builder.add_extension(names, critical=False)
    if leaf.usages is not None:
        usages = x509.ExtendedKeyUsage(leaf.usages)
        builder = builder.add_extension(usages, critical=False)
    if leaf.unknown_critical:
        unknown = x509.UnrecognizedExtension(x509.ObjectIdentifier("1.2.3.4.5"), b"\x05\x00")
        builder = builder.add_extension(unknown, critical=True)
    return builder.sign(authority.key, leaf.digest), key


def der(authority: SigningAuthority, leaf: ClientCertificate) -> bytes:
    """Return a certificate as the handshake gives it."""
    return sign(authority, leaf)[0].public_bytes(serialization.Encoding.DER)


def pems(authority: SigningAuthority, leaf: ClientCertificate) -> tuple[bytes, bytes]:
    """Return certificate and key."""
    certificate, key = sign(authority, leaf)
    return certificate.public_bytes(serialization.Encoding.PEM), key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )


def present(
    context: ssl.SSLContext,
    folder,
    authority: SigningAuthority,
    leaf: ClientCertificate,
    *chain: bytes,
):
    """Give a client context a certificate, with the chain that a caller would send."""
    certificate, key = pems(authority, leaf)
    path = folder / "presented.pem"
    path.write_bytes(b"".join((certificate, *chain, key)))
    context.load_cert_chain(path)


def _usage(*, signs: bool, certifies: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=signs,
        content_commitment=False,
        key_encipherment=not signs and not certifies,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=certifies,
        crl_sign=certifies,
        encipher_only=False,
        decipher_only=False,
    )
