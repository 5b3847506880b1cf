"""TLS contexts: for the servers of the agent, and for its clients. Keys never touch a disk.

The module must not know the peers. Hazard: no default may be loosened here, because a change
applies to every stream. A weak default would expose all tenants. The platform's own chains must
satisfy RFC 5280 to the letter. Kubelets and super API servers need not, because clusters older than
that rule are common. Their chain and address are always verified.
"""

import os
import ssl
from collections.abc import Iterator
from contextlib import contextmanager

from kubeio.http import tls_sessions

_PROTOCOL = "http/1.1"
_CIPHERS = "ECDHE+AESGCM:ECDHE+CHACHA20"
"""Ciphers of TLS 1.2. TLS 1.3 has no weak ones."""


class InvalidTrustError(Exception):
    """Bytes are no valid certificates or key. The message names them."""


def create_server_context(
    *, certificate: bytes, key: bytes, client_authorities: bytes
) -> ssl.SSLContext:
    """Return the context for tenants, which requires a verified client certificate."""
    context = create_unauthenticated_context(certificate=certificate, key=key)
    context.verify_mode = ssl.CERT_REQUIRED
    context.verify_flags |= ssl.VERIFY_X509_STRICT
    _load_authorities(context, client_authorities, "the CA file of clients")
    return context


def create_unauthenticated_context(*, certificate: bytes, key: bytes) -> ssl.SSLContext:
    """Return a context that requests no certificate. Callers must identify in another way."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    _harden_context(context)
    # With TLS 1.2 the agent would keep 20,000 sessions in memory. All callers are Go programs and
    # use TLS 1.3.
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    # No caller needs to resume. The identity is read from the leaf again even in a resumed session.
    context.options |= ssl.OP_NO_TICKET | ssl.OP_NO_RENEGOTIATION
    context.num_tickets = 0
    # Go callers prefer the cipher for which their machine has instructions.
    context.options &= ~ssl.OP_CIPHER_SERVER_PREFERENCE
    with _create_memory_file(certificate) as chain_path, _create_memory_file(key) as key_path:
        try:
            context.load_cert_chain(chain_path, key_path)
        except (ssl.SSLError, ValueError) as error:
            raise InvalidTrustError("the serving certificate and its key do not fit") from error
    return context


def create_client_context(authorities: bytes) -> tls_sessions.ResumingContext:
    """Return the context for a server with a certificate of these authorities for its address.

    For some minutes its connections resume the session of a connection whose certificate was
    verified.
    """
    context = tls_sessions.ResumingContext(ssl.PROTOCOL_TLS_CLIENT)
    _harden_context(context)
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    # As in Go and the other components, a signing authority need not be a root.
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    _load_authorities(context, authorities, "the CA file of the server")
    return context


def _harden_context(context: ssl.SSLContext) -> None:
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_ciphers(_CIPHERS)
    # Upgrades do not exist in HTTP/2.
    context.set_alpn_protocols([_PROTOCOL])


def _load_authorities(context: ssl.SSLContext, authorities: bytes, what: str) -> None:
    try:
        context.load_verify_locations(cadata=authorities.decode("ascii"))
    except (ssl.SSLError, ValueError) as error:
        raise InvalidTrustError(f"{what} has no certificates in PEM") from error
    if not context.cert_store_stats()["x509"]:
        raise InvalidTrustError(f"{what} has no certificates in PEM")


@contextmanager
def _create_memory_file(content: bytes) -> Iterator[str]:
    """Yield a path to bytes in memory, because OpenSSL needs a path."""
    descriptor = os.memfd_create("vn-agent", os.MFD_CLOEXEC)
    try:
        os.write(descriptor, content)
        os.lseek(descriptor, 0, os.SEEK_SET)
        yield f"/proc/self/fd/{descriptor}"
    finally:
        os.close(descriptor)
