"""The forwarder with a program in the place of kubectl."""

import asyncio
import json
import sys
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


async def test_it_restarts_kubectl_on_the_same_port_until_it_is_not_recorded(tmp_path, capsys):
    config, log = tmp_path / "config", tmp_path / "log"
    config.write_text("forwarder: abc")
    running = asyncio.create_task(forwarder.run_forwarder(order(tmp_path, STUB)))
    async with asyncio.timeout(30):
        await eventually(lambda: len(read(log)) == 3)
        config.write_text("")
        assert await running == 0
    assert read(log) == [":6443", "4711:6443", "4711:6443"]
    assert [json.loads(line) for line in capsys.readouterr().out.splitlines()] == [{"port": 4711}]


async def test_a_start_that_fails_reports_what_kubectl_says(tmp_path, capsys):
    failing = "import sys; sys.exit('error: services is forbidden')"
    assert await forwarder.run_forwarder(order(tmp_path, failing)) == 1
    assert json.loads(capsys.readouterr().out) == {"error": "error: services is forbidden"}


async def test_without_a_record_it_ends_by_itself(tmp_path, monkeypatch):
    monkeypatch.setattr(forwarder, "START_SECONDS", 0.2)
    async with asyncio.timeout(30):
        assert await forwarder.run_forwarder(order(tmp_path, STUB)) == 0
