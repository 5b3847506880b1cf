"""What an endpoint refuses and never shows."""

from __future__ import annotations

import pytest

from kubeio.endpoint import Endpoint
from kubeio.errors import CredentialsProblem


def test_the_repr_shows_no_secret():
    found = Endpoint(
        server="https://x:6443", token="tok-secret", client_cert=b"c", client_key=b"key-secret"
    )
    assert repr(found) == "Endpoint(https://x:6443)"
    assert "secret" not in f"{found}{found!r}"


@pytest.mark.parametrize(
    "server",
    [
        "http://10.0.0.1",
        "http://example.com",
        "ftp://x",
        "x:6443",
        "https://",
        "",
        "http://localhost.example.com",
    ],
)
def test_only_https_reaches_out(server):
    with pytest.raises(CredentialsProblem, match="no https URL"):
        Endpoint(server=server)


@pytest.mark.parametrize("server", ["http://localhost:1", "http://127.0.0.1:1", "http://[::1]:1"])
def test_loopback_may_do_without(server):
    assert not Endpoint(server=server).is_encrypted


@pytest.mark.parametrize("half", [{"client_cert": b"c"}, {"client_key": b"k"}])
def test_half_a_pair_is_refused(half):
    with pytest.raises(CredentialsProblem, match="without the other"):
        Endpoint(server="https://x", **half)
