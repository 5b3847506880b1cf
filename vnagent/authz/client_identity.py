"""From a verified client certificate to the tenant that it stands for; pure.

Owns what makes a certificate an identity. The chain is verified in the handshake; here the leaf is
read. Must not know requests or pods. Hazard: OpenSSL lets a leaf without usages, a CA certificate
or a chain over an intermediate pass as a client. Tenants sign certificates of their own, so a
common name means nothing: only `vc://<UID>/<key>` in a URI SAN, signed directly by our authority,
or `vc-figures://<UID>/<key>` for the tenant's metrics-server, which gets the figures alone.

Another kind of identity, such as a token that the tenant's API server reviews, would be a second
way to a `Caller` here, called by `Server._meet`; today the TLS context demands a certificate.
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

_IDENTITY = re.compile(
    r"(?P<scheme>vc|vc-figures)://(?P<uid>[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12})"
    r"/(?P<key>[a-z0-9-]{1,63})",
    re.ASCII,
)
_UNREADABLE = (
    ValueError,
    UnsupportedAlgorithm,
    x509.DuplicateExtension,
    x509.InvalidVersion,
    x509.UnsupportedGeneralNameType,
)
_MIN_EC_BITS = 256
_MIN_RSA_BITS = 2048
_MIN_DIGEST_BYTES = 32
_REMEMBERED = 256
"""Certificates that were good: a tenant's API server shows the same one for each call."""


class IdentityProblemError(Exception):
    """A certificate stands for no tenant; says why."""

    vc_uid = ""
    """Of the tenant that our authority has written into it, where it has."""


@dataclass(frozen=True, slots=True)
class Caller:
    """A tenant's API server, or what a tenant runs with a certificate of the same kind."""

    vc_uid: str
    """UID of the VirtualCluster: whose pods it may reach."""
    key: str
    """Root namespace: for people who read logs."""
    not_after: datetime
    """When the certificate, and so the identity, ends."""
    has_figures_only: bool = False
    """Whether it may ask for `/metrics/resource` and nothing else."""


def identify(leaf_der: bytes, authorities: Sequence[x509.Certificate], now: datetime) -> Caller:
    """Return the tenant of a client certificate; raises IdentityProblemError."""
    not_before, caller = _read(leaf_der, tuple(authorities))
    if not not_before <= now <= caller.not_after:
        raise IdentityProblemError("the certificate is not valid at this time")
    return caller


@functools.lru_cache(maxsize=_REMEMBERED)
def _read(leaf_der: bytes, authorities: tuple[x509.Certificate, ...]) -> tuple[datetime, Caller]:
    """Return from when on a certificate is valid, and for whom; raises IdentityProblemError.

    Nothing here changes with time, and what is refused is not remembered.
    """
    try:
        leaf = x509.load_der_x509_certificate(leaf_der)
        extensions = leaf.extensions
        public_key = leaf.public_key()
    except _UNREADABLE as error:
        raise IdentityProblemError("the certificate cannot be read") from error
    if not any(_has_signed(authority, leaf) for authority in authorities):
        raise IdentityProblemError("the certificate is not signed directly by our authority")
    found = _name(extensions)
    try:
        _check_strength(leaf, public_key)
        _check_usages(extensions)
    except IdentityProblemError as problem:
        problem.vc_uid = found["uid"]
        raise
    return leaf.not_valid_before_utc, Caller(
        found["uid"], found["key"], leaf.not_valid_after_utc, found["scheme"] == "vc-figures"
    )


def _has_signed(authority: x509.Certificate, leaf: x509.Certificate) -> bool:
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
        raise IdentityProblemError("the certificate's signature is of no known kind") from error
    if not is_strong or (digest is not None and digest.digest_size < _MIN_DIGEST_BYTES):
        raise IdentityProblemError("the certificate's key or signature is too weak")


def _check_usages(extensions: x509.Extensions) -> None:
    constraints = _find(extensions, x509.BasicConstraints)
    if constraints is not None and constraints.ca:
        raise IdentityProblemError("the certificate is an authority's")
    usage = _find(extensions, x509.KeyUsage)
    if usage is not None and not usage.digital_signature:
        raise IdentityProblemError("the certificate's key is not for signatures")
    purposes = _find(extensions, x509.ExtendedKeyUsage)
    if purposes is None or ExtendedKeyUsageOID.CLIENT_AUTH not in purposes:
        raise IdentityProblemError("the certificate is not for clients")


def _name(extensions: x509.Extensions) -> re.Match[str]:
    names = _find(extensions, x509.SubjectAlternativeName)
    addresses = names.get_values_for_type(x509.UniformResourceIdentifier) if names else []
    if len(addresses) != 1:
        raise IdentityProblemError("the certificate does not name exactly one URI")
    found = _IDENTITY.fullmatch(addresses[0])
    if found is None or not is_dns_label(found["key"]):
        raise IdentityProblemError("the certificate's URI is not vc://<UID>/<key>")
    return found


_Extension = TypeVar("_Extension", bound=x509.ExtensionType)


def _find(extensions: x509.Extensions, kind: type[_Extension]) -> _Extension | None:
    try:
        return extensions.get_extension_for_class(kind).value
    except x509.ExtensionNotFound:
        return None
