"""`kubectl vc target drain`: grants are withdrawn, and pods are waited for."""

from __future__ import annotations

import pytest

from kubectl_vc.output.cli_errors import CliError
from kubectl_vc.target import drain
from tests.support.kubectl_vc.super_clusters import cluster


class ShrinkingHome:
    """The home cluster, whose tenants have a pod less in c2 with each look at them."""

    def __init__(self, pods=2, reachable="True"):
        self.patched, self.pods, self.reachable = [], pods, reachable
        self.alone, self.both = cluster("a", ["c2"], ["c2"]), cluster("b", ["home", "c2"])
        for each in (self.alone, self.both):
            each["metadata"]["uid"] = "u"

    async def list(self, _):
        if self.patched:
            self.pods -= 1
            left = {"name": "c2", "phase": "Draining", "pods": self.pods}
            self.alone["status"]["targets"] = [left] if self.pods > 0 else []
        return {"items": [self.alone, self.both]}

    async def get(self, *_):
        return {"status": {"conditions": [{"type": "Reachable", "status": self.reachable}]}}

    async def patch(self, _, name, operations, **__):
        self.patched.append((name, operations[-1]["value"]))
        found = self.alone if name == "a" else self.both
        found["spec"]["targets"] = operations[-1]["value"]


class RecordedOutput:
    def __init__(self):
        self.lines = []

    def print_result(self, line):
        self.lines.append(line)

    print_warning = print_result


async def test_a_target_that_is_drained_is_taken_from_all_and_waited_for(monkeypatch):
    monkeypatch.setattr(drain, "_POLL_SECONDS", 0)
    here, told = ShrinkingHome(), RecordedOutput()
    await drain.run_drain(here, told, "c2", seconds=5, dry_run=True)
    assert here.patched == []
    await drain.run_drain(here, told, "c2", seconds=5, dry_run=False)
    assert here.patched == [("a", []), ("b", [{"name": "home"}])]
    assert "only. New pods run in the home cluster" in told.lines[-5]
    assert told.lines[-2] == "left in c2: shop/a (Draining, 1 pod)"
    assert [line for line in told.lines if "have no controller to recreate them" in line] == [
        told.lines[-1]
    ]


async def test_what_does_not_go_in_time_is_reported(monkeypatch):
    monkeypatch.setattr(drain, "_POLL_SECONDS", 0.001)
    silence = "c2 does not answer"
    for reachable in ("True", "False"):
        here = ShrinkingHome(10**9, reachable)
        with pytest.raises(CliError, match=r"shop/a \(Draining, .* still has objects in c2") as e:
            await drain.run_drain(here, RecordedOutput(), "c2", seconds=0.05, dry_run=False)
        assert (silence in str(e.value)) is (reachable == "False")
