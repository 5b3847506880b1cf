"""Parsing and signing of certificate requests (PKCS#10).

Must not know which accounts may ask. Hazard: everything in a request is an unproved claim of the
requester. Only its public key and the checked names may be copied into a certificate.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from vcmanager.pki import authority
from vcmanager.pki.authority import CertificateSubject, KeyPair

_MIN_RSA_BITS = 2048


class InvalidCsrError(ValueError):
    """A request cannot be granted as it is. The message has the reason."""


@dataclass(frozen=True, slots=True)
class RequestedNames:
    """Names that a request asks for."""

    addresses: tuple[str, ...]
    other_count: int
    """How many names are no addresses."""


def read_names(request: bytes) -> RequestedNames:
    """Return the alternative names of a request. Raises RequestProblemError."""
    parsed = _parse_request(request)
    try:
        found = parsed.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return RequestedNames((), 0)
    except ValueError as problem:
        raise InvalidCsrError(f"the request's extensions are malformed: {problem}") from None
    addresses = tuple(str(each) for each in found.get_values_for_type(x509.IPAddress))
    return RequestedNames(addresses, len(found) - len(addresses))


def sign_request(
    issuer: KeyPair,
    request: bytes,
    *,
    common_name: str,
    addresses: Sequence[str],
    lifetime: timedelta,
    now: datetime,
) -> bytes:
    """Return a serving certificate for the request's key and these addresses, as PEM."""
    subject = CertificateSubject(
        common_name=common_name, addresses=tuple(addresses), usages=frozenset({"server"})
    )
    return authority.sign(
        issuer, _get_public_key(_parse_request(request)), subject, lifetime=lifetime, now=now
    )


def _parse_request(request: bytes) -> x509.CertificateSigningRequest:
    try:
        parsed = x509.load_pem_x509_csr(request)
        is_signed = parsed.is_signature_valid
    except (ValueError, TypeError) as problem:
        raise InvalidCsrError(f"the request cannot be read: {problem}") from None
    if not is_signed:
        raise InvalidCsrError("the request is not signed by its own key")
    _get_public_key(parsed)
    return parsed


def _get_public_key(
    parsed: x509.CertificateSigningRequest,
) -> ec.EllipticCurvePublicKey | rsa.RSAPublicKey:
    key = parsed.public_key()
    if isinstance(key, ec.EllipticCurvePublicKey):
        return key
    if isinstance(key, rsa.RSAPublicKey) and key.key_size >= _MIN_RSA_BITS:
        return key
    raise InvalidCsrError(
        f"the request's key must be an elliptic curve key or RSA with at least {_MIN_RSA_BITS} bits"
    )
