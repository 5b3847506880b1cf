"""The ConfigMap is told as it is, as it changes, and after every break again."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

import pytest
import trustme

from tests.support import tls_sockets
from tests.support.eventually import eventually
from tests.support.vnagent.configmap_api import (
    CHUNK_BYTES,
    NAME,
    NAMESPACE,
    ConfigMapApi,
    forbidding,
)
from vnagent.client import configmap_watch
from vnagent.client.configmap_watch import ConfigMapWatch
from vnagent.client.https_client import HttpsClient, ServerAddress
from vnagent.stream.file_watch import WatchedFile
from vnagent.stream.receive_buffer import ReceiveBuffer


@pytest.fixture(autouse=True)
def _in_a_hurry(monkeypatch):
    monkeypatch.setattr(configmap_watch, "RETRY_SECONDS", (0.01,))
    monkeypatch.setattr(configmap_watch, "WATCH_INTERVAL_SECONDS", 0.0)


@contextlib.asynccontextmanager
async def following(
    api: ConfigMapApi, folder, authority: trustme.CA, trusted: trustme.CA | None = None
) -> AsyncIterator[list[object]]:
    """Follow. Yields what was told, `lost` among it."""
    told: list[object] = []
    files = [WatchedFile(folder / "ca.crt"), WatchedFile(folder / "token")]
    files[0].path.write_bytes((trusted or authority).cert_pem.bytes())
    files[1].path.write_bytes(b"token")
    for file in files:
        await file.refresh()
    context = tls_sockets.server_context(authority, "127.0.0.1")
    async with api.running(tls=context, chunk_bytes=CHUNK_BYTES):
        address = ServerAddress("127.0.0.1", api.port, "127.0.0.1")
        origin = HttpsClient(address, authorities=files[0], token=files[1], buffer=ReceiveBuffer())
        found = ConfigMapWatch(
            origin,
            namespace=NAMESPACE,
            name=NAME,
            on_data=told.append,
            on_lost=lambda: told.append("lost"),
        )
        task = asyncio.ensure_future(found.run())
        try:
            yield told
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


def watches(api: ConfigMapApi) -> list[str]:
    """Return the watches that were opened."""
    return [target for target in api.asked if "watch=true" in target]


async def test_what_is_there_is_reported_and_then_each_change(tmp_path, authority):
    """By one look and one watch from its version on, of this one object."""
    api = ConfigMapApi({"a": "1"})
    first = api.version
    async with following(api, tmp_path, authority) as told:
        await eventually(lambda: watches(api))
        for data in ({"a": "2"}, None, {"a": "3"}):
            api.put(data)
        await eventually(lambda: len(told) == 4)
    assert told == [{"a": "1"}, {"a": "2"}, None, {"a": "3"}]
    collection = f"/api/v1/namespaces/{NAMESPACE}/configmaps"
    query = f"watch=true&fieldSelector=metadata.name%3D{NAME}&timeoutSeconds=240"
    query += f"&allowWatchBookmarks=true&resourceVersion={first}"
    assert api.asked == [f"{collection}/{NAME}", f"{collection}?{query}"]


async def test_one_that_comes_late_is_reported(tmp_path, authority):
    """The agent is there before vc-manager has written."""
    api = ConfigMapApi()
    async with following(api, tmp_path, authority) as told:
        await eventually(lambda: watches(api))
        api.put({"a": "1"})
        await eventually(lambda: len(told) == 2)
    assert told == [None, {"a": "1"}]
    assert "resourceVersion" not in watches(api)[0]


async def test_a_watch_that_ends_is_gone_on_with_from_where_it_was(tmp_path, authority):
    """An orderly end is no loss, and costs no request but the next watch."""
    api = ConfigMapApi({"a": "1"})
    async with following(api, tmp_path, authority) as told:
        await eventually(lambda: watches(api))
        api.put({"b": "1"}, name="another")
        api.bookmark()
        await asyncio.sleep(0)  # the lines of a turn are sent at its end
        api.cluster.cut()
        await eventually(lambda: len(api.asked) >= 3)
    assert told == [{"a": "1"}]
    begun = [target.partition("&resourceVersion=")[2] for target in api.asked]
    assert begun == ["", f"{api.version}", f"{api.cluster.revision}"]
    assert api.cluster.revision > api.version


@pytest.mark.parametrize(
    ("kind", "found"),
    [
        ("ERROR", {"kind": "Status", "code": 410}),
        ("MODIFIED", {"metadata": {"name": "another"}, "data": {"a": "stolen"}}),
        ("MODIFIED", {"metadata": {"name": NAME}, "data": ["a"]}),
        *(("MODIFIED", None), ("MODIFIED", {"metadata": None}), ("", {})),
    ],
)
async def test_what_is_no_event_ends_the_watch(tmp_path, authority, kind, found):
    """It is lost for a moment, and looked at again."""
    api = ConfigMapApi({"a": "1"})
    async with following(api, tmp_path, authority) as told:
        await eventually(lambda: watches(api))
        api.say(kind, found)
        await eventually(lambda: len(told) >= 3)
        assert told[:3] == [{"a": "1"}, "lost", {"a": "1"}]


@pytest.mark.parametrize("where", [f"/{NAME}", "watch=true"], ids=["read", "watch"])
async def test_a_missing_right_is_a_loss(tmp_path, authority, where):
    """Never taken for an object that is not there."""
    api = ConfigMapApi({"a": "1"}, forbidding(where))
    async with following(api, tmp_path, authority) as told:
        await eventually(lambda: told.count("lost") >= 2)
        assert None not in told


async def test_an_untrusted_server_is_not_used(tmp_path, authority):
    """SEC-11: its certificate does not verify, and it gets no token."""
    api = ConfigMapApi({"a": "1"})
    async with following(api, tmp_path, authority, trusted=trustme.CA()) as told:
        await eventually(lambda: told.count("lost") >= 2)
    assert set(told) == {"lost"}
    assert api.asked == []
