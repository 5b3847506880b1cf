"""Mapping from a verified client certificate to its tenant. Pure.

The module owns the rules by which a certificate is an identity. The TLS handshake verifies the
chain, and this module reads the leaf. It must not know requests or pods. Hazard: only
`vc://<UID>/<key>` in a URI SAN, signed directly by the platform's authority, may identify a tenant.
Otherwise a tenant could act as another one, because tenants sign certificates of their own and a
common name proves nothing. `vc-figures://<UID>/<key>` identifies a tenant's metrics-server, which
may read the metrics only. OpenSSL accepts a leaf without usages, a CA certificate or a chain over
an intermediate as a client.

Another kind of identity, such as a token that the tenant's API server reviews, would be a second
function that returns a `ClientIdentity`. `Server._identify_caller` would call it. Today the TLS
context requires a certificate.
"""

import functools
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TypeVar

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID

from tenancy.names import is_dns_label

_IDENTITY_URI = re.compile(
    r"(?P<scheme>vc|vc-figures)://(?P<uid>[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12})"
    r"/(?P<key>[a-z0-9-]{1,63})",
    re.ASCII,
)
_PARSE_ERRORS = (
    ValueError,
    UnsupportedAlgorithm,
    x509.DuplicateExtension,
    x509.InvalidVersion,
    x509.UnsupportedGeneralNameType,
)
_MIN_EC_BITS = 256
_MIN_RSA_BITS = 2048
_MIN_DIGEST_BYTES = 32
_MAX_CACHED_IDENTITIES = 256
"""Number of valid certificates in the cache. A tenant's API server sends the same one for each
call.
"""


class InvalidIdentityError(Exception):
    """A certificate identifies no tenant. The message has the reason."""

    vc_uid = ""
    """UID of the tenant that the platform's authority has written into it, if any."""


@dataclass(frozen=True, slots=True)
class ClientIdentity:
    """A tenant's API server, or a program of a tenant with a certificate of the same kind."""

    vc_uid: str
    """UID of the VirtualCluster that owns the reachable pods."""
    key: str
    """Root namespace. The names of the tenant's super namespaces begin with it."""
    not_after: datetime
    """End of the certificate, and so of the identity."""
    is_metrics_only: bool = False
    """Whether it may request `/metrics/resource` and nothing else."""


def read_identity(
    leaf_der: bytes, authorities: Sequence[x509.Certificate], now: datetime
) -> ClientIdentity:
    """Return the tenant of a client certificate. Raises IdentityProblemError."""
    not_before, caller = _read_certificate(leaf_der, tuple(authorities))
    if not not_before <= now <= caller.not_after:
        raise InvalidIdentityError("the certificate is not valid at this time")
    return caller


@functools.lru_cache(maxsize=_MAX_CACHED_IDENTITIES)
def _read_certificate(
    leaf_der: bytes, authorities: tuple[x509.Certificate, ...]
) -> tuple[datetime, ClientIdentity]:
    """Return the start of a certificate's validity and its caller. Raises IdentityProblemError.

    The result does not change with time. A refused certificate is not cached.
    """
    try:
        leaf = x509.load_der_x509_certificate(leaf_der)
        extensions = leaf.extensions
        public_key = leaf.public_key()
    except _PARSE_ERRORS as error:
        raise InvalidIdentityError("the certificate cannot be read") from error
    if not any(_is_signed_by(authority, leaf) for authority in authorities):
        raise InvalidIdentityError("the certificate is not signed directly by the CA of tenants")
    found = _find_identity_uri(extensions)
    try:
        _check_strength(leaf, public_key)
        _check_usages(extensions)
    except InvalidIdentityError as problem:
        problem.vc_uid = found["uid"]
        raise
    return leaf.not_valid_before_utc, ClientIdentity(
        found["uid"], found["key"], leaf.not_valid_after_utc, found["scheme"] == "vc-figures"
    )


def _is_signed_by(authority: x509.Certificate, leaf: x509.Certificate) -> bool:
    try:
        leaf.verify_directly_issued_by(authority)
    except (InvalidSignature, ValueError, TypeError):
        return False
    return True


def _check_strength(leaf: x509.Certificate, public_key: object) -> None:
    match public_key:
        case ec.EllipticCurvePublicKey():
            is_strong = public_key.curve.key_size >= _MIN_EC_BITS
        case rsa.RSAPublicKey():
            is_strong = public_key.key_size >= _MIN_RSA_BITS
        case ed25519.Ed25519PublicKey():
            is_strong = True
        case _:
            is_strong = False
    try:
        digest = leaf.signature_hash_algorithm
    except UnsupportedAlgorithm as error:
        raise InvalidIdentityError(
            "the certificate's signature has an unknown algorithm"
        ) from error
    if not is_strong or (digest is not None and digest.digest_size < _MIN_DIGEST_BYTES):
        raise InvalidIdentityError("the certificate's key or signature is too weak")


def _check_usages(extensions: x509.Extensions) -> None:
    constraints = _find_extension(extensions, x509.BasicConstraints)
    if constraints is not None and constraints.ca:
        raise InvalidIdentityError("the certificate is a CA certificate")
    usage = _find_extension(extensions, x509.KeyUsage)
    if usage is not None and not usage.digital_signature:
        raise InvalidIdentityError("the certificate's key may not be used for signatures")
    purposes = _find_extension(extensions, x509.ExtendedKeyUsage)
    if purposes is None or ExtendedKeyUsageOID.CLIENT_AUTH not in purposes:
        raise InvalidIdentityError("the certificate is not for clients")


def _find_identity_uri(extensions: x509.Extensions) -> re.Match[str]:
    names = _find_extension(extensions, x509.SubjectAlternativeName)
    addresses = names.get_values_for_type(x509.UniformResourceIdentifier) if names else []
    if len(addresses) != 1:
        raise InvalidIdentityError("the certificate does not name exactly one URI")
    found = _IDENTITY_URI.fullmatch(addresses[0])
    if found is None or not is_dns_label(found["key"]):
        raise InvalidIdentityError("the certificate's URI is not vc://<UID>/<key>")
    return found


_Extension = TypeVar("_Extension", bound=x509.ExtensionType)


def _find_extension(extensions: x509.Extensions, kind: type[_Extension]) -> _Extension | None:
    try:
        return extensions.get_extension_for_class(kind).value
    except x509.ExtensionNotFound:
        return None
