"""Waits for a changed control plane: when they end, and how."""

import asyncio
import contextlib
import io

import pytest

from kubectl_vc.client import waiting
from kubectl_vc.output.cli_errors import CliError
from kubectl_vc.output.terminal import Progress
from tenancy import wellknown
from tests.chaos.memory.loop import VirtualLoop

METADATA = {"namespace": "shop", "name": "web", "uid": "u", "generation": 2}


def state(change, message="", *, ready="True", generation=2, **more):
    rows = {wellknown.CONTROL_PLANE_UP_TO_DATE: (change, message), wellknown.READY: (ready, "")}
    rows |= more
    listed = [
        {
            "type": kind,
            "status": status,
            "reason": "R",
            "message": text,
            "observedGeneration": generation,
        }
        for kind, (status, text) in rows.items()
    ]
    return {"metadata": METADATA, "status": {"conditions": listed}}


DONE = state("True", "The control plane is up to date.")
OLD = state("True", "The control plane is up to date.", generation=1)
WAITING = state("False", "ClusterVersion v1.36: spec.rollout.paused is true.")
ROLLING = state("False", "Changing: StatefulSet etcd.")


def waited(monkeypatch, *steps, seconds=0.0):
    """Return the output of a wait, and its error."""
    loop, out = VirtualLoop(), io.StringIO()

    @contextlib.asynccontextmanager
    async def states(*_):
        async def found():
            for each in steps:
                await asyncio.sleep(1)
                yield each
            await asyncio.Event().wait()

        async with contextlib.aclosing(found()) as listed:
            yield listed

    async def work():
        with Progress(out, loop.time) as progress:
            await waiting.wait_up_to_date(
                None, {"metadata": METADATA}, seconds=seconds, progress=progress
            )

    monkeypatch.setattr(waiting.watch, "watch_states", states)
    try:
        loop.run_until_complete(work())
    except CliError as problem:
        return out.getvalue(), problem
    finally:
        loop.close()
    return out.getvalue(), None


def test_each_step_is_shown_until_the_control_plane_is_up_to_date(monkeypatch):
    out, problem = waited(monkeypatch, OLD, WAITING, WAITING, ROLLING, DONE)
    assert problem is None
    lines = [line.partition(" (")[0] for line in out.splitlines()]
    assert lines[-2:] == [
        "ClusterVersion v1.36: spec.rollout.paused is true.",
        "Changing: StatefulSet etcd.",
    ]


@pytest.mark.parametrize(
    ("steps", "words"),
    [
        ([OLD], "after 1m00s: vc-manager has not processed the change yet. The"),
        ([WAITING], "spec.rollout.paused is true. The change goes on."),
        ([state("True", "Done.", ready="False")], "is not changed after"),
        ([state("False", "m", ready="False", Stalled=("True", "skew"))], "cannot be changed"),
        ([None], "was deleted during the change"),
        ([{**DONE, "metadata": {**METADATA, "uid": "another"}}], "was deleted during the change"),
    ],
)
def test_a_change_that_does_not_finish_has_a_code_of_its_own(monkeypatch, steps, words):
    _, problem = waited(monkeypatch, *steps, seconds=60)
    assert problem is not None
    assert words in str(problem)
    assert problem.exit_code == 5
