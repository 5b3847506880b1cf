"""Limits of concurrent streams, per tenant and in all. Pure.

The module must not know sockets. Hazard: every place must be released, so only a context manager
assigns one. Otherwise a lost place shuts a tenant out for ever.
"""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from vnagent.protocol.errors import RefusalReason, RequestRefusedError

MAX_STREAMS_PER_TENANT = 256
MAX_STREAMS = 1024
RESERVED_STREAMS_PER_TENANT = 16
"""Number of streams below which a tenant may use the last quarter of all places. Otherwise tenants
at their own limit would shut it out. With fewer places in all, a quarter of them is the number.
"""
REQUEST_BURST_PER_STREAM = 2
"""Burst of one tenant's requests for each stream that it may have."""
REQUEST_INTERVAL_SECONDS = 0.02
"""Sustained interval in seconds between two requests of one tenant. Other tenants wait for the
milliseconds of each.
"""
BYTES_PER_REQUEST_TURN = 8 * 1024
"""Bytes of a request target that count as one request. A longer target counts as several."""
MAX_RUNS_PER_TENANT = 2
MAX_RUNS = 4
"""Limit of `run` calls. The kubelet and the runtime keep the whole output in memory until the end.
"""
RUN_SECONDS = 600.0
"""Limit in seconds for the command of a `run`."""


@contextmanager
def count_place(places: Counter[str], holder: str) -> Iterator[None]:
    """Count one more place of a holder, and drop a holder without places."""
    places[holder] += 1
    try:
        yield
    finally:
        places[holder] -= 1
        if not places[holder]:
            del places[holder]


class StreamLimiter:
    """Counter of tenants' streams that refuses streams above the limits."""

    def __init__(
        self,
        *,
        per_tenant: int = MAX_STREAMS_PER_TENANT,
        total: int = MAX_STREAMS,
        what: str = "streams",
    ) -> None:
        self._per_tenant = per_tenant
        self._total = total
        self._what = what
        self._reserved_per_tenant = max(1, min(RESERVED_STREAMS_PER_TENANT, total // 4))
        self._reserved_total = total // 4 if total >= RESERVED_STREAMS_PER_TENANT else 0
        self._open: Counter[str] = Counter()
        self._is_draining = False

    @property
    def count(self) -> int:
        """The number of open streams."""
        return self._open.total()

    def stop_accepting(self) -> None:
        """Refuse new streams. Open streams go on."""
        self._is_draining = True

    @contextmanager
    def hold_stream(self, vc_uid: str) -> Iterator[None]:
        """Reserve a place for one stream. Raises RefusedError without a free place."""
        if self._is_draining:
            raise RequestRefusedError(
                503, RefusalReason.DRAINING, "the node agent is restarting. Try again"
            )
        if self._open[vc_uid] >= self._per_tenant:
            raise RequestRefusedError(
                429,
                RefusalReason.TENANT_FULL,
                f"this cluster has {self._per_tenant} {self._what} open on the node, which is the"
                " limit. End some and try again",
            )
        if (
            self._open[vc_uid] >= self._reserved_per_tenant
            and self.count >= self._total - self._reserved_total
        ):
            raise RequestRefusedError(
                429,
                RefusalReason.TENANT_FULL,
                f"this cluster has {self._open[vc_uid]} {self._what} open on the node, and the"
                " remaining places are reserved for tenants with fewer. End some and try again",
            )
        if self.count >= self._total:
            raise RequestRefusedError(
                429,
                RefusalReason.AGENT_FULL,
                f"the node has {self._total} {self._what} open, which is the limit. Try again",
            )
        with count_place(self._open, vc_uid):
            yield
