"""Table of the limits of one tenant."""

from __future__ import annotations

import pytest

from kubeio.cache.cache_budget import MIB
from syncer.safety import cache_limits


@pytest.mark.parametrize(
    ("process", "tenant"), [(None, 256), (512 * MIB, 128), (1024 * MIB, 256), (8192 * MIB, 256)]
)
def test_a_tenant_has_at_most_a_quarter_of_the_process(process, tenant):
    assert cache_limits.choose_tenant_bytes(process) == tenant * MIB


def test_no_kind_may_use_more_than_the_sum():
    limits = cache_limits.build_cache_limits(128 * MIB)
    assert limits.total.max_bytes == 128 * MIB
    for limit in (limits.each_kind, *limits.kinds.values()):
        assert limit.max_bytes < limits.total.max_bytes
        assert limit.listed_bytes >= 2 * limit.max_bytes
    assert limits.kinds["Secret"].listed_bytes > 1024 * MIB, "a list of outlines may be long"
    assert "NetworkPolicy" not in limits.kinds
