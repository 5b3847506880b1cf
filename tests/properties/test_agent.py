"""A little of each property of the node agent; all of it: `python -m tests.properties.agent`."""

import secrets

import pytest
import uvloop

from tests.properties.agent import certificates, cuts, frames, targets

SMALL = {
    "targets": (targets, 20_000),
    "certificates": (certificates, 150),
    "frames": (frames, 4_000),
    "cuts": (cuts, 150),
}


@pytest.mark.parametrize("name", SMALL)
def test_it_holds(name):
    """SEC-01, SEC-02, SEC-03, SEC-07, SEC-10, SEC-14, REL-86 in small, with its seed."""
    program, count = SMALL[name]
    seed = secrets.randbits(32)
    print(f"seed {seed}")
    print(uvloop.run(program.run(count, seed)))
