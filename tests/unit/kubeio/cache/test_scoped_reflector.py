"""One watch per namespace into one store, with rights in some of them only."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import orjson
import pytest

from kubeio import errors
from kubeio.cache.reflector import ReflectorOptions
from kubeio.cache.scoped_reflector import ScopedReflector
from kubeio.cache.store import Store, StorePart, parse_entry
from tenancy.resources import SECRETS
from tests.support.eventually import eventually


def secret(namespace: str, name: str) -> dict[str, Any]:
    return {"metadata": {"namespace": namespace, "name": name, "uid": name, "resourceVersion": "5"}}


class GrantedApi:
    """A server with Secrets by namespace, of which it shows the granted ones only."""

    supports_streamed_lists = False

    def __init__(self) -> None:
        self.granted: set[str] = set()
        self.secrets: dict[str, list[str]] = {}
        self.asked: list[tuple[str, str]] = []
        self.endpoint = type("Endpoint", (), {"title": "test"})()

    async def list_encoded(
        self, _resource: Any, *, namespace: str, field_selector: str, **_: Any
    ) -> bytes:
        self.asked.append((namespace, field_selector))
        if namespace not in self.granted:
            raise errors.Forbidden("secrets is forbidden", status=403)
        names = self.secrets.get(namespace, [])
        found = [secret(namespace, name) for name in names if field_selector[14:] in ("", name)]
        return orjson.dumps({"metadata": {"resourceVersion": "9"}, "items": found})

    @contextlib.asynccontextmanager
    async def watch(self, *_: Any, **__: Any) -> AsyncIterator[AsyncIterator[Any]]:
        async def silent() -> AsyncIterator[Any]:
            await asyncio.Event().wait()
            yield

        yield silent()


@contextlib.asynccontextmanager
async def running(api: GrantedApi) -> AsyncIterator[tuple[ScopedReflector, list[str]]]:
    """Run a reflector, and collect the namespaces that it reports."""
    reflector = ScopedReflector(api, SECRETS, Store(), ReflectorOptions())  # type: ignore[arg-type]
    told: list[str] = []
    reflector.subscribe(told.append)
    task = asyncio.ensure_future(reflector.run())
    await asyncio.sleep(0)
    try:
        yield reflector, told
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


async def test_namespaces_are_listed_one_by_one_and_a_refused_one_does_not_hold_the_start():
    api = GrantedApi()
    api.granted, api.secrets = {"a"}, {"a": ["one"], "b": ["two"]}
    async with running(api) as (reflector, told):
        reflector.start("a")
        reflector.start("b")
        await asyncio.wait_for(reflector.wait_synced(), 5)
        assert {entry.name for entry in reflector.store.list()} == {"one"}
        assert (reflector.is_readable("a"), reflector.is_readable("b")) == (True, False)
        assert (reflector.is_refused("a"), reflector.is_refused("b")) == (False, True)
        assert reflector.problem
        api.granted.add("b")
        reflector.start("b")  # the RoleBinding was created
        await eventually(lambda: reflector.is_readable("b"))
        assert {entry.name for entry in reflector.store.list()} == {"one", "two"}
        assert sorted(told) == ["a", "b", "b"]  # refused, then readable
        assert not reflector.problem


async def test_one_object_is_watched_by_its_name():
    api = GrantedApi()
    api.granted, api.secrets = {"a"}, {"a": ["one", "two"]}
    async with running(api) as (reflector, _):
        reflector.start("a", "two")
        await eventually(lambda: reflector.is_readable("a", "two"))
        assert {entry.name for entry in reflector.store.list()} == {"two"}
        assert api.asked[-1] == ("a", "metadata.name=two")
        assert reflector.list_names("a") == ["two"]


async def test_an_ended_watch_takes_its_own_entries_along():
    api = GrantedApi()
    api.granted, api.secrets = {"a", "b"}, {"a": ["one"], "b": ["two"]}
    async with running(api) as (reflector, _):
        reflector.start("a")
        reflector.start("b")
        await asyncio.wait_for(reflector.wait_synced(), 5)
        reflector.stop("a")
        reflector.stop("a")
        assert {entry.name for entry in reflector.store.list()} == {"two"}
        assert not reflector.is_readable("a")
        assert reflector.synced


async def test_no_more_watches_than_the_limit(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("kubeio.cache.scoped_reflector.MAX_SCOPES", 1)
    api = GrantedApi()
    async with running(api) as (reflector, _):
        reflector.start("a")
        reflector.start("b")
        await asyncio.wait_for(reflector.wait_synced(), 5)
        assert {namespace for namespace, _ in api.asked} == {"a"}


def test_a_list_of_one_part_removes_nothing_of_another():
    store = Store()
    for namespace, name in (("a", "one"), ("a", "two"), ("b", "one")):
        entry = parse_entry(orjson.dumps(secret(namespace, name)))
        StorePart(store, namespace).put(entry, live=True)
    assert (len(StorePart(store, "a")), len(StorePart(store, "a", "one"))) == (2, 1)
    StorePart(store, "a", "one").retain(())
    assert {entry.key for entry in store.list()} == {("a", "two"), ("b", "one")}
    StorePart(store, "a").retain(())
    assert {entry.key for entry in store.list()} == {("b", "one")}
