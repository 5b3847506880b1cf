"""The one exception of the testbed: one sentence for the user."""

from __future__ import annotations


class TestbedError(Exception):
    """A failure: the event, the object and the remedy. Printed without a traceback."""

    __test__ = False  # pytest collects classes whose names begin with Test
