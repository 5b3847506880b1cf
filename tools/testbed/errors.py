"""The one exception of the testbed: a sentence for the person at the terminal."""

from __future__ import annotations


class TestbedError(Exception):
    """What happened, to which object, and what to do; printed without a traceback."""

    __test__ = False  # pytest collects classes whose names begin with Test
