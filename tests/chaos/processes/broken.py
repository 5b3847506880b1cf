"""`python -m tests.chaos.processes.broken MUTANT ...`: the syncer with one planted fault.

The faults are those of `tests.chaos.mutants`, and a few that need a process of their own. The
syncer's own options follow the name of the fault. A drill that does not find the fault proves
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
from syncer.lifecycle import inactive_tenants
from tests.chaos import mutants


def no_fence() -> None:
    """A replica that has lost the Lease continues to write."""
    setattr(LeaderElector, "check_fence", lambda _: None)  # noqa: B010 - in place of a method


def leases_use_the_wall_clock() -> None:
    """The age of a Lease is measured with a clock that people set."""
    defaults = LeaderElector.__init__.__kwdefaults__ or {}
    defaults["clock"] = time.time
    leader_election.LeaseObserver.__init__.__defaults__ = (time.time,)


def kept_pods_are_stopped() -> None:
    """A sleep deletes pods that it shall keep."""
    inactive_tenants._ASLEEP = inactive_tenants._ASLEEP_WITHOUT_PODS


OWN = {each.__name__: each for each in (no_fence, leases_use_the_wall_clock, kept_pods_are_stopped)}
NAMES = (*mutants.MUTANTS, *OWN)


@contextlib.contextmanager
def broken(name: str) -> Iterator[None]:
    """Run the syncer with one planted fault, at least for the length of a block."""
    if name in OWN:
        OWN[name]()
        yield
        return
    with mutants.broken(name):
        yield


if __name__ == "__main__":
    with broken(sys.argv[1]):
        sys.exit(main(sys.argv[2:]))
