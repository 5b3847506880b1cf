"""`python -m tests.properties.agent NAME`: one property at full length, or as long as is said."""

import argparse
import logging
import secrets
import sys
import time

import structlog
import uvloop

from tests.properties.agent import certificates, cuts, frames, targets

PROGRAMS = {
    "targets": targets,
    "certificates": certificates,
    "frames": frames,
    "cuts": cuts,
}


def silence() -> None:
    """Let the agent's own log lines go: there is one for each try."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))


def main() -> int:
    """Run one program."""
    parser = argparse.ArgumentParser(prog="python -m tests.properties.agent", description=__doc__)
    parser.add_argument("program", choices=PROGRAMS)
    parser.add_argument("--count", type=int, help="how many tries, if not all")
    parser.add_argument("--seed", type=int, default=secrets.randbits(32))
    given = parser.parse_args()
    program = PROGRAMS[given.program]
    count = given.count or program.FULL
    silence()
    print(f"{given.program}: {count:,} tries, seed {given.seed}", flush=True)
    began = time.monotonic()
    print(uvloop.run(program.run(count, given.seed)))
    print(f"{time.monotonic() - began:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
