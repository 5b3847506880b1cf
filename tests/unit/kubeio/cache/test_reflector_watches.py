"""Watches of a reflector: their length, their end, and their turns."""

from __future__ import annotations

import asyncio

from kubeio.http import watch_decoder
from kubeio.loop_budget import LoopBudget
from tests.support.eventually import eventually
from tests.support.kubeio.reflectors import (
    WatchScript,
    begin_with,
    bookmark,
    forever,
    mark,
    pod,
    running,
    scene,
)


async def test_a_cut_watch_resumes_where_it_stood():
    async def cut_inside_a_line(answer):
        await answer.event("ADDED", pod("b", 11))
        await answer.chunk(b'{"type":"DELETED","object":{"metada')
        answer.cut()

    script = WatchScript(scene(pod("a", 5), version=10, then=cut_inside_a_line), version=11)
    async with running(script) as run:
        await eventually(lambda: script.watched == ["list", "11"])
        assert run.names == ["a", "b"]
        assert run.reflector.restarts == 1
        assert script.lists == 1  # the look whether the server's store is still the same


async def test_a_watch_that_stands_again_has_no_problem_however_quiet_it_is():
    async def cut(answer):
        answer.cut()

    script = WatchScript(scene(pod("a", 5), version=10, then=cut), version=10)
    async with running(script) as run:
        await eventually(lambda: script.watched == ["list", "10"] and not run.reflector.problem)
        assert run.reflector.restarts == 1


async def test_a_revision_without_end_is_no_number():
    async def then(answer):
        await answer.event("BOOKMARK", bookmark("9" * 5000))
        await answer.hang()

    script = WatchScript(scene(pod("a", 5), version=10, then=then), scene(version=11))
    async with running(script) as run:
        await eventually(lambda: run.reflector.position == 11)
        assert run.names == []


async def test_an_object_without_bottom_ends_no_reflector():
    async def deep(answer):
        nested = b"[" * 100_000 + b"]" * 100_000
        await answer.chunk(b'{"type":"ADDED","object":{"metadata":{"name":"b"},"x":' + nested)
        await answer.chunk(b"}}\n")
        await answer.hang()

    script = WatchScript(scene(pod("a", 5), version=10, then=deep), scene(version=11))
    async with running(script) as run:
        await eventually(lambda: run.reflector.position == 11)


async def test_silence_ends_a_watch():
    """REL-46."""
    script = WatchScript(scene(pod("a", 5), version=10), version=10)
    async with running(script, silence=0.1) as run:
        await eventually(lambda: len(script.watched) >= 2)
        assert script.watched[:2] == ["list", "10"]
        assert run.reflector.restarts >= 1


async def test_a_watch_without_bookmarks_may_be_silent_and_is_asked_for_shorter():
    """REL-47: silence is no reason to doubt, and to ask once more.

    Of Events no server sends any.
    """
    script = WatchScript(scene(pod("a", 5), version=10), version=10)
    async with running(script, silence=0.1, has_bookmarks=False) as run:
        await eventually(lambda: run.names == ["a"])
        await asyncio.sleep(0.4)
        assert (script.watched, script.lists, run.reflector.restarts) == (["list"], 0, 0)
    assert 120 <= int(script.seconds[0]) <= 180


async def test_delays_grow_until_there_is_progress():
    async def cut(answer):
        await answer.begin()
        answer.cut()

    async def progress(answer):
        await answer.begin()
        await answer.event("ADDED", pod("b", 11))
        answer.cut()

    delays = []

    async def cut_now(answer):
        answer.cut()

    first = scene(version=10, then=cut_now)
    script = WatchScript(first, cut, cut, progress, cut, forever, version=11)
    async with running(script, delays=delays):
        await eventually(lambda: not script.scenes)
        assert delays == [1, 2, 4, 1, 2]


async def test_a_server_that_ends_each_watch_at_once_is_not_hammered():
    async def end(answer):
        await answer.begin()
        await answer.end()

    delays = []
    script = WatchScript(scene(version=10, then=lambda answer: answer.end()), end, end, version=10)
    async with running(script, delays=delays):
        await eventually(lambda: not script.scenes and len(delays) == 3)
        assert delays == [1, 2, 4]


async def test_what_is_wrong_can_be_read_and_goes_away():
    allowed = asyncio.Event()

    async def forbid(answer):
        await answer.status(403, "Forbidden", "no rights")

    async def allow(answer):
        await allowed.wait()
        await begin_with(answer, version=10)
        await answer.event("ADDED", pod("a", 11))
        await answer.hang()

    script = WatchScript(forbid, allow)
    async with running(script) as run:
        await eventually(lambda: "no rights" in run.reflector.problem)
        allowed.set()
        await eventually(lambda: run.names == ["a"])
        assert run.reflector.problem == ""


async def test_a_watch_is_opened_when_there_is_a_turn_for_it():
    opened = []

    async def play(answer):
        await answer.begin()
        await answer.event("ADDED", pod("a", 1))
        await answer.event("BOOKMARK", mark(9))
        await answer.hang()

    class Busy(LoopBudget):
        def is_spent(self):
            opened.append(len(script.watched))
            return len(opened) < 4

    script = WatchScript(play)
    async with running(script, loop_budget=Busy()) as run:
        await run.reflector.wait_synced()
    assert opened[:5] == [0, 0, 0, 0, 1]


async def test_a_watch_is_opened_also_where_others_have_the_time_of_each_turn():
    async def play(answer):
        await answer.begin()
        await answer.event("BOOKMARK", mark(9))
        await answer.hang()

    class Taken(LoopBudget):
        def is_spent(self):
            return True

    async with asyncio.timeout(10), running(WatchScript(play), loop_budget=Taken()) as run:
        await run.reflector.wait_synced()


async def test_others_have_their_turn_between_two_objects_when_it_is_over():
    turns = 0

    async def tick():
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    pods = [pod(f"p{number}", number) for number in range(1, 301)]

    async def play(answer):
        await answer.begin()
        body = b"".join(
            watch_decoder.orjson.dumps({"type": "ADDED", "object": pod}) + b"\n" for pod in pods
        )
        await answer.chunk(body)
        await answer.event("BOOKMARK", mark(9999))
        await answer.hang()

    ticking = asyncio.ensure_future(tick())
    at = []
    async with running(WatchScript(play), is_budget_spent=lambda: True) as run:
        run.store.subscribe(lambda *_: at.append(turns))
        await run.reflector.wait_synced()
    ticking.cancel()
    assert len(set(at)) == len(at) == 300
    assert at[0] >= 300, "the list was taken in at once"
