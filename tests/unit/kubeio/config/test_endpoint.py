"""Values that an endpoint refuses, and values that it never shows."""

from __future__ import annotations

import pytest

from kubeio.config.endpoint import Endpoint, compute_digest
from kubeio.errors import CredentialsError


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
    with pytest.raises(CredentialsError, match="not an https URL"):
        Endpoint(server=server)


@pytest.mark.parametrize("server", ["http://localhost:1", "http://127.0.0.1:1", "http://[::1]:1"])
def test_loopback_may_do_without(server):
    assert not Endpoint(server=server).is_encrypted


@pytest.mark.parametrize("server", ["https://x", "HTTPS://x", "Https://10.0.0.5:6443"])
def test_https_is_encrypted_however_it_is_spelled(server):
    assert Endpoint(server=server).is_encrypted


@pytest.mark.parametrize(
    "server", [" https://x", "\nhttps://x", "ht\ttps://x", "https://x\r\n", "https://a..b"]
)
def test_a_url_that_is_read_in_two_ways_is_refused(server):
    with pytest.raises(CredentialsError):
        Endpoint(server=server)


@pytest.mark.parametrize("name", ["a..b", ".foo", "x" * 64, "a\0b"])
def test_a_name_that_tls_cannot_have_is_refused(name):
    with pytest.raises(CredentialsError, match="not a host"):
        Endpoint(server="https://x", tls_server_name=name)


@pytest.mark.parametrize("half", [{"client_cert": b"c"}, {"client_key": b"k"}])
def test_half_a_pair_is_refused(half):
    with pytest.raises(CredentialsError, match="without the other"):
        Endpoint(server="https://x", **half)


def test_another_credential_is_another_endpoint_and_no_secret_is_in_the_digest():
    """A2-05."""
    one = Endpoint(server="https://a", ca=b"x", token="one")
    two = Endpoint(server="https://a", ca=b"x", token="two")
    assert compute_digest(one) == compute_digest(Endpoint(server="https://a", ca=b"x", token="one"))
    assert compute_digest(one) != compute_digest(two)
    assert "one" not in compute_digest(one)
