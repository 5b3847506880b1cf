"""An OpenID Connect issuer on loopback: discovery and keys over TLS, and tokens by RS256.

It has only what an API server reads. It has no login page: a test asks for the token of a user.
"""

from __future__ import annotations

import base64
import json
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from uuid import uuid4

import trustme
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa

AUDIENCE = "kubernetes"


class OidcIssuer:
    """The issuer. Use `serving_issuer`."""

    def __init__(self) -> None:
        """Create the authority and the first key."""
        self._authority = trustme.CA()
        self._keys: list[tuple[str, rsa.RSAPrivateKey]] = []
        self.url = ""
        self.requested: list[str] = []
        self.rotate_keys()

    @property
    def authority(self) -> str:
        """Return the certificate of the authority, in PEM."""
        return self._authority.cert_pem.bytes().decode()

    def rotate_keys(self) -> None:
        """Replace the key. Tokens of the key before are no longer good."""
        key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        self._keys = [(f"key-{time.monotonic_ns()}", key)]

    def sign(self, user: str, groups: tuple[str, ...] = (), **claims: Any) -> str:
        """Return the token of a user, good for ten minutes.

        No two tokens are equal, because an API server keeps an accepted one for 10 s.
        """
        kid, key = self._keys[-1]
        now = int(time.time())
        payload = {
            "iss": self.url,
            "aud": AUDIENCE,
            "sub": user,
            "groups": list(groups),
            "iat": now,
            "exp": now + 600,
            "jti": str(uuid4()),
            **claims,
        }
        parts = [
            _encode(json.dumps(each).encode()) for each in ({"alg": "RS256", "kid": kid}, payload)
        ]
        signed = ".".join(parts).encode()
        signature = key.sign(signed, padding.PKCS1v15(), hashes.SHA256())
        return f"{signed.decode()}.{_encode(signature)}"

    def authenticator(self, **claim_mappings: Any) -> dict[str, Any]:
        """Return an entry of `spec.auth.jwt` for this issuer."""
        mappings = {
            "username": {"claim": "sub", "prefix": "oidc:"},
            "groups": {"claim": "groups", "prefix": "oidc:"},
            **claim_mappings,
        }
        issuer = {
            "url": self.url,
            "audiences": [AUDIENCE],
            "certificateAuthority": self.authority,
        }
        return {"issuer": issuer, "claimMappings": mappings}

    def answer(self, path: str) -> dict[str, Any] | None:
        """Return the document of a path."""
        self.requested.append(path)
        if path == "/.well-known/openid-configuration":
            return {
                "issuer": self.url,
                "jwks_uri": f"{self.url}/jwks",
                "response_types_supported": ["id_token"],
                "subject_types_supported": ["public"],
                "id_token_signing_alg_values_supported": ["RS256"],
            }
        return {"keys": [_public(kid, key) for kid, key in self._keys]} if path == "/jwks" else None

    def context(self) -> ssl.SSLContext:
        """Return the TLS context of the server."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._authority.issue_cert("127.0.0.1").configure_cert(context)
        return context


@contextmanager
def serving_issuer() -> Iterator[OidcIssuer]:
    """Serve an issuer in a thread for the length of a block."""
    issuer = OidcIssuer()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            found = issuer.answer(self.path)
            body = json.dumps(found or {}).encode()
            self.send_response(200 if found is not None else 404)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Write no line per request."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.socket = issuer.context().wrap_socket(server.socket, server_side=True)
    issuer.url = f"https://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield issuer
    finally:
        server.shutdown()
        server.server_close()
        thread.join(timeout=5)


def _encode(value: bytes) -> str:
    return base64.urlsafe_b64encode(value).rstrip(b"=").decode()


def _public(kid: str, key: rsa.RSAPrivateKey) -> dict[str, str]:
    numbers = key.public_key().public_numbers()
    return {
        "kty": "RSA",
        "use": "sig",
        "alg": "RS256",
        "kid": kid,
        "n": _encode(numbers.n.to_bytes((numbers.n.bit_length() + 7) // 8)),
        "e": _encode(numbers.e.to_bytes(3)),
    }
