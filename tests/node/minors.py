"""The minors of kubectl that users of a tenant may have, as parameters of tests."""

import pytest

from tools.testbed import versions

_TABLE = versions.load()
MINORS = tuple(release.minor for release in (_TABLE.kubernetes[0], *_TABLE.kubectl))
"""The newest first."""
_THOROUGH, _SLOW = pytest.mark.thorough, pytest.mark.slow
EACH = (
    MINORS[0],
    *(pytest.param(minor, marks=(_THOROUGH, _SLOW)) for minor in MINORS[1:-1]),
    pytest.param(MINORS[-1], marks=_THOROUGH),
)
"""For whole matrices: the oldest takes its time, and those between the two are tried by hand."""
