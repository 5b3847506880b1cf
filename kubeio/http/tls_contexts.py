"""SSL contexts from PEM bytes, without keys on a disk.

Owns verification: chain and host are always checked.

Hazard: a client key must not stay on a disk, but OpenSSL reads client keys from files only. So the
key is in an anonymous memory file. On systems without one it is in a private temporary file, which
is deleted before `create_context` returns.
"""

import contextlib
import os
import ssl
import tempfile
from collections.abc import Iterator

from kubeio.config.endpoint import Endpoint
from kubeio.errors import CredentialsError
from kubeio.http.tls_sessions import ResumingContext


def create_context(endpoint: Endpoint) -> ResumingContext:
    """Return a verifying client context for an endpoint. Raises CredentialsProblem."""
    made = ResumingContext(ssl.PROTOCOL_TLS_CLIENT)  # CERT_REQUIRED and check_hostname are on
    made.minimum_version = ssl.TLSVersion.TLSv1_2
    made.options |= ssl.OP_NO_RENEGOTIATION  # API servers never do, and a write never has to read
    made.set_alpn_protocols(["http/1.1"])
    if endpoint.strict:
        made.verify_flags |= ssl.VERIFY_X509_STRICT
    else:
        # As in Go, any certificate that the operator set as authority ends the chain, even an
        # intermediate.
        made.verify_flags &= ~ssl.VERIFY_X509_STRICT
        made.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    _load_authorities(made, endpoint)
    if endpoint.client_cert:
        _load_client(made, endpoint)
    return made


def _load_authorities(made: ssl.SSLContext, endpoint: Endpoint) -> None:
    if not endpoint.ca:
        made.load_default_certs()
        return
    try:
        made.load_verify_locations(cadata=endpoint.ca.decode("ascii"))
    except (ssl.SSLError, UnicodeDecodeError, ValueError) as problem:
        raise CredentialsError(
            f"the certificate authority given for {endpoint.title} is not PEM"
        ) from problem


def _load_client(made: ssl.SSLContext, endpoint: Endpoint) -> None:
    try:
        with _write_temp_file(endpoint.client_cert + b"\n" + endpoint.client_key) as path:
            # Without a password OpenSSL would ask for one at the terminal.
            made.load_cert_chain(path, password=b"")
    except (ssl.SSLError, ValueError, OSError) as problem:
        raise CredentialsError(
            f"the client certificate for {endpoint.title} cannot be used: certificate and key must"
            " be PEM, belong together, and the key must not be encrypted"
        ) from problem


@contextlib.contextmanager
def _write_temp_file(content: bytes) -> Iterator[str]:
    if hasattr(os, "memfd_create"):
        with os.fdopen(os.memfd_create("client", os.MFD_CLOEXEC), "wb") as handle:
            handle.write(content)
            handle.flush()
            yield f"/proc/self/fd/{handle.fileno()}"
        return
    with tempfile.NamedTemporaryFile() as handle:  # created with mode 0600
        handle.write(content)
        handle.flush()
        yield handle.name
