"""A machine that enforces no NetworkPolicies skips the tests of packets, and fails them in CI."""

import pytest

from tests.support import enforcement


def test_without_enforcement_a_test_is_skipped_and_fails_in_ci(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("CI", raising=False)
    with pytest.raises(pytest.skip.Exception, match="no packet is tried"):
        enforcement.require(enforces=False)
    monkeypatch.setenv("CI", "true")
    with pytest.raises(pytest.fail.Exception, match="Load the kernel modules xt_NFQUEUE"):
        enforcement.require(enforces=False)
    enforcement.require(enforces=True)
