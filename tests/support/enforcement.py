"""Demand of a test for a super cluster that enforces NetworkPolicies."""

import os

import pytest


def require(*, enforces: bool) -> None:
    """Skip the test without enforcement. In CI fail it, because no packet would be tried there."""
    if enforces:
        return
    text = (
        "the testbed enforces no NetworkPolicies, so no packet is tried. Load the kernel modules"
        " xt_NFQUEUE and xt_owner, and start the cluster again"
    )
    if os.environ.get("CI") == "true":
        pytest.fail(text, pytrace=False)
    pytest.skip(text)
