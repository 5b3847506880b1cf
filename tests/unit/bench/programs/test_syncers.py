"""Another syncer in the place of ours: by its command, measured by the number that it writes."""

from dataclasses import dataclass
from pathlib import Path

import pytest

from bench.programs.syncers import SyncerLauncher
from tests.support.eventually import eventually

PEER = """
import pathlib, signal, subprocess, sys
signal.signal(signal.SIGTERM, lambda *_: sys.exit())
child = subprocess.Popen(["sleep", "60"])
kubeconfig, told = sys.argv[1:]
assert pathlib.Path(kubeconfig).read_text() == "of the super cluster"
pathlib.Path(told).write_text(f"{child.pid}\\n")
try:
    child.wait()
finally:
    child.kill()
"""


@dataclass
class FakeSyncerRig:
    folder: Path

    def syncer_kubeconfig(self) -> Path:
        path = self.folder / "super.kubeconfig"
        path.write_text("of the super cluster")
        return path


def program(pid: int) -> str:
    return Path(f"/proc/{pid}/comm").read_text().strip()


def script(folder: Path, text: str) -> Path:
    path = folder / "peer.py"
    path.write_text(text)
    return path


async def test_a_peer_is_measured_by_the_process_that_it_names(tmp_path):
    peer = script(tmp_path, PEER)
    told = tmp_path / "peer.pid"
    command = f"{{python}} {peer} {{kubeconfig}} {told}"
    async with SyncerLauncher(command=command, pid_file=told).running(
        FakeSyncerRig(tmp_path)
    ) as found:
        assert found.pid == int(told.read_text())
        assert found.pid != found.process.pid
        assert program(found.pid) == "sleep"
        assert await found.counters() == {}, "it shows none"
    assert found.process.has_ended
    await eventually(lambda: not Path(f"/proc/{found.pid}").exists())  # reaped by init


async def test_a_peer_that_ends_at_once_is_reported_with_what_it_reported(tmp_path):
    peer = script(tmp_path, "raise SystemExit('no such flag')")
    syncer = SyncerLauncher(command=f"{{python}} {peer}", pid_file=tmp_path / "peer.pid")
    with pytest.raises(SystemExit, match=r"(?s)was not written\. .*no such flag"):
        await syncer.start(FakeSyncerRig(tmp_path))
