"""Requests to the kubelet, their rate, and the lifetime of the answers."""

import asyncio

import pytest

from tests.support.eventually import eventually
from vnagent.nodeapi import singleflight
from vnagent.nodeapi.singleflight import KubeletQuery, SingleFlight
from vnagent.protocol.errors import RefusalReason, RequestRefusedError

FIGURES, PODS = KubeletQuery("/stats/summary", b"a", 5), KubeletQuery("/pods", b"a", 5)
MORE = KubeletQuery("/runningpods/", b"a", 5)


class ManualKubelet:
    """Answers when it is told to."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, bytes, int]] = []
        self.cancelled = 0
        self.error: Exception | None = None
        self.may_answer = asyncio.Event()

    async def fetch(self, target: str, *, accept: bytes, limit: int) -> bytes:
        """Return an answer that is told from others."""
        self.asked.append((target, accept, limit))
        number = len(self.asked)
        try:
            await self.may_answer.wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        if self.error is not None:
            raise self.error
        return b"%d" % number


@pytest.fixture
def kubelet() -> ManualKubelet:
    """A kubelet that is silent at first."""
    return ManualKubelet()


@pytest.fixture
def shared(kubelet, monkeypatch) -> SingleFlight:
    """Answers without pauses."""
    monkeypatch.setattr(singleflight, "MIN_QUERY_INTERVAL_SECONDS", 0.0)
    monkeypatch.setattr(singleflight, "MAX_AGE_SECONDS", 60.0)
    return SingleFlight(kubelet)


async def read(shared: SingleFlight, question: KubeletQuery = FIGURES) -> bytes:
    """Read an answer and be done."""
    async with shared.share_response(question) as document:
        return document


async def test_equal_questions_share_an_answer(shared, kubelet):
    """Asked as the question says, once."""
    readers = [asyncio.ensure_future(read(shared)) for _ in range(5)]
    await eventually(lambda: kubelet.asked)
    readers += [asyncio.ensure_future(read(shared)) for _ in range(5)]
    await asyncio.sleep(0)
    kubelet.may_answer.set()
    assert await asyncio.gather(*readers) == [b"1"] * 10
    assert kubelet.asked == [("/stats/summary", b"a", 5)]
    assert await read(shared) == b"2"


async def test_an_old_answer_is_not_used(shared, kubelet, monkeypatch):
    """Not even while someone still reads it."""
    kubelet.may_answer.set()
    async with shared.share_response(FIGURES) as first:
        assert await read(shared) == first == b"1"
        monkeypatch.setattr(singleflight, "MAX_AGE_SECONDS", -1.0)
        assert await read(shared) == b"2"


async def test_equal_questions_are_spaced(kubelet, monkeypatch):
    """The one that asks in a loop costs the kubelet two answers in a second."""
    monkeypatch.setattr(singleflight, "MIN_QUERY_INTERVAL_SECONDS", 60.0)
    shared = SingleFlight(kubelet)
    kubelet.may_answer.set()
    assert await read(shared) == b"1"
    again = asyncio.ensure_future(read(shared))
    async with asyncio.timeout(5):
        assert await read(shared, PODS) == b"2"
    assert not again.done()
    again.cancel()
    assert [target for target, _, _ in kubelet.asked] == ["/stats/summary", "/pods"]


async def test_few_answers_are_held(shared, kubelet, monkeypatch):
    """From the question until the last reader is done."""
    monkeypatch.setattr(singleflight, "PLACE_WAIT_SECONDS", 0.05)
    kubelet.may_answer.set()
    async with shared.share_response(FIGURES), shared.share_response(PODS):
        assert await read(shared) == b"1"  # shares, and gives nothing back that others hold
        with pytest.raises(RequestRefusedError) as refused:
            await read(shared, MORE)
        assert (refused.value.status, refused.value.reason) == (429, RefusalReason.READS_FULL)
    assert await read(shared, MORE) == b"3"
    assert shared._places._value == singleflight.MAX_HELD_RESPONSES
    assert not shared._queries


async def test_who_waits_for_a_place_gets_it(shared, kubelet):
    """As soon as an answer is let go of."""
    kubelet.may_answer.set()
    async with shared.share_response(PODS):
        async with shared.share_response(FIGURES):
            third = asyncio.ensure_future(read(shared, MORE))
            await eventually(lambda: MORE in shared._queries)
            assert len(kubelet.asked) == 2
        assert await third == b"3"


async def test_a_failure_is_shared_and_then_forgotten(shared, kubelet):
    """No place stays taken."""
    kubelet.error = RequestRefusedError(502, RefusalReason.KUBELET_DOWN, "down")
    kubelet.may_answer.set()
    found = await asyncio.gather(*(read(shared) for _ in range(3)), return_exceptions=True)
    assert found == [kubelet.error] * 3
    assert len(kubelet.asked) == 1
    kubelet.error = None
    assert await read(shared) == b"2"
    assert shared._places._value == singleflight.MAX_HELD_RESPONSES


async def test_a_question_goes_with_the_last_who_asked(shared, kubelet):
    """One of two leaves: the other gets its answer. Both leave: no one waits for it."""
    first, second = (asyncio.ensure_future(read(shared)) for _ in range(2))
    await eventually(lambda: kubelet.asked)
    first.cancel()
    await asyncio.gather(first, return_exceptions=True)
    assert kubelet.cancelled == 0
    second.cancel()
    await asyncio.gather(second, return_exceptions=True)
    await eventually(lambda: kubelet.cancelled == 1)
    assert shared._places._value == singleflight.MAX_HELD_RESPONSES
    assert not shared._queries
    waiting = [asyncio.ensure_future(read(shared, each)) for each in (FIGURES, PODS, MORE)]
    await eventually(lambda: len(kubelet.asked) == 3)
    for reader in waiting:  # the third has no place yet
        reader.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)
    assert shared._places._value == singleflight.MAX_HELD_RESPONSES


async def test_a_silent_kubelet_is_given_up(shared, monkeypatch):
    """In a scraper's time."""
    monkeypatch.setattr(singleflight, "RESPONSE_SECONDS", 0.05)
    with pytest.raises(RequestRefusedError) as refused:
        await read(shared)
    assert (refused.value.status, refused.value.reason) == (504, RefusalReason.KUBELET_DOWN)
    assert shared._places._value == singleflight.MAX_HELD_RESPONSES
