"""Predicates on the validity of a stored certificate against the desired one.

Pure. Must not know Secrets. Hazard: an unreadable Secret and a missing one are different cases.
This module judges only what was read.
"""

import hashlib
from datetime import datetime, timedelta
from typing import Literal

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from tenancy import wellknown
from vcmanager.pki.authority import CLOCK_SKEW, CertificateSubject, KeyPair

CertificateFault = Literal[
    "missing",
    "unreadable",
    "key mismatch",
    "foreign issuer",
    "other subject",
    "other names",
    "other usages",
    "lifetime too long",
    "due for renewal",
    "renewal requested",
]

_PARSE_ERRORS = (
    ValueError,
    TypeError,
    UnsupportedAlgorithm,
    x509.ExtensionNotFound,
    x509.DuplicateExtension,
)
"""Exceptions that files of other writers cause."""
_LIFETIME_TOLERANCE = timedelta(hours=1)
"""How much longer than wanted a lifetime may be: clock skew and rounding."""

_RENEWAL_JITTER = 0.2
"""Share of the time between the first possible renewal and the end, for the jitter."""

_USAGE_NAMES = {
    ExtendedKeyUsageOID.SERVER_AUTH: "server",
    ExtendedKeyUsageOID.CLIENT_AUTH: "client",
}


def find_leaf_fault(
    pair: KeyPair | None,
    subject: CertificateSubject,
    authority: KeyPair,
    *,
    lifetime: timedelta,
    now: datetime,
    requested: datetime | None = None,
    owner: str = "",
) -> CertificateFault | None:
    """Return why a leaf must be renewed, or None.

    A leaf that was issued before `requested` is renewed. `owner` is the UID for the jitter.
    """
    if pair is None:
        return "missing"
    try:
        certificate = x509.load_pem_x509_certificate(pair.certificate)
        certified, kept = (
            _encode_public_key(certificate.public_key()),
            _encode_public_key(_VERIFIED_KEYS.load_public_key(pair.key)),
        )
        issuer = x509.load_pem_x509_certificate(authority.certificate)
        names, usages = _read_names(certificate), _read_usages(certificate)
    except _PARSE_ERRORS:
        return "unreadable"
    on_request = find_requested_renewal(_read_issue_time(certificate), requested)
    faults: tuple[tuple[CertificateFault, bool], ...] = (
        ("key mismatch", certified != kept),
        ("foreign issuer", not _is_issued_by(certificate, issuer)),
        ("other subject", _read_subject(certificate) != _build_wanted_subject(subject)),
        ("other names", names != subject.list_alternative_names()),
        ("other usages", usages != subject.usages),
        (
            "lifetime too long",
            certificate.not_valid_after_utc - now > lifetime + _LIFETIME_TOLERANCE,
        ),
        ("due for renewal", now >= compute_renewal(pair, owner, authority)),
        ("renewal requested", on_request is not None and now >= on_request),
    )
    return next((fault for fault, is_so in faults if is_so), None)


def find_authority_fault(pair: KeyPair) -> CertificateFault | None:
    """Return why an authority is unusable, or None. It is never renewed for that.

    Its end is no fault here, because a rotation may replace an ended authority (`has_ended`).
    """
    try:
        certificate = x509.load_pem_x509_certificate(pair.certificate)
        certified, kept = (
            _encode_public_key(certificate.public_key()),
            _encode_public_key(_VERIFIED_KEYS.load_public_key(pair.key)),
        )
        constraints = certificate.extensions.get_extension_for_class(x509.BasicConstraints).value
        may_sign = _may_sign_certificates(certificate)
    except _PARSE_ERRORS:
        return "unreadable"
    if certified != kept:
        return "key mismatch"
    return None if constraints.ca and may_sign else "other usages"


def _may_sign_certificates(certificate: x509.Certificate) -> bool:
    """Return whether the usages of the key include it. A certificate without the list allows it."""
    try:
        usage = certificate.extensions.get_extension_for_class(x509.KeyUsage).value
    except x509.ExtensionNotFound:
        return True
    return usage.key_cert_sign


def has_ended(pem: bytes, now: datetime) -> bool:
    """Return whether a readable certificate has ended."""
    try:
        return x509.load_pem_x509_certificate(pem).not_valid_after_utc <= now
    except _PARSE_ERRORS:
        return False


def find_keys_fault(pair: KeyPair) -> CertificateFault | None:
    """Return why the ServiceAccount keys cannot be used, or None."""
    try:
        public = _encode_public_key(serialization.load_pem_public_key(pair.certificate))
        derived = _encode_public_key(_VERIFIED_KEYS.load_public_key(pair.key))
    except _PARSE_ERRORS:
        return "unreadable"
    return None if public == derived else "key mismatch"


def is_issued_by(pem: bytes, issuer: KeyPair) -> bool:
    """Return whether a readable certificate is of an authority."""
    try:
        certificate = x509.load_pem_x509_certificate(pem)
    except _PARSE_ERRORS:
        return False
    return _is_issued_by(certificate, x509.load_pem_x509_certificate(issuer.certificate))


def is_readable(pem: bytes) -> bool:
    """Return whether a file has a certificate or a public key."""
    for load in (x509.load_pem_x509_certificate, serialization.load_pem_public_key):
        try:
            load(pem)
        except _PARSE_ERRORS:
            continue
        return True
    return False


def compute_renewal(pair: KeyPair, owner: str = "", authority: KeyPair | None = None) -> datetime:
    """Return when a certificate is renewed: after two thirds of its life, plus a jitter.

    The jitter is a share of the first fifth of the time that is left, from the owner's UID. Tenants
    that were created together would otherwise restart together. Without an owner it is 0.

    A certificate that ends with its authority is renewed at its end, because another one would end
    then, too. Programs would otherwise restart more and more often before that end.
    """
    certificate = x509.load_pem_x509_certificate(pair.certificate)
    begin, end = certificate.not_valid_before_utc, certificate.not_valid_after_utc
    if authority is not None and end >= get_expiry(authority):
        return end
    window = (end - begin) / 3
    return end - window + window * _RENEWAL_JITTER * _compute_fraction(owner)


def _compute_fraction(owner: str) -> float:
    """Return a number from 0 to 1 that stays the same for an owner."""
    if not owner:
        return 0.0
    return int.from_bytes(hashlib.sha256(owner.encode()).digest()[:4]) / 2**32


def find_requested_renewal(issued: datetime, requested: datetime | None) -> datetime | None:
    """Return when a request renews a certificate, or None if it was issued after the request."""
    if requested is None or issued >= requested:
        return None
    return issued + wellknown.MIN_RENEWAL_AGE


def get_issue_time(pair: KeyPair) -> datetime:
    """Return when a certificate was issued."""
    return _read_issue_time(x509.load_pem_x509_certificate(pair.certificate))


def get_expiry(pair: KeyPair) -> datetime:
    """Return when a certificate ends."""
    return x509.load_pem_x509_certificate(pair.certificate).not_valid_after_utc


class _VerifiedKeys:
    """Private keys that were once loaded with all checks, by their digests, the oldest first.

    The check that the numbers of an RSA key are prime takes 25 ms, which is most of a tenant's
    reconcile. It runs once for each key.
    """

    def __init__(self, limit: int) -> None:
        """Start without keys. Beyond the limit the oldest is dropped, and checked again if used."""
        self._limit = limit
        self._digests: dict[bytes, None] = {}

    def load_public_key(self, key: bytes) -> object:
        """Return the public part of a private key. Raises one of `_PARSE_ERRORS`."""
        digest = hashlib.sha256(key).digest()
        is_verified = digest in self._digests
        loaded = serialization.load_pem_private_key(
            key, password=None, unsafe_skip_rsa_key_validation=is_verified
        )
        if isinstance(loaded, rsa.RSAPrivateKey) and not is_verified:
            if len(self._digests) >= self._limit:
                del self._digests[next(iter(self._digests))]
            self._digests[digest] = None
        return loaded.public_key()


_VERIFIED_KEYS = _VerifiedKeys(4096)


def _read_issue_time(certificate: x509.Certificate) -> datetime:
    """Return the issue time. The validity begins earlier, for clocks that are late."""
    return certificate.not_valid_before_utc + CLOCK_SKEW


def _encode_public_key(key: object) -> bytes:
    public_bytes = getattr(key, "public_bytes", None)
    if public_bytes is None:
        raise TypeError("no public key")
    found = public_bytes(
        serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    return bytes(found)


def _is_issued_by(certificate: x509.Certificate, issuer: x509.Certificate) -> bool:
    try:
        certificate.verify_directly_issued_by(issuer)
    except (ValueError, TypeError, InvalidSignature, UnsupportedAlgorithm):
        return False
    return True


def _read_subject(certificate: x509.Certificate) -> tuple[str, frozenset[str]]:
    names = certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    groups = certificate.subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)
    return (
        str(names[0].value) if names else "",
        frozenset(str(group.value) for group in groups),
    )


def _build_wanted_subject(subject: CertificateSubject) -> tuple[str, frozenset[str]]:
    return subject.common_name, frozenset(subject.organizations)


def _read_names(certificate: x509.Certificate) -> frozenset[str]:
    try:
        found = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return frozenset()
    return frozenset(
        [
            *(f"DNS:{name}" for name in found.get_values_for_type(x509.DNSName)),
            *(f"IP:{address}" for address in found.get_values_for_type(x509.IPAddress)),
            *(f"URI:{uri}" for uri in found.get_values_for_type(x509.UniformResourceIdentifier)),
        ]
    )


def _read_usages(certificate: x509.Certificate) -> frozenset[str]:
    found = certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    return frozenset(_USAGE_NAMES.get(usage, usage.dotted_string) for usage in found)
