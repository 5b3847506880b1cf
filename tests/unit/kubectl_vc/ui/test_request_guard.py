"""No page without the secret, the right host and GET."""

import dataclasses

import pytest

from kubectl_vc.ui import request_guard
from kubectl_vc.ui.request_guard import AccessSecrets, is_key, refuse_request

SECRET = AccessSecrets(port=8090)
GOOD = {"method": "GET", "host": "127.0.0.1:8090", "cookie": SECRET.cookie, "key": ""}


@pytest.mark.parametrize(
    ("changed", "status"),
    [
        ({}, None),
        ({"method": "HEAD"}, None),
        ({"host": "localhost:8090"}, None),
        ({"cookie": "", "key": SECRET.key}, None),
        ({"host": "evil.example:8090"}, 421),
        ({"host": "127.0.0.1"}, 421),
        ({"host": "127.0.0.1:80"}, 421),
        ({"host": ""}, 421),
        ({"method": "POST"}, 405),
        ({"method": "DELETE"}, 405),
        ({"cookie": ""}, 403),
        ({"cookie": SECRET.cookie[:-1]}, 403),
        ({"cookie": SECRET.key}, 403),
        ({"cookie": "", "key": SECRET.cookie}, 403),
        ({"cookie": "\udc80", "key": "\udc80"}, 403),
    ],
)
def test_each_rule_refuses(changed: dict[str, str], status: int | None):
    """SEC-260."""
    refusal = refuse_request(SECRET, **{**GOOD, **changed})
    assert (refusal and refusal.status) == status


def test_two_runs_have_nothing_in_common():
    one, two = AccessSecrets(port=1), AccessSecrets(port=1)
    for each in ("key", "cookie", "prefix"):
        assert getattr(one, each) != getattr(two, each)
    assert not is_key(one, two.key)
    assert one.key in one.url
    assert one.key not in repr(one)
    assert one.cookie not in repr(one)
    assert dataclasses.replace(one, port=2).url.startswith("http://127.0.0.1:2/")


def test_no_script_but_the_own_files_can_run():
    policy = request_guard.SECURITY_HEADERS["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert "http" not in policy
