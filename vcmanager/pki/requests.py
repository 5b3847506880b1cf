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
from vcmanager.pki.authority import Pair, Subject

_SHORTEST_RSA = 2048


class RequestProblemError(ValueError):
    """A request cannot be granted as it is. The message has the reason."""


@dataclass(frozen=True, slots=True)
class Names:
    """Names that a request asks for."""

    addresses: tuple[str, ...]
    others: int
    """How many names are no addresses."""


def names_of(request: bytes) -> Names:
    """Return the alternative names of a request. Raises RequestProblemError."""
    parsed = _parse(request)
    try:
        found = parsed.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return Names((), 0)
    except ValueError as problem:
        raise RequestProblemError(f"the request's extensions are malformed: {problem}") from None
    addresses = tuple(str(each) for each in found.get_values_for_type(x509.IPAddress))
    return Names(addresses, len(found) - len(addresses))


def sign(
    issuer: Pair,
    request: bytes,
    *,
    common_name: str,
    addresses: Sequence[str],
    lifetime: timedelta,
    now: datetime,
) -> bytes:
    """Return a serving certificate for the request's key and these addresses, as PEM."""
    subject = Subject(
        common_name=common_name, addresses=tuple(addresses), usages=frozenset({"server"})
    )
    return authority.sign(issuer, _key_of(_parse(request)), subject, lifetime=lifetime, now=now)


def _parse(request: bytes) -> x509.CertificateSigningRequest:
    try:
        parsed = x509.load_pem_x509_csr(request)
        is_signed = parsed.is_signature_valid
    except (ValueError, TypeError) as problem:
        raise RequestProblemError(f"the request cannot be read: {problem}") from None
    if not is_signed:
        raise RequestProblemError("the request is not signed by its own key")
    _key_of(parsed)
    return parsed


def _key_of(
    parsed: x509.CertificateSigningRequest,
) -> ec.EllipticCurvePublicKey | rsa.RSAPublicKey:
    key = parsed.public_key()
    if isinstance(key, ec.EllipticCurvePublicKey):
        return key
    if isinstance(key, rsa.RSAPublicKey) and key.key_size >= _SHORTEST_RSA:
        return key
    raise RequestProblemError(
        f"the request's key must be an elliptic curve key or RSA with at least {_SHORTEST_RSA} bits"
    )
