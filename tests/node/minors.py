"""The minors of kubectl that users of a tenant may have, as parameters of tests."""

import pytest

from tests.testbed import versions

_TABLE = versions.load()
MINORS = tuple(release.minor for release in (_TABLE.kubernetes[0], *_TABLE.kubectl))
"""The newest first."""
EACH = (MINORS[0], *(pytest.param(minor, marks=pytest.mark.thorough) for minor in MINORS[1:]))
"""For whole matrices: the older ones take their time."""
