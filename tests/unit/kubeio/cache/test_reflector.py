"""Lists, watches and restarts of a reflector, and the content of its store."""

from __future__ import annotations

import asyncio

import pytest

from tests.support.eventually import eventually
from tests.support.kubeio.reflectors import (
    WatchScript,
    begin_with,
    bookmark,
    mark,
    pod,
    running,
    scene,
)


async def test_a_streamed_list_becomes_the_store_and_goes_on_as_a_watch():
    async def then(answer):
        await answer.event("ADDED", pod("b", 11))
        await answer.event("MODIFIED", pod("a", 12, labels={"x": "1"}))
        await answer.event("DELETED", pod("b", 13))
        await answer.event("BOOKMARK", bookmark(20))
        await answer.hang()

    script = WatchScript(scene(pod("a", 5), version=10, then=then))
    async with running(script) as run:
        await eventually(lambda: run.reflector.revision == 20)
        assert run.names == ["a"]
        assert run.store.get("n", "a").labels == {"x": "1"}
        assert "managedFields" not in run.store.get("n", "a").decode()["metadata"]
        assert run.told == [
            ("add", "a", False),
            ("add", "b", True),
            ("change", "a", True),
            ("delete", "b", True),
        ]
        assert run.reflector.synced
        assert run.store.synced
        assert (run.reflector.position, run.reflector.restarts) == (20, 0)


async def test_nothing_is_synced_before_the_end_of_the_list():
    """REL-05."""
    go_on = asyncio.Event()

    async def play(answer):
        await answer.begin()
        await answer.event("ADDED", pod("a", 5))
        await answer.event("BOOKMARK", bookmark(6))  # an ordinary one ends nothing
        await go_on.wait()
        await answer.event("BOOKMARK", mark(10))
        await answer.hang()

    script = WatchScript(play)
    async with running(script) as run:
        await eventually(lambda: script.watched)
        assert (run.names, run.reflector.synced, run.store.synced) == ([], False, False)
        go_on.set()
        await run.reflector.wait_synced()
        assert run.names == ["a"]


async def test_a_streamed_list_that_breaks_before_its_end_is_begun_again():
    """REL-05, REL-31: what came of it counts for nothing."""

    async def break_off(answer):
        await answer.begin()
        await answer.event("ADDED", pod("ghost", 5))
        answer.cut()

    async def end_early(answer):
        await answer.begin()
        await answer.event("ADDED", pod("ghost", 5))
        await answer.end()

    script = WatchScript(break_off, end_early, scene(pod("a", 5), version=10))
    async with running(script) as run:
        await run.reflector.wait_synced()
        assert run.names == ["a"]
        assert script.watched == ["list", "list", "list"]
        assert run.told == [("add", "a", False)]


@pytest.mark.parametrize("code", [422, 400])
async def test_a_server_without_streamed_lists_is_asked_page_by_page(code):
    async def refuse(answer):
        await answer.status(code, "Invalid", "sendInitialEvents is forbidden")

    pods = [pod(f"p{number}", number) for number in range(1, 8)]
    script = WatchScript(refuse, listed=pods, version=50, page=3)
    async with running(script) as run:
        await eventually(lambda: len(script.watched) == 2)
        assert run.names == [f"p{number}" for number in range(1, 8)]
        assert run.store.get("n", "p1").decode()["kind"] == "Pod"
        assert script.lists == 3
        assert script.watched == ["list", "50"]
        assert run.reflector.restarts == 0


@pytest.mark.parametrize("is_streamed", [True, False])
async def test_a_list_that_no_one_could_hold_is_given_up(is_streamed):
    pods = [pod(f"p{number}", number) for number in range(1, 30)]

    async def refuse(answer):
        await answer.status(400, "BadRequest", "no")

    scenes = [scene(*pods, version=50)] if is_streamed else [refuse]
    script = WatchScript(*scenes, listed=pods, version=50)
    async with running(script, max_list_bytes=2000) as run:
        await eventually(lambda: "more than 2000 bytes" in run.reflector._logged_problem)
        assert (run.names, run.reflector.synced) == ([], False)


async def test_who_hurries_it_has_it_try_before_its_delay_is_over():
    """REL-15: its server is known to be there again. One that follows is not disturbed."""

    async def broken(answer):
        await answer.status(500, "InternalError")

    script = WatchScript(broken, scene(pod("a", 5), version=10))
    async with running(script, rests=True) as run:
        await eventually(lambda: run.reflector.problem)
        await asyncio.sleep(0.05)
        assert len(script.watched) == 1
        run.reflector.retry_now(asyncio.get_running_loop().time())
        await eventually(lambda: run.reflector.synced)
        run.reflector.retry_now(asyncio.get_running_loop().time())
        await asyncio.sleep(0.05)
        assert (run.names, len(script.watched)) == (["a"], 2)


async def test_who_hurries_it_ends_a_try_that_waits_in_vain():
    """It began when the server was not there."""

    async def broken(answer):
        await answer.status(500, "InternalError")

    async def swallowed(answer):
        await answer.hang()

    script = WatchScript(broken, swallowed, scene(pod("a", 5), version=10))
    async with running(script) as run:
        await eventually(lambda: len(script.watched) == 2)
        await asyncio.sleep(0.05)
        run.reflector.retry_now(asyncio.get_running_loop().time() - 60)  # it began since
        await asyncio.sleep(0.05)
        assert (len(script.watched), run.reflector.synced) == (2, False)
        run.reflector.retry_now(asyncio.get_running_loop().time())
        await eventually(lambda: run.reflector.synced)
        assert (run.names, run.reflector.restarts) == (["a"], 1)


async def test_gone_in_the_middle_lists_again_and_finds_what_was_missed():
    """REL-31: an ERROR event of a running watch."""

    async def gone(answer):
        status = {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"}
        await answer.event("ERROR", status)

    script = WatchScript(
        scene(pod("a", 5), pod("b", 6), version=10, then=gone),
        scene(pod("b", 6), pod("c", 20), version=21),
    )
    async with running(script) as run:
        await eventually(lambda: run.names == ["b", "c"])
        assert script.watched == ["list", "list"]
        assert run.told[2:] == [("add", "c", False), ("delete", "a", False)]


async def test_gone_at_the_door_lists_again_too():
    """REL-31: an answer to its request."""

    async def gone(answer):
        await answer.status(410, "Expired")

    async def cut(answer):
        answer.cut()

    script = WatchScript(
        scene(pod("a", 5), version=10, then=cut),
        gone,
        scene(pod("b", 20), version=21),
        version=10,
    )
    async with running(script) as run:
        await eventually(lambda: run.names == ["b"])
        assert script.watched == ["list", "10", "list"]


async def test_a_store_that_went_back_is_listed_again():
    """REL-10: another server, with an older state."""

    async def cut(answer):
        answer.cut()

    script = WatchScript(
        scene(pod("a", 5), version=5000, then=cut), scene(pod("b", 2), version=3), version=3
    )
    async with running(script) as run:
        await eventually(lambda: run.names == ["b"])
        assert script.watched == ["list", "list"]
        assert (run.reflector.position, run.reflector.revision) == (3, 5000)
        assert ("delete", "a", False) in run.told


async def test_the_finder_of_another_store_has_the_collection_listed_again_at_once():
    """Its revision is beyond the watch's place, so that nothing else would tell."""
    script = WatchScript(scene(pod("a", 5), version=10), scene(pod("b", 7), version=5000))
    async with running(script) as run:
        await eventually(lambda: script.watched == ["list"] and run.names == ["a"])
        run.reflector.relist()
        await eventually(lambda: run.names == ["b"])
        assert script.watched == ["list", "list"]
        assert (run.reflector.restarts, run.reflector.problem) == (0, "")
        assert ("delete", "a", False) in run.told


async def test_a_list_that_was_asked_for_is_not_forgotten_over_what_else_comes():
    async def cut(answer):
        await eventually(lambda: run.names == ["a"])
        run.reflector.relist()
        await answer.event("ADDED", pod("c", 11))
        answer.cut()

    script = WatchScript(
        scene(pod("a", 5), version=10, then=cut),
        scene(pod("b", 7), version=5000),
        version=5000,
    )
    async with running(script) as run:
        await eventually(lambda: run.names == ["b"])
        assert set(script.watched) == {"list"}


async def test_a_bookmark_that_goes_back_is_no_progress():
    async def back(answer):
        await answer.event("BOOKMARK", bookmark(4))
        await answer.hang()

    script = WatchScript(scene(pod("a", 5), version=5000, then=back), scene(pod("b", 2), version=6))
    async with running(script) as run:
        await eventually(lambda: run.names == ["b"])
        assert (run.reflector.position, run.reflector.revision) == (6, 5000)


async def test_an_object_that_cannot_be_read_does_not_end_the_loop():
    """REL-14, REL-49."""

    async def strange(answer):
        await answer.event("ADDED", {"metadata": {"name": 7}})
        await answer.hang()

    script = WatchScript(scene(version=10, then=strange), scene(pod("a", 12), version=13))
    async with running(script) as run:
        await eventually(lambda: run.names == ["a"])


async def test_selectors_and_places_are_asked_of_the_server():
    seen = []

    async def handler(request, answer):
        seen.append(request)
        await begin_with(answer, version=1)
        await answer.hang()

    async with running(
        handler, namespace="n", label_selector="a=b", field_selector="x=y", metadata_only=True
    ) as run:
        await run.reflector.wait_synced()
    (request,) = seen
    assert request.path == "/api/v1/namespaces/n/pods"
    assert request.query["labelSelector"] == "a=b"
    assert request.query["fieldSelector"] == "x=y"
    assert request.query["sendInitialEvents"] == "true"
    assert request.query["resourceVersionMatch"] == "NotOlderThan"
    assert request.query["allowWatchBookmarks"] == "true"
    assert 300 <= int(request.query["timeoutSeconds"]) <= 600
    assert "as=PartialObjectMetadata;" in request.headers["accept"]


async def test_a_reflector_has_no_dict_of_its_own():
    """Python shares the names of up to 30 attributes. There are thousands of reflectors."""
    async with running(WatchScript(scene(pod("a", 5), version=10))) as run:
        assert len(vars(run.reflector)) <= 30
