"""Fixtures of vc-manager's unit tests."""

from tests.support.vcmanager.phase_runs import finished

__all__ = ["finished"]
