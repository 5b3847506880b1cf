"""The Authorization header of each credential."""

from __future__ import annotations

import os

import pytest

from kubeio.config.credentials import Credentials
from kubeio.config.endpoint import Endpoint
from kubeio.errors import CredentialsError


class CredentialsClock:
    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


def _endpoint(**fields):
    return Endpoint(server="https://x", **fields)


def test_a_fixed_token_is_a_bearer():
    found = Credentials(_endpoint(token="abc"))
    assert found.get_header() == "Bearer abc"
    assert found.refresh() is False


def test_a_certificate_alone_needs_no_header():
    assert Credentials(_endpoint()).get_header() == ""


def test_a_changed_file_is_seen_within_a_second(tmp_path):
    file, clock = tmp_path / "token", CredentialsClock()
    file.write_text("one\n")
    found = Credentials(_endpoint(token_file=file), clock)
    assert found.get_header() == "Bearer one"
    file.write_text("two\n")
    os.utime(file, ns=(1, 1))
    assert found.get_header() == "Bearer one"  # the last look is too recent
    clock.now += 1.0
    assert found.get_header() == "Bearer two"


def test_the_kubelets_swap_of_links_is_seen(tmp_path):
    for name in ("v1", "v2"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "token").write_text(name)
        os.utime(tmp_path / name / "token", ns=(1, 1))
    (tmp_path / "data").symlink_to("v1")
    clock = CredentialsClock()
    found = Credentials(_endpoint(token_file=tmp_path / "data" / "token"), clock)
    (tmp_path / "new").symlink_to("v2")
    (tmp_path / "new").rename(tmp_path / "data")
    clock.now += 1.0
    assert found.get_header() == "Bearer v2"


def test_after_a_401_the_file_is_read_whatever_its_stamp(tmp_path):
    file = tmp_path / "token"
    file.write_text("one")
    os.utime(file, ns=(1, 1))
    found = Credentials(_endpoint(token_file=file), CredentialsClock())
    assert found.refresh() is False
    file.write_text("two")
    os.utime(file, ns=(1, 1))
    assert found.refresh() is True
    assert found.get_header() == "Bearer two"


def test_a_file_gone_for_a_moment_keeps_the_token(tmp_path):
    file, clock = tmp_path / "token", CredentialsClock()
    file.write_text("one")
    found = Credentials(_endpoint(token_file=file), clock)
    file.unlink()
    clock.now += 5.0
    assert found.get_header() == "Bearer one"


@pytest.mark.parametrize("content", [None, b"", b"\n", b"a\nb", "tökén".encode()])
def test_no_usable_token_is_a_sentence(tmp_path, content):
    file = tmp_path / "token"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(CredentialsError, match="token"):
        Credentials(_endpoint(token_file=file))
