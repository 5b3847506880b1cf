"""The loop that keeps the map, against a socket that answers as HAProxy does."""

import asyncio
import contextlib

import pytest

from tests.support.eventually import eventually
from vcmanager.api_proxy.map_sync import MapSync
from vcmanager.api_proxy.runtime_api import RuntimeApi, RuntimeApiError


class PlayedHaproxy:
    """The Runtime API of one map. It reads its file when it starts."""

    def __init__(self, folder):
        self.socket, self.file = folder / "s", folder / "hosts.map"
        self.map = {}
        self.server = None

    async def start(self):
        self.map = {}
        if self.file.exists():
            self.map = dict(line.split() for line in self.file.read_text().splitlines())
        self.socket.unlink(missing_ok=True)
        self.server = await asyncio.start_unix_server(self._answer, str(self.socket))

    async def stop(self):
        self.server.close()
        self.socket.unlink(missing_ok=True)

    async def _answer(self, reader, writer):
        for command in (await reader.readline()).decode().strip().split(";"):
            match command.split():
                case ["show", "map", _]:
                    rows = [f"0x1 {host} {value}\n" for host, value in self.map.items()]
                    writer.write("".join(rows).encode())
                case ["add" | "set", "map", _, host, value]:
                    self.map[host] = value
                case ["del", "map", _, host]:
                    del self.map[host]
                case ["show", "version"]:
                    writer.write(b"3.0.11")
                case _:
                    writer.write(b"Unknown command")
            writer.write(b"\n")
        writer.close()


@pytest.fixture
async def haproxy(tmp_path):
    made = PlayedHaproxy(tmp_path)
    await made.start()
    yield made
    await made.stop()


@contextlib.asynccontextmanager
async def running(haproxy, desired, known):
    sync = MapSync(RuntimeApi(str(haproxy.socket)), haproxy.file, lambda: dict(desired))
    task = asyncio.ensure_future(sync.run(known.wait))
    try:
        yield sync
    finally:
        task.cancel()
        await asyncio.wait((task,))


async def test_nothing_changes_before_all_tenants_are_known(haproxy):
    haproxy.map["old.example.com"] = "10.0.0.1/1"
    known = asyncio.Event()
    async with running(haproxy, {}, known) as sync:
        await eventually(lambda: not sync._problem)
        assert sync.check_readiness() == "the host names of tenants are not known yet"
        assert haproxy.map == {"old.example.com": "10.0.0.1/1"}
        known.set()
        await eventually(lambda: haproxy.map == {})
        await eventually(lambda: sync.check_readiness() == "")


async def test_a_file_of_an_earlier_run_is_enough_to_be_ready(haproxy):
    haproxy.file.write_text("old.example.com 10.0.0.1/1\n")
    async with running(haproxy, {}, asyncio.Event()) as sync:
        await eventually(lambda: sync.check_readiness() == "")
        assert haproxy.file.read_text() == "old.example.com 10.0.0.1/1\n"


async def test_a_change_is_followed_and_a_restart_reads_the_file(haproxy):
    known, desired = asyncio.Event(), {"a.example.com": "10.0.0.1/1"}
    known.set()
    async with running(haproxy, desired, known) as sync:
        await eventually(lambda: haproxy.map == desired)
        desired["b.example.com"] = "10.0.0.2/2"
        sync.wake()
        await eventually(lambda: haproxy.map == desired)
        await haproxy.stop()
        desired["c.example.com"] = "10.0.0.3/3"
        sync.wake()
        await eventually(lambda: "does not answer" in sync.check_readiness())
        await haproxy.start()
        assert haproxy.map == desired  # written before HAProxy was asked
        await eventually(lambda: sync.check_readiness() == "")


async def test_a_refused_command_is_an_error(haproxy):
    with pytest.raises(RuntimeApiError, match="refused a command: Unknown command"):
        await RuntimeApi(str(haproxy.socket)).write(["nonsense"])
