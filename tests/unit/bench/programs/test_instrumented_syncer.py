"""The devices in the syncer's process, and its counters as they are read."""

import asyncio
import gc
import inspect
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from bench.programs import instrumented_syncer
from bench.programs.instrumented_syncer import SyncerCounters
from bench.programs.syncers import _counters
from kubeio.controller.worker import Done
from syncer.model.keys import Key
from syncer.safety.expectations import Expectations
from tests.support.eventually import eventually


async def test_the_devices_write_what_they_saw(tmp_path: Path):
    devices = SyncerCounters(tmp_path / "inside.json")
    gc.callbacks.append(devices.collect)
    ticking = asyncio.ensure_future(devices.tick())
    try:
        await eventually(lambda: len(devices._late) >= 2)
        devices.sample(0, sys._getframe())
        gc.collect()
    finally:
        gc.callbacks.remove(devices.collect)
        ticking.cancel()
    devices.write()
    found = json.loads((tmp_path / "inside.json").read_text())
    assert found["late_ms"]["count"] >= 2
    assert found["samples"] == 1
    assert found["files"] == [["tests/unit/bench/programs/test_instrumented_syncer.py", 1]]
    assert "test_the_devices_write_what_they_saw" in found["own"][0][0]
    assert found["garbage_s"] > 0


async def test_a_beginning_forgets(tmp_path: Path):
    devices = SyncerCounters(tmp_path / "inside.json")
    devices.sample(0, sys._getframe())
    devices.begin()
    devices.write()
    assert json.loads((tmp_path / "inside.json").read_text())["samples"] == 0


class QueuedDispatcher:
    """An engine whose one session has a queue in which a key was wanted so long ago."""

    class queue:  # noqa: N801 - as an attribute is called
        get_age = staticmethod(lambda _: 0.25)

    def get_session(self, _: Key) -> Any:
        return self


@pytest.mark.parametrize(("kind", "engine"), [("Pod", [250.0]), ("ConfigMap", [])])
async def test_the_first_write_of_a_run_of_a_pod_ends_the_engines_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, engine: list[float]
):
    devices = SyncerCounters(tmp_path / "inside.json")

    async def reconcile(*_: Any) -> Done:
        for method in ("GET", "POST", "PUT"):
            devices.sent(method)
        return Done()

    monkeypatch.setattr(instrumented_syncer, "_reconcile", reconcile)
    await devices.run(QueuedDispatcher(), Key("t", "home", kind, "n", "p"))  # type: ignore[arg-type]
    devices.sent("POST")  # the Lease's, in no run
    assert devices._engine == engine
    devices.write()
    assert json.loads((tmp_path / "inside.json").read_text())["engine_ms"]["count"] == len(engine)


def test_only_what_grows_is_a_counter():
    text = """# HELP x_total Things.
# TYPE x_total counter
x_total{method="GET",code="200"} 12.0
workqueue_depth{name="vc-syncer"} 3.0
work_seconds_sum 1.5
work_seconds_bucket{le="1.0"} 7.0
"""
    assert _counters(text) == {
        'x_total{method="GET",code="200"}': 12.0,
        "work_seconds_sum": pytest.approx(1.5),
    }


@pytest.mark.parametrize("name", instrumented_syncer.EXPECTATION_METHODS)
def test_each_recorded_method_takes_a_side_and_a_key(name: str):
    method = getattr(Expectations, name)
    assert list(inspect.signature(method).parameters)[:3] == ["self", "side", "key"]
