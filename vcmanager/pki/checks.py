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

from vcmanager.pki.authority import Pair, Subject

Fault = Literal[
    "missing",
    "unreadable",
    "key mismatch",
    "foreign issuer",
    "other subject",
    "other names",
    "other usages",
    "lifetime too long",
    "due for renewal",
]

_UNREADABLE = (
    ValueError,
    TypeError,
    UnsupportedAlgorithm,
    x509.ExtensionNotFound,
    x509.DuplicateExtension,
)
"""Exceptions that files of other writers cause."""
_TOLERATED = timedelta(hours=1)
"""How much longer than wanted a lifetime may be: clock skew and rounding."""

_OIDS = {
    ExtendedKeyUsageOID.SERVER_AUTH: "server",
    ExtendedKeyUsageOID.CLIENT_AUTH: "client",
}


def fault_of_leaf(
    pair: Pair | None,
    subject: Subject,
    authority: Pair,
    *,
    lifetime: timedelta,
    now: datetime,
) -> Fault | None:
    """Return why a leaf must be renewed, or None."""
    if pair is None:
        return "missing"
    try:
        certificate = x509.load_pem_x509_certificate(pair.certificate)
        certified, kept = _spki(certificate.public_key()), _spki(_public_of(pair.key))
        issuer = x509.load_pem_x509_certificate(authority.certificate)
        names, usages = _names(certificate), _usages(certificate)
    except _UNREADABLE:
        return "unreadable"
    faults: tuple[tuple[Fault, bool], ...] = (
        ("key mismatch", certified != kept),
        ("foreign issuer", not _is_issued_by(certificate, issuer)),
        ("other subject", _subject(certificate) != _wanted(subject)),
        ("other names", names != subject.alternative_names()),
        ("other usages", usages != subject.usages),
        ("lifetime too long", certificate.not_valid_after_utc - now > lifetime + _TOLERATED),
        ("due for renewal", now >= renewal_of(pair)),
    )
    return next((fault for fault, is_so in faults if is_so), None)


def fault_of_authority(pair: Pair) -> Fault | None:
    """Return why an authority is unusable, or None. It is never renewed for that."""
    try:
        certificate = x509.load_pem_x509_certificate(pair.certificate)
        certified, kept = _spki(certificate.public_key()), _spki(_public_of(pair.key))
        constraints = certificate.extensions.get_extension_for_class(x509.BasicConstraints).value
    except _UNREADABLE:
        return "unreadable"
    if certified != kept:
        return "key mismatch"
    return None if constraints.ca else "other usages"


def fault_of_keys(pair: Pair) -> Fault | None:
    """Return why the ServiceAccount keys cannot be used, or None."""
    try:
        public = _spki(serialization.load_pem_public_key(pair.certificate))
        derived = _spki(_public_of(pair.key))
    except _UNREADABLE:
        return "unreadable"
    return None if public == derived else "key mismatch"


def renewal_of(pair: Pair) -> datetime:
    """Return when two thirds of a certificate's life are over."""
    certificate = x509.load_pem_x509_certificate(pair.certificate)
    begin, end = certificate.not_valid_before_utc, certificate.not_valid_after_utc
    return begin + (end - begin) * 2 / 3


def end_of(pair: Pair) -> datetime:
    """Return when a certificate ends."""
    return x509.load_pem_x509_certificate(pair.certificate).not_valid_after_utc


_MOST_SOUND = 4096
_sound: dict[bytes, None] = {}
"""Digests of valid RSA keys, the oldest first.

The check that their numbers are prime takes 25 ms, which is most of a tenant's reconcile.
"""


def _public_of(key: bytes) -> object:
    digest = hashlib.sha256(key).digest()
    loaded = serialization.load_pem_private_key(
        key, password=None, unsafe_skip_rsa_key_validation=digest in _sound
    )
    if isinstance(loaded, rsa.RSAPrivateKey) and digest not in _sound:
        if len(_sound) >= _MOST_SOUND:
            del _sound[next(iter(_sound))]
        _sound[digest] = None
    return loaded.public_key()


def _spki(key: object) -> bytes:
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


def _subject(certificate: x509.Certificate) -> tuple[str, frozenset[str]]:
    names = certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    groups = certificate.subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)
    return (
        str(names[0].value) if names else "",
        frozenset(str(group.value) for group in groups),
    )


def _wanted(subject: Subject) -> tuple[str, frozenset[str]]:
    return subject.common_name, frozenset(subject.organizations)


def _names(certificate: x509.Certificate) -> frozenset[str]:
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


def _usages(certificate: x509.Certificate) -> frozenset[str]:
    found = certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    return frozenset(_OIDS.get(usage, usage.dotted_string) for usage in found)
