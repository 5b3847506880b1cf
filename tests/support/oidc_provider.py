"""A certified OpenID Connect provider on loopback: oidc-provider of npm, in a process of its own.

A user signs in as a browser does: by the provider's pages, with cookies and redirects. The step
`prepare` of `tools/testbed/artifacts/oidc_server.py` installs the packages.
"""

from __future__ import annotations

import base64
import http.client
import json
import ssl
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.cookies import SimpleCookie
from pathlib import Path
from urllib.parse import parse_qs, urlencode, urljoin, urlsplit

import trustme
from cryptography.hazmat.primitives.asymmetric import rsa

from tests.support.processes import free_port
from tools.testbed.artifacts import oidc_server
from tools.testbed.progress import StepPrinter

CLIENT, SECRET = "kubernetes", "a-secret-for-tests"
REDIRECT = "https://client.example.com/callback"


class OidcProvider:
    """The provider. Use `running_provider`."""

    def __init__(self, folder: Path, users: Mapping[str, list[str]]) -> None:
        """Write the certificate. `users` has the groups of each user."""
        self.folder = folder
        self.port = free_port()
        self.url = f"https://127.0.0.1:{self.port}"
        self._users = dict(users)
        self._authority = trustme.CA()
        self._process: subprocess.Popen[bytes] | None = None
        certificate = self._authority.issue_cert("127.0.0.1")
        (folder / "tls.crt").write_bytes(b"".join(p.bytes() for p in certificate.cert_chain_pems))
        (folder / "tls.key").write_bytes(certificate.private_key_pem.bytes())

    @property
    def authority(self) -> str:
        """Return the certificate of the authority, in PEM."""
        return self._authority.cert_pem.bytes().decode()

    def start(self) -> None:
        """Start the provider with a new key. Tokens of the key before are no longer good."""
        self.stop()
        settings = {
            "issuer": self.url,
            "port": self.port,
            "client": CLIENT,
            "secret": SECRET,
            "redirect": REDIRECT,
            "users": self._users,
            "keys": [_build_key()],
        }
        (self.folder / "settings.json").write_text(json.dumps(settings))
        folder = oidc_server.build(StepPrinter(quiet=True))
        with (self.folder / "provider.log").open("ab") as log:
            self._process = subprocess.Popen(
                ["node", str(folder / oidc_server.PROGRAM), str(self.folder)],
                stdout=log,
                stderr=log,
            )
        ends = time.monotonic() + 60
        while True:
            try:
                self._exchange("GET", f"{self.url}/.well-known/openid-configuration", {})
            except OSError:
                if time.monotonic() > ends or self._process.poll() is not None:
                    text = (self.folder / "provider.log").read_text()
                    raise AssertionError(f"the provider does not answer: {text}") from None
                time.sleep(0.1)
            else:
                return

    def stop(self) -> None:
        """Stop the provider."""
        if self._process is not None:
            self._process.terminate()
            self._process.wait(timeout=10)
            self._process = None

    def sign_in(self, user: str) -> str:
        """Sign a user in by the pages of the provider. Return the ID token."""
        query = {
            "client_id": CLIENT,
            "response_type": "code",
            "scope": "openid",
            "redirect_uri": REDIRECT,
            "state": "s",
            "nonce": "n",
        }
        cookies: dict[str, str] = {}
        url = f"{self.url}/auth?{urlencode(query)}"
        for _ in range(12):
            status, location, page = self._exchange("GET", url, cookies)
            if status == 200:  # a page that asks for the login, or for the consent
                prompt = "login" if 'name="login"' in page else "consent"
                form = {"prompt": prompt, "login": user, "password": "any"}
                _, location, _ = self._exchange("POST", url, cookies, urlencode(form))
            url = urljoin(url, location)
            if url.startswith(REDIRECT):
                return self._redeem(parse_qs(urlsplit(url).query)["code"][0])
        raise AssertionError(f"the sign-in did not end: {url}")

    def _redeem(self, code: str) -> str:
        form = {"grant_type": "authorization_code", "code": code, "redirect_uri": REDIRECT}
        login = base64.b64encode(f"{CLIENT}:{SECRET}".encode()).decode()
        _, _, text = self._exchange(
            "POST", f"{self.url}/token", {}, urlencode(form), authorization=f"Basic {login}"
        )
        return str(json.loads(text)["id_token"])

    def _exchange(
        self,
        method: str,
        url: str,
        cookies: dict[str, str],
        body: str | None = None,
        authorization: str = "",
    ) -> tuple[int, str, str]:
        """Send a request. Return status, location and body. The cookies are kept."""
        context = ssl.create_default_context(cadata=self.authority)
        headers = {"Cookie": "; ".join(f"{key}={value}" for key, value in cookies.items())}
        if body is not None:
            headers["Content-Type"] = "application/x-www-form-urlencoded"
        if authorization:
            headers["Authorization"] = authorization
        parts = urlsplit(url)
        connection = http.client.HTTPSConnection(
            "127.0.0.1", self.port, timeout=30, context=context
        )
        try:
            target = f"{parts.path}?{parts.query}" if parts.query else parts.path
            connection.request(method, target, body, headers)
            answer = connection.getresponse()
            text = answer.read().decode()
        finally:
            connection.close()
        assert answer.status < 400, text
        for line in answer.headers.get_all("Set-Cookie") or ():
            for key, morsel in SimpleCookie(line).items():
                cookies[key] = morsel.value
                if not morsel.value:
                    del cookies[key]
        return answer.status, answer.headers.get("Location", ""), text


@contextmanager
def running_provider(folder: Path, users: Mapping[str, list[str]]) -> Iterator[OidcProvider]:
    """Run the provider for the length of a block."""
    made = OidcProvider(folder, users)
    try:
        made.start()
        yield made
    finally:
        made.stop()


def _build_key() -> dict[str, str]:
    """Return a new private key as a JSON Web Key."""
    private = rsa.generate_private_key(public_exponent=65537, key_size=2048).private_numbers()
    numbers = {
        "n": private.public_numbers.n,
        "e": private.public_numbers.e,
        "d": private.d,
        "p": private.p,
        "q": private.q,
        "dp": private.dmp1,
        "dq": private.dmq1,
        "qi": private.iqmp,
    }
    encoded = {
        key: base64.urlsafe_b64encode(value.to_bytes((value.bit_length() + 7) // 8))
        .rstrip(b"=")
        .decode()
        for key, value in numbers.items()
    }
    return {"kty": "RSA", "use": "sig", "alg": "RS256", "kid": f"k{time.monotonic_ns()}", **encoded}
