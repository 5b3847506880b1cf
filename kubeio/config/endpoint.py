"""Address and credentials of one API server, as values and not as files.

Must not know the source of them (`kubeio.config.loading`).

Hazard: no field may be logged, and the repr shows the server only. The fields contain keys and
tokens.
"""

import hashlib
import ipaddress
import re
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from kubeio.errors import CredentialsError

NO_SERVER_MESSAGE = (
    "the server is not the URL of an API server. Write it like https://10.0.0.5:6443"
)
_PRINTABLE = re.compile(r"[\x21-\x7e]+")


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Endpoint:
    """Address of an API server and the credentials for it."""

    server: str
    """URL: https, or http on a loopback address."""
    name: str = ""
    """Name of the cluster in messages. Empty: the server's URL."""
    ca: bytes = b""
    """PEM of the authorities that may sign the server's certificate. Empty: the system's."""
    client_cert: bytes = b""
    client_key: bytes = b""
    token: str = ""
    token_file: Path | None = None
    """File of a bound token. It is read again when it changes and when the server answers 401."""
    authorization: str = ""
    """A whole Authorization header, for credentials other than bearer tokens."""
    tls_server_name: str = ""
    """Name that the server's certificate must have, if it is not the URL's."""
    strict: bool = True
    """Check chains strictly by RFC 5280: on for tenants' API servers, off for super clusters."""
    impersonate: str = ""
    """User to impersonate, as far as the credentials allow.

    Only ever set from a person's own flag.
    """
    impersonate_groups: tuple[str, ...] = ()
    proxy: str = ""
    """URL of an HTTP proxy, only ever from a user's own kubeconfig."""

    def __post_init__(self) -> None:
        """Raise CredentialsProblem for values that could not be used safely."""
        try:
            url = urlsplit(self.server)
            _ = url.port  # read here, because later its ValueError is unexpected
        except ValueError as problem:
            raise CredentialsError(NO_SERVER_MESSAGE) from problem
        # urlsplit ignores blanks and line breaks that other parsers read as part of a scheme.
        if (self.server and not _PRINTABLE.fullmatch(self.server)) or not _is_host_name(
            url.hostname or ""
        ):
            raise CredentialsError(NO_SERVER_MESSAGE)
        if not _is_host_name(self.tls_server_name):
            raise CredentialsError("the TLS server name is not a host name. Correct it")
        if self.token and not is_header_value(self.token):
            raise CredentialsError("the token has characters that no token has. Write it again")
        if url.scheme == "http" and _is_loopback(url.hostname or ""):
            return
        if url.scheme != "https" or not url.hostname:
            raise CredentialsError(  # quotes nothing: a password may stand in a URL
                "the server is not an https URL. Write it like https://10.0.0.5:6443. Only a"
                " loopback address may be used without TLS"
            )
        if "@" in url.netloc:  # messages name the server
            raise CredentialsError(f"{NO_SERVER_MESSAGE}, without a user or a password")
        if bool(self.client_cert) != bool(self.client_key):
            raise CredentialsError(
                f"the credentials for {self.server} have a client certificate or a key without the"
                " other. Set both"
            )

    def __repr__(self) -> str:
        """Return the server and no secret."""
        return f"Endpoint({self.title})"

    @property
    def title(self) -> str:
        """Return the name of this cluster in messages."""
        return self.name or self.server

    @property
    def is_encrypted(self) -> bool:
        """Return whether the connection uses TLS."""
        return urlsplit(self.server).scheme == "https"  # which has no capitals, as a URL may


def is_header_value(text: str) -> bool:
    """Return whether a text is safe in a header. After a line break another header would begin."""
    return _PRINTABLE.fullmatch(text) is not None


def _is_host_name(host: str) -> bool:
    """Return whether TLS accepts a text as a host name. TLS encodes the name so, or raises."""
    try:
        host.encode("idna")
    except UnicodeError:
        return False
    return "\0" not in host


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def compute_digest(endpoint: Endpoint) -> str:
    """Return a digest that differs for different endpoints. It reveals no secret."""
    parts = (
        endpoint.server.encode(),
        endpoint.tls_server_name.encode(),
        endpoint.ca,
        endpoint.client_cert,
        endpoint.client_key,
        endpoint.token.encode(),
    )
    return hashlib.sha256(b"\0".join(hashlib.sha256(part).digest() for part in parts)).hexdigest()
