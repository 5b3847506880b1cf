"""A little of each property of the node agent. All of it: `python -m tests.properties.agent`."""

import asyncio
import random
import secrets
from collections.abc import Callable, Iterator

import pytest
import uvloop
from hypothesis import event, given, settings
from hypothesis import strategies as st

from tests.properties.agent import certificates, cuts, frames, targets
from tests.properties.agent.tries import RequestMaker, RequestTry
from vnagent.server import audit

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


LENGTH = 20
"""Examples of targets, to one of a property of the unit tests: each takes a millisecond."""


@st.composite
def tries(draw: st.DrawFn) -> RequestTry:
    """Return a request of the maker's, whose chances shrink to the first of each choice."""
    maker = RequestMaker(draw(st.randoms(use_true_random=False)))
    return maker.valid() if draw(st.integers(1, targets.ONE_IN)) == 1 else maker.invalid()


@pytest.fixture(scope="module")
def served() -> Iterator[Callable[[RequestTry], str]]:
    """Have what serves requests one after the other."""

    async def begun() -> targets.ServingPath:
        return targets.ServingPath(random.Random(0))  # noqa: S311 - no secret

    with (
        targets.unspaced(),
        pytest.MonkeyPatch.context() as patch,
        asyncio.Runner() as runner,
    ):
        patch.setattr(
            audit, "write_audit_record", lambda _: None
        )  # a line for each, before the one that fails
        path = runner.run(begun())
        yield lambda tried: runner.run(path.one(tried))


@settings(max_examples=LENGTH * settings().max_examples)
@given(tries())
def test_a_target_that_does_not_hold_is_made_small(served, tried):
    """SEC-03, SEC-07: the targets of the program, told in their shortest form when one fails."""
    event(f"{tried.kind} {served(tried)}")
