"""The reflector against a server that cuts, lies, falls silent and forgets."""

from __future__ import annotations

import asyncio
import contextlib

import pytest

from kubeio import stream
from kubeio.backoff import Backoff
from kubeio.client import Client
from kubeio.reflector import Reflector
from kubeio.store import Store
from kubeio.turns import Turns
from tenancy.resources import PODS
from tests.support.eventually import eventually
from tests.support.faults import misbehaving


def _pod(name, version, **metadata):
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": "n",
            "uid": f"uid-{name}",
            "resourceVersion": str(version),
            "managedFields": [{"manager": "x"}],
            **metadata,
        },
    }


def _mark(version):
    return {
        "kind": "Pod",
        "apiVersion": "v1",
        "metadata": {
            "resourceVersion": str(version),
            "annotations": {stream.INITIAL_EVENTS_END: "true"},
        },
    }


def _bookmark(version):
    return {"kind": "Pod", "apiVersion": "v1", "metadata": {"resourceVersion": str(version)}}


async def _begin_with(answer, *pods, version):
    """A streamed list."""
    await answer.begin()
    for pod in pods:
        await answer.event("ADDED", pod)
    await answer.event("BOOKMARK", _mark(version))


class Script:
    """Plays one scene for each watch; lists show `listed`."""

    def __init__(self, *scenes, listed=(), version=0, page=1000):
        self.scenes = list(scenes)
        self.listed = list(listed)
        self.version = version
        self.page = page
        self.lists = 0
        self.watched = []
        self.seconds = []

    async def __call__(self, request, answer):
        if "watch" not in request.query:
            await self._list(request, answer)
            return
        self.watched.append(request.query.get("resourceVersion", "list"))
        self.seconds.append(request.query["timeoutSeconds"])
        if not self.scenes:
            await answer.begin()
            await answer.hang()
        await self.scenes.pop(0)(answer)

    async def _list(self, request, answer):
        self.lists += 1
        at = int(request.query.get("continue", "0"))
        size = min(int(request.query["limit"]), self.page)
        metadata = {"resourceVersion": str(self.version)}
        if at + size < len(self.listed):
            metadata["continue"] = str(at + size)
        items = [
            {key: value for key, value in pod.items() if key not in ("kind", "apiVersion")}
            for pod in self.listed[at : at + size]
        ]
        await answer.json({"kind": "PodList", "metadata": metadata, "items": items})


class Run:
    """A reflector at work, its store, and what subscribers were told."""

    def __init__(self, reflector, store):
        self.reflector = reflector
        self.store = store
        self.told = []
        store.subscribe(self._hear)

    def _hear(self, old, new, live):
        what = "add" if old is None else "delete" if new is None else "change"
        self.told.append((what, (new or old).name, live))

    @property
    def names(self):
        return sorted(entry.name for entry in self.store.list())


@contextlib.asynccontextmanager
async def _running(script, *, silence=5.0, delays=None, **options):
    async def sleep(seconds):
        if delays is not None:
            delays.append(seconds)
        await asyncio.sleep(0)

    store = Store()
    async with misbehaving(script) as server, Client(server.endpoint) as client:
        reflector = Reflector(
            client,
            PODS,
            store,
            silence=silence,
            sleep=sleep,
            backoff=Backoff(base=1.0, ceiling=30.0, chance=lambda: 1.0),
            **options,
        )
        run = Run(reflector, store)
        task = asyncio.ensure_future(reflector.run())
        try:
            yield run
        finally:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task


async def _forever(answer):
    await answer.hang()


def _scene(*pods, version, then=_forever):
    async def play(answer):
        await _begin_with(answer, *pods, version=version)
        await then(answer)

    return play


async def test_a_streamed_list_becomes_the_store_and_goes_on_as_a_watch():
    async def then(answer):
        await answer.event("ADDED", _pod("b", 11))
        await answer.event("MODIFIED", _pod("a", 12, labels={"x": "1"}))
        await answer.event("DELETED", _pod("b", 13))
        await answer.event("BOOKMARK", _bookmark(20))
        await answer.hang()

    script = Script(_scene(_pod("a", 5), version=10, then=then))
    async with _running(script) as run:
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
        await answer.event("ADDED", _pod("a", 5))
        await answer.event("BOOKMARK", _bookmark(6))  # an ordinary one ends nothing
        await go_on.wait()
        await answer.event("BOOKMARK", _mark(10))
        await answer.hang()

    script = Script(play)
    async with _running(script) as run:
        await eventually(lambda: script.watched)
        assert (run.names, run.reflector.synced, run.store.synced) == ([], False, False)
        go_on.set()
        await run.reflector.wait_synced()
        assert run.names == ["a"]


async def test_a_streamed_list_that_breaks_before_its_end_is_begun_anew():
    """REL-05, REL-31: what came of it counts for nothing."""

    async def break_off(answer):
        await answer.begin()
        await answer.event("ADDED", _pod("ghost", 5))
        answer.cut()

    async def end_early(answer):
        await answer.begin()
        await answer.event("ADDED", _pod("ghost", 5))
        await answer.end()

    script = Script(break_off, end_early, _scene(_pod("a", 5), version=10))
    async with _running(script) as run:
        await run.reflector.wait_synced()
        assert run.names == ["a"]
        assert script.watched == ["list", "list", "list"]
        assert run.told == [("add", "a", False)]


@pytest.mark.parametrize("code", [422, 400])
async def test_a_server_without_streamed_lists_is_asked_page_by_page(code):
    async def refuse(answer):
        await answer.status(code, "Invalid", "sendInitialEvents is forbidden")

    pods = [_pod(f"p{number}", number) for number in range(1, 8)]
    script = Script(refuse, listed=pods, version=50, page=3)
    async with _running(script) as run:
        await eventually(lambda: len(script.watched) == 2)
        assert run.names == [f"p{number}" for number in range(1, 8)]
        assert run.store.get("n", "p1").decode()["kind"] == "Pod"
        assert script.lists == 3
        assert script.watched == ["list", "50"]
        assert run.reflector.restarts == 0


@pytest.mark.parametrize("is_streamed", [True, False])
async def test_a_list_that_nobody_could_hold_is_given_up(is_streamed):
    pods = [_pod(f"p{number}", number) for number in range(1, 30)]

    async def refuse(answer):
        await answer.status(400, "BadRequest", "no")

    scenes = [_scene(*pods, version=50)] if is_streamed else [refuse]
    script = Script(*scenes, listed=pods, version=50)
    async with _running(script, most=2000) as run:
        await eventually(lambda: "more than 2000 bytes" in run.reflector._told)
        assert (run.names, run.reflector.synced) == ([], False)


async def test_a_cut_watch_resumes_where_it_stood():
    async def cut_inside_a_line(answer):
        await answer.event("ADDED", _pod("b", 11))
        await answer.chunk(b'{"type":"DELETED","object":{"metada')
        answer.cut()

    script = Script(_scene(_pod("a", 5), version=10, then=cut_inside_a_line), version=11)
    async with _running(script) as run:
        await eventually(lambda: script.watched == ["list", "11"])
        assert run.names == ["a", "b"]
        assert run.reflector.restarts == 1
        assert script.lists == 1  # the look whether the server's store is still the same


async def test_a_watch_that_stands_again_has_no_problem_however_quiet_it_is():
    async def cut(answer):
        answer.cut()

    script = Script(_scene(_pod("a", 5), version=10, then=cut), version=10)
    async with _running(script) as run:
        await eventually(lambda: script.watched == ["list", "10"] and not run.reflector.problem)
        assert run.reflector.restarts == 1


async def test_a_revision_without_end_is_no_number():
    async def then(answer):
        await answer.event("BOOKMARK", _bookmark("9" * 5000))
        await answer.hang()

    script = Script(_scene(_pod("a", 5), version=10, then=then), _scene(version=11))
    async with _running(script) as run:
        await eventually(lambda: run.reflector.position == 11)
        assert run.names == []


async def test_an_object_without_bottom_ends_no_reflector():
    async def deep(answer):
        nested = b"[" * 100_000 + b"]" * 100_000
        await answer.chunk(b'{"type":"ADDED","object":{"metadata":{"name":"b"},"x":' + nested)
        await answer.chunk(b"}}\n")
        await answer.hang()

    script = Script(_scene(_pod("a", 5), version=10, then=deep), _scene(version=11))
    async with _running(script) as run:
        await eventually(lambda: run.reflector.position == 11)


async def test_gone_in_the_middle_lists_anew_and_finds_what_was_missed():
    """REL-31: an ERROR event of a running watch."""

    async def gone(answer):
        status = {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"}
        await answer.event("ERROR", status)

    script = Script(
        _scene(_pod("a", 5), _pod("b", 6), version=10, then=gone),
        _scene(_pod("b", 6), _pod("c", 20), version=21),
    )
    async with _running(script) as run:
        await eventually(lambda: run.names == ["b", "c"])
        assert script.watched == ["list", "list"]
        assert run.told[2:] == [("add", "c", False), ("delete", "a", False)]


async def test_gone_at_the_door_lists_anew_too():
    """REL-31: an answer to its request."""

    async def gone(answer):
        await answer.status(410, "Expired")

    async def cut(answer):
        answer.cut()

    script = Script(
        _scene(_pod("a", 5), version=10, then=cut),
        gone,
        _scene(_pod("b", 20), version=21),
        version=10,
    )
    async with _running(script) as run:
        await eventually(lambda: run.names == ["b"])
        assert script.watched == ["list", "10", "list"]


async def test_silence_ends_a_watch():
    """REL-46."""
    script = Script(_scene(_pod("a", 5), version=10), version=10)
    async with _running(script, silence=0.1) as run:
        await eventually(lambda: len(script.watched) >= 2)
        assert script.watched[:2] == ["list", "10"]
        assert run.reflector.restarts >= 1


async def test_a_watch_without_bookmarks_may_be_silent_and_is_asked_for_shorter():
    """REL-47: silence is no reason to doubt, and to ask once more.

    Of Events no server sends any.
    """
    script = Script(_scene(_pod("a", 5), version=10), version=10)
    async with _running(script, silence=0.1, has_bookmarks=False) as run:
        await eventually(lambda: run.names == ["a"])
        await asyncio.sleep(0.4)
        assert (script.watched, script.lists, run.reflector.restarts) == (["list"], 0, 0)
    assert 120 <= int(script.seconds[0]) <= 180


async def test_a_store_that_went_back_is_listed_anew():
    """REL-10: another server, with an older state."""

    async def cut(answer):
        answer.cut()

    script = Script(
        _scene(_pod("a", 5), version=5000, then=cut), _scene(_pod("b", 2), version=3), version=3
    )
    async with _running(script) as run:
        await eventually(lambda: run.names == ["b"])
        assert script.watched == ["list", "list"]
        assert (run.reflector.position, run.reflector.revision) == (3, 5000)
        assert ("delete", "a", False) in run.told


async def test_whoever_knows_of_another_store_has_the_collection_listed_anew_at_once():
    """Its revision is beyond the watch's place, so that nothing else would tell."""
    script = Script(_scene(_pod("a", 5), version=10), _scene(_pod("b", 7), version=5000))
    async with _running(script) as run:
        await eventually(lambda: script.watched == ["list"] and run.names == ["a"])
        run.reflector.list_anew()
        await eventually(lambda: run.names == ["b"])
        assert script.watched == ["list", "list"]
        assert (run.reflector.restarts, run.reflector.problem) == (0, "")
        assert ("delete", "a", False) in run.told


async def test_a_list_that_was_asked_for_is_not_forgotten_over_what_else_comes():
    async def cut(answer):
        await eventually(lambda: run.names == ["a"])
        run.reflector.list_anew()
        await answer.event("ADDED", _pod("c", 11))
        answer.cut()

    script = Script(
        _scene(_pod("a", 5), version=10, then=cut), _scene(_pod("b", 7), version=5000), version=5000
    )
    async with _running(script) as run:
        await eventually(lambda: run.names == ["b"])
        assert set(script.watched) == {"list"}


async def test_a_bookmark_that_goes_back_is_no_progress():
    async def back(answer):
        await answer.event("BOOKMARK", _bookmark(4))
        await answer.hang()

    script = Script(_scene(_pod("a", 5), version=5000, then=back), _scene(_pod("b", 2), version=6))
    async with _running(script) as run:
        await eventually(lambda: run.names == ["b"])
        assert (run.reflector.position, run.reflector.revision) == (6, 5000)


async def test_delays_grow_until_there_is_progress():
    async def cut(answer):
        await answer.begin()
        answer.cut()

    async def progress(answer):
        await answer.begin()
        await answer.event("ADDED", _pod("b", 11))
        answer.cut()

    delays = []

    async def cut_now(answer):
        answer.cut()

    first = _scene(version=10, then=cut_now)
    script = Script(first, cut, cut, progress, cut, _forever, version=11)
    async with _running(script, delays=delays):
        await eventually(lambda: not script.scenes)
        assert delays == [1, 2, 4, 1, 2]


async def test_a_server_that_ends_each_watch_at_once_is_not_hammered():
    async def end(answer):
        await answer.begin()
        await answer.end()

    delays = []
    script = Script(_scene(version=10, then=lambda answer: answer.end()), end, end, version=10)
    async with _running(script, delays=delays):
        await eventually(lambda: not script.scenes and len(delays) == 3)
        assert delays == [1, 2, 4]


async def test_what_is_wrong_can_be_read_and_goes_away():
    allowed = asyncio.Event()

    async def forbid(answer):
        await answer.status(403, "Forbidden", "no rights")

    async def allow(answer):
        await allowed.wait()
        await _begin_with(answer, version=10)
        await answer.event("ADDED", _pod("a", 11))
        await answer.hang()

    script = Script(forbid, allow)
    async with _running(script) as run:
        await eventually(lambda: "no rights" in run.reflector.problem)
        allowed.set()
        await eventually(lambda: run.names == ["a"])
        assert run.reflector.problem == ""


async def test_an_object_that_cannot_be_read_does_not_end_the_loop():
    """REL-14, REL-49."""

    async def strange(answer):
        await answer.event("ADDED", {"metadata": {"name": 7}})
        await answer.hang()

    script = Script(_scene(version=10, then=strange), _scene(_pod("a", 12), version=13))
    async with _running(script) as run:
        await eventually(lambda: run.names == ["a"])


async def test_selectors_and_places_are_asked_of_the_server():
    seen = []

    async def handler(request, answer):
        seen.append(request)
        await _begin_with(answer, version=1)
        await answer.hang()

    async with _running(
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


async def test_a_watch_is_opened_when_there_is_a_turn_for_it():
    opened = []

    async def play(answer):
        await answer.begin()
        await answer.event("ADDED", _pod("a", 1))
        await answer.event("BOOKMARK", _mark(9))
        await answer.hang()

    class Busy(Turns):
        def is_over(self):
            opened.append(len(script.watched))
            return len(opened) < 4

    script = Script(play)
    async with _running(script, turns=Busy()) as run:
        await run.reflector.wait_synced()
    assert opened[:5] == [0, 0, 0, 0, 1]


async def test_a_watch_is_opened_also_where_others_have_the_time_of_each_turn():
    async def play(answer):
        await answer.begin()
        await answer.event("BOOKMARK", _mark(9))
        await answer.hang()

    class Taken(Turns):
        def is_over(self):
            return True

    async with asyncio.timeout(10), _running(Script(play), turns=Taken()) as run:
        await run.reflector.wait_synced()


async def test_others_have_their_turn_between_two_objects_when_it_is_over():
    turns = 0

    async def tick():
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    pods = [_pod(f"p{number}", number) for number in range(1, 301)]

    async def play(answer):
        await answer.begin()
        body = b"".join(
            stream.orjson.dumps({"type": "ADDED", "object": pod}) + b"\n" for pod in pods
        )
        await answer.chunk(body)
        await answer.event("BOOKMARK", _mark(9999))
        await answer.hang()

    ticking = asyncio.ensure_future(tick())
    at = []
    async with _running(Script(play), is_turn_over=lambda: True) as run:
        run.store.subscribe(lambda *_: at.append(turns))
        await run.reflector.wait_synced()
    ticking.cancel()
    assert len(set(at)) == len(at) == 300
    assert at[0] >= 300, "the list was taken in at once"
