"""TLS contexts: one that serves tenants, one that trusts a server; keys never touch a disk.

Must not know who connects. Hazard: every default that is loosened here is loosened for every
stream. Our own chains are held to RFC 5280 to the letter; kubelets and super API servers are not,
because clusters older than that rule are common, but their chain and address are always verified.
"""

import os
import ssl
from collections.abc import Iterator
from contextlib import contextmanager

from kubeio.http import tls_sessions

_PROTOCOL = "http/1.1"
_CIPHERS = "ECDHE+AESGCM:ECDHE+CHACHA20"
"""For TLS 1.2; 1.3 has no weak ones."""


class TrustProblemError(Exception):
    """Bytes that should be certificates or a key are not; says which."""


def server_context(*, certificate: bytes, key: bytes, client_authorities: bytes) -> ssl.SSLContext:
    """Return the context that tenants connect to: no verified certificate, no connection."""
    context = open_context(certificate=certificate, key=key)
    context.verify_mode = ssl.CERT_REQUIRED
    context.verify_flags |= ssl.VERIFY_X509_STRICT
    _trust(context, client_authorities, "the client authority file")
    return context


def open_context(*, certificate: bytes, key: bytes) -> ssl.SSLContext:
    """Return a context that asks for no certificate: who connects has to say so in another way."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    _harden(context)
    # Sessions of 1.2 are kept in our memory, 20,000 of them; all who call speak 1.3, being Go.
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    # Nobody has to resume; the identity is read anew from the leaf even of a resumed session.
    context.options |= ssl.OP_NO_TICKET | ssl.OP_NO_RENEGOTIATION
    context.num_tickets = 0
    # Go callers put the cipher first for which their machine has instructions.
    context.options &= ~ssl.OP_CIPHER_SERVER_PREFERENCE
    with _readable(certificate) as chain_path, _readable(key) as key_path:
        try:
            context.load_cert_chain(chain_path, key_path)
        except (ssl.SSLError, ValueError) as error:
            raise TrustProblemError("the serving certificate and its key do not fit") from error
    return context


def client_context(authorities: bytes) -> tls_sessions.Context:
    """Return the context for a server that one of the authorities vouches for, by address.

    For some minutes its connections go on with the session of one that showed a certificate.
    """
    context = tls_sessions.Context(ssl.PROTOCOL_TLS_CLIENT)
    _harden(context)
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    # As Go and our other components do: a signing authority that is named need not be a root.
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    _trust(context, authorities, "the authority file of the server")
    return context


def _harden(context: ssl.SSLContext) -> None:
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_ciphers(_CIPHERS)
    # Upgrades do not exist in HTTP/2.
    context.set_alpn_protocols([_PROTOCOL])


def _trust(context: ssl.SSLContext, authorities: bytes, what: str) -> None:
    try:
        context.load_verify_locations(cadata=authorities.decode("ascii"))
    except (ssl.SSLError, ValueError) as error:
        raise TrustProblemError(f"{what} holds no certificates in PEM") from error
    if not context.cert_store_stats()["x509"]:
        raise TrustProblemError(f"{what} holds no certificates in PEM")


@contextmanager
def _readable(content: bytes) -> Iterator[str]:
    """Lend bytes a path, which OpenSSL wants, in memory alone."""
    descriptor = os.memfd_create("vn-agent", os.MFD_CLOEXEC)
    try:
        os.write(descriptor, content)
        os.lseek(descriptor, 0, os.SEEK_SET)
        yield f"/proc/self/fd/{descriptor}"
    finally:
        os.close(descriptor)
