"""Waits for a VirtualCluster: what ends them before their time is over."""

import asyncio
import contextlib
import io

from kubectl_vc.client import waiting
from kubectl_vc.output.cli_errors import CliError
from kubectl_vc.output.terminal import Progress
from tenancy import wellknown
from tests.chaos.memory.loop import VirtualLoop

METADATA = {"namespace": "shop", "name": "web", "uid": "u", "generation": 1}
GRACE = waiting.GRACE_SECONDS
CAUSE = 'failed to resolve reference "etcd:9": etcd:9: not found'


def state(reason: str = "", message: str = "") -> dict:
    """Return a VirtualCluster whose etcd waits for a reason, or that is ready."""
    kind, status = (wellknown.ETCD_READY, "False") if reason else (wellknown.READY, "True")
    found = {"type": kind, "status": status, "reason": reason, "message": message}
    return {"metadata": METADATA, "status": {"conditions": [found]}}


FAILED = state("ImageNotFound", CAUSE)
OTHER = state("InvalidImageName", "E:9")
STARTING = state("Starting", "0 of 1 ready")


def ended(monkeypatch, *steps: tuple[float, dict], seconds: float = 0) -> tuple[float, str]:
    """Return after how long a wait ended, and why. A step is a pause and the state after it.

    The time is virtual.
    """
    loop = VirtualLoop()

    @contextlib.asynccontextmanager
    async def states(*_):
        async def found():
            for pause, each in steps:
                await asyncio.sleep(pause)
                yield each
            await asyncio.Event().wait()

        async with contextlib.aclosing(found()) as listed:
            yield listed

    async def why() -> str:
        with Progress(io.StringIO(), loop.time) as progress:
            try:
                await waiting.wait_ready(
                    None, {"metadata": METADATA}, seconds=seconds, progress=progress
                )
            except CliError as problem:
                return str(problem)
        return ""

    monkeypatch.setattr(waiting.watch, "watch_states", states)
    try:
        found = loop.run_until_complete(why())
        return loop.time(), found
    finally:
        loop.close()


def test_a_permanent_failure_ends_the_wait_with_its_reason_and_remedy(monkeypatch):
    after, why = ended(monkeypatch, (0, STARTING), (0, FAILED))
    assert after == GRACE
    assert why.startswith(
        f"VirtualCluster shop/web cannot be set up: etcd: ImageNotFound: {CAUSE}. Waiting longer"
        " does not help. The VirtualCluster was not removed. "
    )


def test_the_grace_is_that_of_the_failure_and_not_of_its_last_text(monkeypatch):
    steps = [(GRACE / 4, state("ImageNotFound", f"attempt {number}")) for number in range(40)]
    after, why = ended(monkeypatch, (0, FAILED), *steps)
    assert "ImageNotFound: attempt " in why
    assert after == GRACE, "a text that changes must not prolong the wait"


def test_a_failure_that_ends_within_its_grace_is_none(monkeypatch):
    steps = [(0, FAILED), (GRACE / 4, STARTING), (GRACE * 1.5, FAILED), (GRACE / 4, state())]
    after, why = ended(monkeypatch, *steps)
    assert why == ""
    assert after >= GRACE * 2


def test_another_failure_has_a_grace_of_its_own(monkeypatch):
    steps = [(0, FAILED), *[(GRACE * 0.6, each) for each in (OTHER, FAILED, OTHER, state())]]
    assert ended(monkeypatch, *steps)[1] == ""


def test_the_time_limit_is_reported_as_before(monkeypatch):
    _, why = ended(monkeypatch, (0, FAILED), seconds=GRACE / 4)
    assert "is not ready after" in why
    assert "Waiting longer" not in why
