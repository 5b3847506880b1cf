"""How many streams there are, per tenant and in all; pure.

Must not know sockets. Hazard: a count that is not given back shuts a tenant out for ever, so a
place is held by a context manager alone.
"""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from vnagent.protocol.errors import Reason, RefusedError

STREAMS_PER_TENANT = 256
STREAMS = 1024
FEW_STREAMS = 16
"""A tenant that has fewer gets one of the last quarter of all places, which others do not: those
who have all that they may would shut it out. With fewer places in all, a quarter of them is few."""
REQUESTS_AT_ONCE = 2
"""Of one tenant, for each stream that it may have."""
REQUEST_SECONDS = 0.02
"""Between two requests of one tenant for long: others wait for the milliseconds of each."""
BYTES_OF_A_REQUEST = 8 * 1024
"""Of its target; a longer one counts for several."""
RUNS_PER_TENANT = 2
RUNS = 4
"""Of `run`, whose whole output a node keeps in its kubelet and its runtime until the end."""
RUN_SECONDS = 600.0
"""For such a command to end."""


@contextmanager
def counted(places: Counter[str], holder: str) -> Iterator[None]:
    """Count one more of a holder's places, and forget a holder who has none."""
    places[holder] += 1
    try:
        yield
    finally:
        places[holder] -= 1
        if not places[holder]:
            del places[holder]


class Streams:
    """Counts the streams of tenants and refuses one too many."""

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
        """How many streams are open."""
        return self._open.total()

    def drain(self) -> None:
        """Take no more; those that are open go on."""
        self._is_draining = True

    @contextmanager
    def one(self, vc_uid: str) -> Iterator[None]:
        """Hold a place for one stream; raises RefusedError when there is none."""
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
