"""The forwarder with a program in the place of kubectl."""

import asyncio
import contextlib
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from kubectl_vc.connect import forwarder
from kubectl_vc.connect.forwarder import ForwarderOrder
from tests.support.eventually import eventually


def read(log: Path) -> list[str]:
    """Return the ports of each start of kubectl."""
    return log.read_text().splitlines() if log.exists() else []


STUB = """
import sys, time
local = sys.argv[-1].partition(":")[0] or "4711"
with open(sys.argv[1], "a") as log: log.write(sys.argv[-1] + "\\n")
print(f"Forwarding from 127.0.0.1:{local} -> 6443", flush=True)
runs = len(open(sys.argv[1]).readlines())
time.sleep(0.1 if runs < 3 else 60)
"""


def order(tmp_path: Path, script: str) -> ForwarderOrder:
    return ForwarderOrder(
        identity="abc",
        kubeconfig=str(tmp_path / "config"),
        command=(sys.executable, "-c", script, str(tmp_path / "log")),
    )


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(forwarder, "_POLL_SECONDS", 0.05)
    monkeypatch.setattr(forwarder, "_RETRY_SECONDS", (0.05,))


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    """The two ends of the pipe that the starting command closes."""
    ends = os.pipe()
    yield ends
    for end in ends:
        with contextlib.suppress(OSError):
            os.close(end)


async def test_it_restarts_kubectl_on_the_same_port_until_it_is_not_recorded(
    tmp_path, capsys, pipe
):
    config, log = tmp_path / "config", tmp_path / "log"
    running = asyncio.create_task(forwarder.run_forwarder(order(tmp_path, STUB), pipe[0]))
    async with asyncio.timeout(60):
        await eventually(lambda: len(read(log)) == 3)
        config.write_text("forwarder: abc")
        os.close(pipe[1])
        await asyncio.sleep(0.2)
        assert not running.done()
        config.write_text("")
        assert await running == 0
    assert read(log) == [":6443", "4711:6443", "4711:6443"]
    assert [json.loads(line) for line in capsys.readouterr().out.splitlines()] == [{"port": 4711}]


async def test_a_start_that_fails_reports_what_kubectl_reports(tmp_path, capsys, pipe):
    failing = "import sys; sys.exit('error: services is forbidden')"
    assert await forwarder.run_forwarder(order(tmp_path, failing), pipe[0]) == 1
    assert json.loads(capsys.readouterr().out) == {"error": "error: services is forbidden"}


async def test_a_command_that_ends_without_a_record_ends_it(tmp_path, pipe):
    """Also when the record was removed before the forwarder saw it."""
    os.close(pipe[1])
    async with asyncio.timeout(60):
        assert await forwarder.run_forwarder(order(tmp_path, STUB), pipe[0]) == 0
