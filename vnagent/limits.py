"""How many streams are open, per tenant and in all; pure.

Must not know sockets. Hazard: a count that is not given back shuts a tenant out for ever, so a
stream is counted by a context manager alone.
"""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from vnagent.refusals import Reason, RefusedError

STREAMS_PER_TENANT = 256
STREAMS = 1024


class Streams:
    """Counts streams and refuses one too many."""

    def __init__(self, *, per_tenant: int = STREAMS_PER_TENANT, total: int = STREAMS) -> None:
        self._per_tenant = per_tenant
        self._total = total
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
                f"this cluster has {self._per_tenant} streams open on the node, which is the"
                " limit; end some and try again",
            )
        if self.count >= self._total:
            raise RefusedError(
                429,
                Reason.AGENT_FULL,
                f"the node has {self._total} streams open, which is the limit; try again later",
            )
        self._open[vc_uid] += 1
        try:
            yield
        finally:
            self._open[vc_uid] -= 1
            if not self._open[vc_uid]:
                del self._open[vc_uid]
