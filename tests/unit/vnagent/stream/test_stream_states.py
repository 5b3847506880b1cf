"""Ends of streams, in each order of the two sides."""

import asyncio
import contextlib
import itertools
from collections.abc import Callable

import pytest

from vnagent.stream import relay as pumps
from vnagent.stream.relay import RelayDeadlines, StreamRelay
from vnagent.stream.stream_states import StreamEnd, StreamEvent, StreamStage, decide_end
from vnagent.stream.tls_stream import StreamLostError

MUCH = bytes(pumps.MAX_CLOSING_KUBELET_BYTES + 1)


class ScriptedChannel:
    """A channel that does as it is told, and remembers how it was left."""

    def __init__(self) -> None:
        self.unsent_bytes = 0
        self.left = ""
        self.in_kernel = 0
        self.is_lost = False
        self.is_read = True
        self.is_silent = False

    def is_peer_silent(self, seconds: float) -> bool:
        """Return whether its machine has said nothing for long."""
        return seconds > 0 and self.is_silent

    def cork(self) -> contextlib.AbstractContextManager[None]:
        return contextlib.nullcontext()

    def attach_sink(self, sink) -> None:
        """Hand the stream its sink."""
        self.sink = sink

    def write(self, *_: bytes) -> None:
        """Take bytes."""

    def set_reading(self, is_wanted: bool) -> None:
        """Be read, or not."""
        self.is_read = is_wanted

    @property
    def unacknowledged_bytes(self) -> int:
        """Bytes that the other machine has not accepted."""
        return self.unsent_bytes + self.in_kernel

    def lose(self) -> None:
        """Break, as a transport does: what was not sent is forgotten after that."""
        self.is_lost = True
        self.sink.handle_lost(StreamLostError("reset"))
        self.unsent_bytes = 0

    def close_write(self) -> None:
        """Take the end."""

    def close(self) -> None:
        """Be left with a goodbye."""
        self.left = "goodbye"

    def break_connection(self) -> None:
        """Be left without one."""
        self.left = "cut"

    def abort(self) -> None:
        """Be dropped."""
        self.left = "dropped"


class RunningRelay:
    """A running pump between two such sides."""

    def __init__(self, *, is_two_way: bool = True, deadlines: RelayDeadlines | None = None) -> None:
        self.caller, self.kubelet = ScriptedChannel(), ScriptedChannel()
        deadlines = deadlines or RelayDeadlines(check_seconds=0.01)
        self.pump = StreamRelay(
            self.caller, self.kubelet, is_two_way=is_two_way, deadlines=deadlines
        )
        self.running = asyncio.ensure_future(self.pump.run())

    async def do(self, step: str) -> None:
        """Have something happen, and what it brings about."""
        await asyncio.sleep(0)
        deeds: dict[str, Callable[[], object]] = {
            "caller ends": self.caller.sink.handle_end,
            "kubelet ends": self.kubelet.sink.handle_end,
            "caller breaks": self.caller.lose,
            "kubelet breaks": self.kubelet.lose,
            "kubelet speaks": lambda: self.kubelet.sink.handle_data(b"more"),
            "kubelet speaks on": lambda: self.kubelet.sink.handle_data(MUCH),
            "caller pings": lambda: self.caller.sink.handle_data(b"ping"),
            "caller reads slowly": lambda: setattr(self.caller, "unsent_bytes", 1),
            "the kernel holds some": lambda: setattr(self.caller, "in_kernel", 1),
            "caller has read all": lambda: setattr(self.caller, "unsent_bytes", 0),
            "a while passes": self._age,
            "the agent stops": self.running.cancel,
            "the caller's machine vanishes": lambda: setattr(self.caller, "is_silent", True),
            "the node vanishes": lambda: setattr(self.kubelet, "is_silent", True),
        }
        if step == "some time passes":
            await asyncio.sleep(0.05)
        else:
            deeds[step]()

    def _age(self) -> None:
        self.pump._up.ended_at -= pumps.CLOSE_ANSWER_SECONDS

    async def end(self) -> tuple[StreamEnd, str]:
        """Return how the stream has ended, and how its caller was left."""
        async with asyncio.timeout(5):
            await asyncio.gather(self.running, return_exceptions=True)
        return self.pump.end, self.caller.left


ORDERS = [
    # The kubelet ends in order, whatever comes after.
    (["kubelet ends", "caller ends"], StreamEnd.COMPLETE, "goodbye"),
    (["caller ends", "kubelet ends"], StreamEnd.COMPLETE, "goodbye"),
    (["kubelet ends", "caller breaks"], StreamEnd.COMPLETE, "goodbye"),
    (
        ["kubelet ends", "kubelet breaks", "caller pings", "caller ends"],
        StreamEnd.COMPLETE,
        "goodbye",
    ),
    (["kubelet ends", "kubelet breaks", "caller breaks"], StreamEnd.COMPLETE, "goodbye"),
    (["kubelet ends", "kubelet breaks", "the agent stops"], StreamEnd.COMPLETE, "goodbye"),
    (["kubelet ends", "the agent stops"], StreamEnd.COMPLETE, "goodbye"),
    # The caller closes first: either side may be the one that tells of it by a reset.
    (["caller ends", "kubelet breaks"], StreamEnd.COMPLETE, "cut"),
    (["caller ends", "kubelet speaks", "kubelet breaks"], StreamEnd.COMPLETE, "cut"),
    (["caller ends", "kubelet speaks", "caller breaks"], StreamEnd.COMPLETE, "cut"),
    # It had only ended its input, and waited.
    (["caller ends", "a while passes", "kubelet breaks"], StreamEnd.KUBELET_LOST, "cut"),
    (["caller ends", "a while passes", "caller breaks"], StreamEnd.CALLER_GONE, "dropped"),
    (["caller ends", "a while passes", "kubelet ends"], StreamEnd.COMPLETE, "goodbye"),
    # No one has ended.
    (["kubelet breaks"], StreamEnd.KUBELET_LOST, "cut"),
    (["kubelet speaks", "kubelet breaks", "caller breaks"], StreamEnd.KUBELET_LOST, "cut"),
    (["caller breaks"], StreamEnd.CALLER_GONE, "dropped"),
    (["caller breaks", "kubelet breaks"], StreamEnd.CALLER_GONE, "dropped"),
    (["caller breaks", "kubelet speaks", "kubelet ends"], StreamEnd.COMPLETE, "goodbye"),
    (["caller breaks", "kubelet speaks on", "kubelet ends"], StreamEnd.CALLER_GONE, "dropped"),
    (["caller breaks", "the agent stops"], StreamEnd.DRAINED, "cut"),
    (["caller reads slowly", "caller breaks", "kubelet ends"], StreamEnd.CALLER_GONE, "dropped"),
    (["the agent stops"], StreamEnd.DRAINED, "cut"),
    (["caller ends", "the agent stops"], StreamEnd.DRAINED, "cut"),
    # A machine is gone without a word, with what it was sent.
    (["the caller's machine vanishes"], StreamEnd.CALLER_GONE, "dropped"),
    (["the node vanishes"], StreamEnd.KUBELET_LOST, "cut"),
    (
        ["the kernel holds some", "kubelet ends", "the caller's machine vanishes"],
        StreamEnd.CALLER_GONE,
        "dropped",
    ),
    (
        ["kubelet ends", "the node vanishes", "some time passes", "caller ends"],
        StreamEnd.COMPLETE,
        "goodbye",
    ),
    # The last bytes are still on their way.
    (["caller reads slowly", "kubelet ends", "caller breaks"], StreamEnd.CALLER_GONE, "dropped"),
    (["caller reads slowly", "kubelet ends", "the agent stops"], StreamEnd.DRAINED, "cut"),
    (["the kernel holds some", "kubelet ends", "the agent stops"], StreamEnd.DRAINED, "cut"),
]


@pytest.mark.parametrize(("steps", "end", "left"), ORDERS)
async def test_each_order_has_its_end(steps, end, left):
    """REL-89: and only a kubelet that has ended in order is followed by a goodbye."""
    stream = RunningRelay()
    for step in steps:
        await stream.do(step)
    assert await stream.end() == (end, left)


async def test_a_kubelet_that_has_reported_all_is_not_missed():
    """Its connection may break while the caller still reads: nothing is lost, all is waited for."""
    stream = RunningRelay()
    for step in ("caller reads slowly", "kubelet ends", "kubelet breaks"):
        await stream.do(step)
    await asyncio.sleep(0.05)
    assert not stream.running.done()
    await stream.do("caller has read all")
    await stream.do("caller ends")
    assert await stream.end() == (StreamEnd.COMPLETE, "goodbye")


async def test_who_still_reads_is_not_closed_on():
    """A socket that is closed under someone who pings loses what is on its way to him."""
    stream = RunningRelay()
    for step in ("kubelet ends", "kubelet breaks", "caller pings", "caller pings"):
        await stream.do(step)
        await asyncio.sleep(0.05)
    assert not stream.running.done()
    assert stream.pump.bytes_up == 0  # no progress, so the short deadline counts
    await stream.do("caller ends")
    assert await stream.end() == (StreamEnd.COMPLETE, "goodbye")


@pytest.mark.parametrize("lost", ["caller", "kubelet"])
async def test_the_other_side_is_read_once_one_has_broken(lost):
    """It may have been told to wait for a reader who is gone. Then its end would not be heard."""
    stream = RunningRelay()
    await stream.do("kubelet ends" if lost == "kubelet" else "kubelet speaks")
    broken, other = (
        (stream.caller, stream.kubelet) if lost == "caller" else (stream.kubelet, stream.caller)
    )
    broken.sink.set_writable(is_writable=False)
    assert not other.is_read
    broken.lose()
    assert other.is_read
    other.sink.handle_end()
    assert (await stream.end())[0] is StreamEnd.COMPLETE


@pytest.mark.parametrize(
    ("steps", "end"),
    [
        (["caller ends"], StreamEnd.CALLER_GONE),
        (["caller breaks"], StreamEnd.CALLER_GONE),
        (["kubelet ends", "caller ends"], StreamEnd.COMPLETE),
        (["kubelet breaks"], StreamEnd.KUBELET_LOST),
        (["caller reads slowly", "kubelet ends", "caller ends"], StreamEnd.CALLER_GONE),
    ],
)
async def test_a_log_ends_with_its_reader(steps, end):
    """Half a close of the caller's is the whole of it there."""
    stream = RunningRelay(is_two_way=False)
    for step in steps:
        await stream.do(step)
    assert (await stream.end())[0] is end


@pytest.mark.parametrize(
    ("deadlines", "steps", "end"),
    [
        (RelayDeadlines(idle_seconds=0.0, check_seconds=0.01), [], StreamEnd.IDLE),
        (RelayDeadlines(linger_seconds=0.0, check_seconds=0.01), ["caller ends"], StreamEnd.IDLE),
        (
            RelayDeadlines(linger_seconds=0.0, check_seconds=0.01),
            ["kubelet ends"],
            StreamEnd.COMPLETE,
        ),
        (RelayDeadlines(total_seconds=0.0, check_seconds=0.01), [], StreamEnd.TOO_LONG),
        (
            RelayDeadlines(linger_seconds=0.0, check_seconds=0.01),
            ["caller reads slowly", "kubelet ends"],
            StreamEnd.IDLE,
        ),
        (
            RelayDeadlines(linger_seconds=0.0, check_seconds=0.01),
            ["the kernel holds some", "kubelet ends"],
            StreamEnd.IDLE,
        ),
        # Pings to a kubelet that is gone keep nothing open.
        (
            RelayDeadlines(linger_seconds=0.2, check_seconds=0.01),
            ["kubelet ends", "kubelet breaks", *["caller pings", "some time passes"] * 10],
            StreamEnd.COMPLETE,
        ),
    ],
)
async def test_deadlines_are_distinguished_from_ends(deadlines, steps, end):
    """A caller that has been sent everything and does not close has been served."""
    stream = RunningRelay(deadlines=deadlines)
    for step in steps:
        await stream.do(step)
    assert (await stream.end())[0] is end


def test_the_table_is_whole():
    """A stream cannot be in a place of which the table says nothing."""
    goes_on = {
        (stage, event)
        for stage, event in itertools.product(StreamStage, StreamEvent)
        if decide_end(stage, event) is None
    }
    said_all = {
        (stage, StreamEvent.KUBELET_BROKE)
        for stage in (StreamStage.KUBELET_ENDING, StreamStage.KUBELET_ENDED)
    }
    may_be_over = (StreamStage.OPEN, StreamStage.HALF_OPEN, StreamStage.CALLER_BROKEN)
    assert goes_on == said_all | {(stage, StreamEvent.CALLER_BROKE) for stage in may_be_over}
