"""Creation of keys and certificates that conform to RFC 5280.

Owns the extensions. Must not know the users of a certificate (`inventory`) or its storage
(`bundles`). Hazard: verifiers differ. OpenSSL in strict mode may refuse what Go accepts (key
identifiers, critical flags), so tests check with both.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from ipaddress import ip_address

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

AUTHORITY_LIFETIME = timedelta(days=3652)
CLOCK_SKEW = timedelta(minutes=5)
"""How far back a certificate begins, because clocks of nodes differ."""

_EXTENDED_USAGES = {
    "server": ExtendedKeyUsageOID.SERVER_AUTH,
    "client": ExtendedKeyUsageOID.CLIENT_AUTH,
}


@dataclass(frozen=True, slots=True, repr=False)
class KeyPair:
    """A certificate, or a public key, with its private key, both PEM. Never shown."""

    certificate: bytes
    key: bytes

    def __repr__(self) -> str:
        """Show nothing of the key."""
        return "Pair(...)"


@dataclass(frozen=True, slots=True, kw_only=True)
class CertificateSubject:
    """Subject and usages of a leaf certificate."""

    common_name: str
    organizations: tuple[str, ...] = ()
    dns_names: tuple[str, ...] = ()
    addresses: tuple[str, ...] = ()
    uris: tuple[str, ...] = ()
    usages: frozenset[str] = frozenset()
    """`server`, `client`, or both."""

    def list_alternative_names(self) -> frozenset[str]:
        """Return all names as text, each with its kind, to be compared."""
        return frozenset(
            [
                *(f"DNS:{name}" for name in self.dns_names),
                *(f"IP:{ip_address(address)}" for address in self.addresses),
                *(f"URI:{uri}" for uri in self.uris),
            ]
        )


def make_authority(common_name: str, *, now: datetime) -> KeyPair:
    """Return a new self-signed authority that may sign leaves and no further authority."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])
    identifier = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - CLOCK_SKEW)
        .not_valid_after(now + AUTHORITY_LIFETIME)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_build_key_usage(signs_certificates=True), critical=True)
        .add_extension(identifier, critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(identifier),
            critical=False,
        )
        .sign(key, hashes.SHA256())
    )
    return KeyPair(_encode_certificate(certificate), _encode_key(key))


def make_leaf(
    authority: KeyPair, subject: CertificateSubject, *, lifetime: timedelta, now: datetime
) -> KeyPair:
    """Return a new key and its certificate, which never outlives its authority."""
    key = ec.generate_private_key(ec.SECP256R1())
    return KeyPair(
        sign(authority, key.public_key(), subject, lifetime=lifetime, now=now), _encode_key(key)
    )


def sign(
    authority: KeyPair,
    public_key: ec.EllipticCurvePublicKey | rsa.RSAPublicKey,
    subject: CertificateSubject,
    *,
    lifetime: timedelta,
    now: datetime,
) -> bytes:
    """Return a certificate for a public key, as PEM."""
    issuer = x509.load_pem_x509_certificate(authority.certificate)
    issuer_key = serialization.load_pem_private_key(authority.key, password=None)
    if not isinstance(issuer_key, ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey):
        raise TypeError("the CA key is neither an elliptic curve key nor an RSA key")
    names: list[x509.GeneralName] = [
        *(x509.DNSName(name) for name in subject.dns_names),
        *(x509.IPAddress(ip_address(address)) for address in subject.addresses),
        *(x509.UniformResourceIdentifier(uri) for uri in subject.uris),
    ]
    builder = (
        x509.CertificateBuilder()
        .subject_name(_build_name(subject))
        .issuer_name(issuer.subject)
        .public_key(public_key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(max(now - CLOCK_SKEW, issuer.not_valid_before_utc))
        .not_valid_after(min(now + lifetime, issuer.not_valid_after_utc))
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(
            _build_key_usage(enciphers_keys=isinstance(public_key, rsa.RSAPublicKey)), critical=True
        )
        .add_extension(
            x509.ExtendedKeyUsage([_EXTENDED_USAGES[usage] for usage in sorted(subject.usages)]),
            critical=False,
        )
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public_key), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(
                issuer.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value
            ),
            critical=False,
        )
    )
    if names:
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
    return _encode_certificate(builder.sign(issuer_key, hashes.SHA256()))


def make_service_account_keys() -> KeyPair:
    """Return the pair that signs the tenant's ServiceAccount tokens: public key, private key.

    RSA, because RS256 is the one algorithm that every verifier of such tokens must know.
    """
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    public = key.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    return KeyPair(public, _encode_key(key))


def _build_name(subject: CertificateSubject) -> x509.Name:
    return x509.Name(
        [
            *(
                x509.NameAttribute(NameOID.ORGANIZATION_NAME, each)
                for each in subject.organizations
            ),
            x509.NameAttribute(NameOID.COMMON_NAME, subject.common_name),
        ]
    )


def _build_key_usage(
    *, signs_certificates: bool = False, enciphers_keys: bool = False
) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=enciphers_keys,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )


def _encode_certificate(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def _encode_key(key: ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey) -> bytes:
    # The traditional form: old programs that read these Secrets know no PKCS#8.
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.TraditionalOpenSSL,
        serialization.NoEncryption(),
    )
