"""Rules for requests to the pages, and the headers of every answer. Pure.

Hazard: every program and web page on this machine can send requests to loopback. Each rule here
must pass before a handler runs. Otherwise another web page could read the user's clusters.
"""

import hmac
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field

LOOPBACK = "127.0.0.1"
COOKIE = "kubectl-vc-ui"
KEY_PARAMETER = "key"
"""Parameter of the printed URL with the secret."""
_METHODS = frozenset({"GET", "HEAD"})
_SECRET_BYTES = 32
_PREFIX_BYTES = 8

SECURITY_HEADERS: Mapping[str, str] = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self';"
        " connect-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
    "Server": "kubectl-vc",
}


@dataclass(frozen=True, slots=True)
class Refusal:
    """An answer instead of a page."""

    status: int
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessSecrets:
    """Secrets of one run of the server, and its port.

    A cookie is sent to every port of a host. Therefore the cookie applies only to a path that
    nothing else on this machine knows.
    """

    port: int
    key: str = field(default_factory=lambda: secrets.token_urlsafe(_SECRET_BYTES), repr=False)
    """Secret of the printed URL."""
    cookie: str = field(default_factory=lambda: secrets.token_urlsafe(_SECRET_BYTES), repr=False)
    prefix: str = field(default_factory=lambda: f"/{secrets.token_hex(_PREFIX_BYTES)}/")
    """Path of all pages."""

    @property
    def hosts(self) -> frozenset[str]:
        """Return the accepted values of the header Host."""
        return frozenset({f"{LOOPBACK}:{self.port}", f"localhost:{self.port}"})

    @property
    def url(self) -> str:
        """Return the URL for the user's browser, with the secret."""
        return f"http://{LOOPBACK}:{self.port}{self.prefix}?{KEY_PARAMETER}={self.key}"


def is_key(secret: AccessSecrets, given: str) -> bool:
    """Return whether this is the secret of the printed URL, in constant time."""
    return hmac.compare_digest(secret.key.encode(), given.encode("utf-8", "surrogateescape"))


def refuse_request(
    secret: AccessSecrets, *, method: str, host: str, cookie: str, key: str
) -> Refusal | None:
    """Return why a request gets no page, or None.

    The host is checked against DNS rebinding: a foreign name that resolves to loopback has another
    Host header.
    """
    if host not in secret.hosts:
        return Refusal(421, "This host is not served. Use the printed URL.")
    if method not in _METHODS:
        return Refusal(405, "Only GET is served. These pages change nothing.")
    given = cookie.encode("utf-8", "surrogateescape")
    if not hmac.compare_digest(secret.cookie.encode(), given) and not is_key(secret, key):
        return Refusal(403, "The secret is missing. Open the URL that kubectl vc ui printed.")
    return None
