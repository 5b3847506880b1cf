"""Limits of concurrent streams, per tenant and in all. Pure.

The module must not know sockets. Hazard: every place must be released, so only a context manager
assigns one. Otherwise a lost place shuts a tenant out for ever.
"""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from vnagent.protocol.errors import Reason, RefusedError

STREAMS_PER_TENANT = 256
STREAMS = 1024
FEW_STREAMS = 16
"""Number of streams below which a tenant may use the last quarter of all places. Otherwise tenants
at their own limit would shut it out. With fewer places in all, a quarter of them is the number.
"""
REQUESTS_AT_ONCE = 2
"""Burst of one tenant's requests for each stream that it may have."""
REQUEST_SECONDS = 0.02
"""Sustained interval in seconds between two requests of one tenant. Other tenants wait for the
milliseconds of each.
"""
BYTES_OF_A_REQUEST = 8 * 1024
"""Bytes of a request target that count as one request. A longer target counts as several."""
RUNS_PER_TENANT = 2
RUNS = 4
"""Limit of `run` calls. The kubelet and the runtime keep the whole output in memory until the end.
"""
RUN_SECONDS = 600.0
"""Limit in seconds for the command of a `run`."""


@contextmanager
def counted(places: Counter[str], holder: str) -> Iterator[None]:
    """Count one more place of a holder, and drop a holder without places."""
    places[holder] += 1
    try:
        yield
    finally:
        places[holder] -= 1
        if not places[holder]:
            del places[holder]


class Streams:
    """Counter of tenants' streams that refuses streams above the limits."""

    def __init__(
        self, *, per_tenant: int = STREAMS_PER_TENANT, total: int = STREAMS, what: str = "streams"
    ) -> None:
        self._per_tenant = per_tenant
        self._total = total
        self._what = what
        self._few = max(1, min(FEW_STREAMS, total // 4))
        self._kept = total // 4 if total >= FEW_STREAMS else 0
        self._open: Counter[str] = Counter()
        self._is_draining = False

    @property
    def count(self) -> int:
        """The number of open streams."""
        return self._open.total()

    def drain(self) -> None:
        """Refuse new streams. Open streams go on."""
        self._is_draining = True

    @contextmanager
    def one(self, vc_uid: str) -> Iterator[None]:
        """Reserve a place for one stream. Raises RefusedError without a free place."""
        if self._is_draining:
            raise RefusedError(503, Reason.DRAINING, "the node agent is restarting; try again")
        if self._open[vc_uid] >= self._per_tenant:
            raise RefusedError(
                429,
                Reason.TENANT_FULL,
                f"this cluster has {self._per_tenant} {self._what} open on the node, which is"
                " the limit; end some and try again",
            )
        if self._open[vc_uid] >= self._few and self.count >= self._total - self._kept:
            raise RefusedError(
                429,
                Reason.TENANT_FULL,
                f"this cluster has {self._open[vc_uid]} {self._what} open on the node, whose last"
                " places are for those that have few; end some and try again",
            )
        if self.count >= self._total:
            raise RefusedError(
                429,
                Reason.AGENT_FULL,
                f"the node has {self._total} {self._what} open, which is the limit; try again",
            )
        with counted(self._open, vc_uid):
            yield
