"""Two reasons to pause one transport: they hold each by itself."""

import asyncio
import time

from vnagent.stream.read_coalescing import MIN_FLOOD_READS
from vnagent.stream.read_control import ReadControl


class ReadSwitch:
    """A transport that records whether it reads. A real one cannot be asked."""

    is_open = True
    is_gone = False

    def is_closing(self) -> bool:
        return self.is_gone

    def pause_reading(self) -> None:
        assert not self.is_gone
        self.is_open = False

    def resume_reading(self) -> None:
        assert not self.is_gone
        self.is_open = True


def flooded(monkeypatch) -> tuple[ReadControl, ReadSwitch]:
    """Return an intake that has just begun to rest."""
    monkeypatch.setattr(time, "monotonic", lambda: 1.0)
    tap = ReadSwitch()
    intake = ReadControl(tap)
    for _ in range(MIN_FLOOD_READS + 1):
        assert tap.is_open
        intake.record_read(1, is_all=True)
    return intake, tap


async def test_a_flood_is_read_again_after_a_rest(monkeypatch):
    """By itself."""
    _, tap = flooded(monkeypatch)
    assert not tap.is_open
    await asyncio.sleep(0.05)
    assert tap.is_open


async def test_the_end_of_a_rest_reads_nothing_that_is_not_wanted(monkeypatch):
    """A slow reader's back-pressure outlasts it."""
    intake, tap = flooded(monkeypatch)
    intake.set_wanted(False)
    await asyncio.sleep(0.05)
    assert not tap.is_open
    intake.set_wanted(True)
    assert tap.is_open


async def test_what_is_wanted_again_waits_for_the_end_of_the_rest(monkeypatch):
    """Otherwise a reader that pauses and resumes would undo it."""
    intake, tap = flooded(monkeypatch)
    intake.set_wanted(False)
    intake.set_wanted(True)
    assert not tap.is_open
    await asyncio.sleep(0.05)
    assert tap.is_open


async def test_a_rest_outlives_its_connection(monkeypatch):
    """A transport that closes refuses to be turned."""
    intake, tap = flooded(monkeypatch)
    tap.is_gone = True
    intake.set_wanted(False)
    await asyncio.sleep(0.05)
    assert not tap.is_open


async def test_who_speaks_ends_the_rest(monkeypatch):
    """The answer is read as soon as it comes."""
    intake, tap = flooded(monkeypatch)
    intake.record_write()
    assert tap.is_open
    intake.set_wanted(False)
    await asyncio.sleep(0.05)
    assert not tap.is_open
