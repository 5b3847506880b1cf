"""Limits of what one tenant may use in the syncer, in one table.

Owns the share of each kind, the limits of one answer, the pauses of a tenant over its limits, and
the rate of its writes. Pure. Must not know how a limit is enforced. That is in
`kubeio.cache.cache_budget` and `kubeio.controller.bucket_rate_limiter`.

Hazard: the limits must hold for a tenant API server that answers what it likes. Otherwise one
tenant ends the syncer for all tenants, and the next syncer as well, because it lists the same
objects.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from kubeio.cache.cache_budget import MIB, CacheLimit, CacheLimits

DEFAULT_TENANT_CACHE_BYTES = 256 * MIB
"""Bytes that the caches of one tenant may use. It is room for about 20,000 usual pods."""
TENANT_SHARE = 0.25
"""Share of the memory limit of the process that the caches of one tenant may use.

The copies in the super cluster are cached as well, so a tenant may use twice its share.
"""
MAX_TENANT_OBJECTS = 200_000
MAX_OBJECT_BYTES = 3 * MIB
"""Bytes of one object that is kept: the largest request that API servers accept."""
MAX_TENANT_RESPONSE_BYTES = 8 * MIB
"""Bytes of one answer of a tenant's API server. A larger page is read in smaller pages.

Ten answers of a tenant may be in work: eight of its keys, and two pages.
"""
MAX_TENANT_LINE_BYTES = 4 * MIB
"""Bytes of one watch event of a tenant.

All its watches together may have 100 MiB of unfinished events, which count as cached objects.
"""
AWAY_BASE_SECONDS = 240.0
"""First pause in seconds of a tenant over its limits, less up to half of it at random. Shorter
pauses would mostly read the same objects again.
"""
AWAY_MAX_SECONDS = 1200.0
"""Longest pause in seconds of a tenant that is over its limits again and again."""
WRITE_BYTES_PER_SECOND = 1.0 * MIB
"""Bytes per second that a tenant may write into super clusters, which are some 200 pods."""
WRITE_BURST_BYTES = 64 * MIB
"""Bytes that a tenant may write at once, some 12,000 pods."""

_REDUCED_LIST_BYTES = 4 * 1024 * MIB
"""Bytes of a list of which only outlines are kept. No etcd has more."""
_EACH_SHARE = 0.25
_SHARES: Mapping[str, float] = {
    "Pod": 0.75,
    "ConfigMap": 0.5,
    "Secret": 0.5,
    "EndpointSlice": 0.5,
}
"""Share of a tenant's bytes that one kind may use. Other kinds have `_EACH_SHARE`."""
_REDUCED_KINDS = frozenset({"ConfigMap", "Secret"})


def build_cache_limits(total_bytes: int) -> CacheLimits:
    """Return the limits of a tenant whose caches may use `total_bytes`."""
    return CacheLimits(
        total=CacheLimit(max_bytes=total_bytes, max_objects=MAX_TENANT_OBJECTS),
        each_kind=CacheLimit(
            max_bytes=int(total_bytes * _EACH_SHARE), max_objects=MAX_TENANT_OBJECTS // 2
        ),
        kinds={
            kind: CacheLimit(
                max_bytes=int(total_bytes * share),
                max_objects=MAX_TENANT_OBJECTS // 2,
                max_listed_bytes=_REDUCED_LIST_BYTES if kind in _REDUCED_KINDS else 0,
            )
            for kind, share in _SHARES.items()
        },
        max_object_bytes=MAX_OBJECT_BYTES,
    )


def choose_tenant_bytes(process_limit: int | None) -> int:
    """Return the bytes of one tenant for a process with a memory limit of this many bytes."""
    if process_limit is None:
        return DEFAULT_TENANT_CACHE_BYTES
    return min(DEFAULT_TENANT_CACHE_BYTES, int(process_limit * TENANT_SHARE))


@dataclass(frozen=True, slots=True, kw_only=True)
class TenantLimits:
    """Limits of every tenant, and what happens to a tenant over them."""

    cache: CacheLimits = field(
        default_factory=lambda: build_cache_limits(DEFAULT_TENANT_CACHE_BYTES)
    )
    away_base_seconds: float = AWAY_BASE_SECONDS
    away_max_seconds: float = AWAY_MAX_SECONDS
    write_bytes_per_second: float = WRITE_BYTES_PER_SECOND
    """Bytes that a tenant may write into super clusters per second after a burst. 0: no limit."""
    write_burst_bytes: int = WRITE_BURST_BYTES
