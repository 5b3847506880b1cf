"""Parsing of the resync's rounds, and of the bytes that a process has read."""

import asyncio
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from bench.memory import resync_rounds
from bench.programs import process_usage


async def test_whole_lines_of_one_more_round_are_waited_for(tmp_path: Path):
    log = tmp_path / "syncer.log"
    log.write_text('{"event":"resync.finished","sessions":9}\n')
    before = log.stat().st_size
    rig: Any = SimpleNamespace(log=log)
    rig.running = SimpleNamespace(process=SimpleNamespace(has_ended=False))
    waiting = asyncio.ensure_future(resync_rounds._ended(rig, before, 0))
    with log.open("a") as more:
        more.write('{"event":"other"}\n{"event":"resync.finished","sess')
        more.flush()
        await asyncio.sleep(3 * resync_rounds._LOOK)
        assert not waiting.done()
        more.write('ions":2,"keys":3,"seconds":0.5}\n')
    (found,) = await waiting
    assert (found["sessions"], found["seconds"]) == (2, 0.5)


def test_what_a_process_reads_is_counted(tmp_path: Path):
    (tmp_path / "f").write_bytes(b"x" * 100_000)
    before = process_usage.bytes_read(os.getpid())
    (tmp_path / "f").read_bytes()
    assert process_usage.bytes_read(os.getpid()) - before >= 100_000
