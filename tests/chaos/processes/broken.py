"""`python -m tests.chaos.processes.broken MUTANT ...`: the syncer, broken on purpose in one way.

The ways are those of `tests.chaos.mutants` and a few that only a process of its own
can be broken in; what follows are the syncer's own options. A drill that does not find it proves
nothing.
"""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Iterator

from kubeio.api import leader_election
from kubeio.api.leader_election import LeaderElector
from syncer.__main__ import main
from tests.chaos import mutants


def no_fence() -> None:
    """Whoever had the Lease writes until somebody stops it."""
    setattr(LeaderElector, "check_fence", lambda _: None)  # noqa: B010 - in place of a method


def leases_by_the_wall_clock() -> None:
    """Who holds a Lease, and for how long, is told by a clock that people set."""
    defaults = LeaderElector.__init__.__kwdefaults__ or {}
    defaults["clock"] = time.time
    leader_election.LeaseObserver.__init__.__defaults__ = (time.time,)


OWN = {each.__name__: each for each in (no_fence, leases_by_the_wall_clock)}
NAMES = (*mutants.MUTANTS, *OWN)


@contextlib.contextmanager
def broken(name: str) -> Iterator[None]:
    """Run the syncer broken in one way for the length of a block, at least."""
    if name in OWN:
        OWN[name]()
        yield
        return
    with mutants.broken(name):
        yield


if __name__ == "__main__":
    with broken(sys.argv[1]):
        sys.exit(main(sys.argv[2:]))
