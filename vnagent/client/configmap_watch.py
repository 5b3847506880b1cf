"""Watch on one ConfigMap of the super cluster.

The module owns the watch on one object by its name. It must not know the data. Hazard: each watch
must end after a few minutes. Otherwise a watch that was cut off silently would hide all changes.
The next watch goes on from the last version. After an error the object is read first.
"""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, TypeGuard

import orjson
import structlog

from tenancy.resources import CONFIG_MAPS
from vnagent.client.https_client import HttpsClient
from vnagent.protocol.http_heads import InvalidResponseError
from vnagent.stream.tls_contexts import InvalidTrustError

WATCH_SECONDS = 240
WATCH_GRACE_SECONDS = 15.0
"""Time in seconds for the server to end a watch whose time is over."""
WATCH_INTERVAL_SECONDS = 1.0
"""Pause in seconds between two watches, in case a server ends them at once."""
RETRY_SECONDS = (0.2, 0.5, 1.0, 2.0, 5.0, 10.0)

_log = structlog.get_logger(__name__)

ConfigMapData = Mapping[str, str]


class WatchError(Exception):
    """The API server's answer is not usable. The message has the reason."""


class ConfigMapWatch:
    """Endless watch on one ConfigMap."""

    def __init__(
        self,
        api: HttpsClient,
        *,
        namespace: str,
        name: str,
        on_data: Callable[[ConfigMapData | None], None],
        on_lost: Callable[[], None],
    ) -> None:
        """Store the callbacks. `on_data` receives the data, None for a missing object. `on_lost`
        reports a lost watch.
        """
        self._api = api
        self._object = CONFIG_MAPS.build_path(namespace, name)
        self._collection = CONFIG_MAPS.build_path(namespace)
        self._name = name
        self._on_data = on_data
        self._on_lost = on_lost
        self._version = ""

    async def run(self) -> None:
        """Report the object as it is and as it changes, for ever."""
        failures = 0
        while True:
            try:
                if not self._version:
                    await self._fetch()
                await self._watch()
                failures = 0
                await asyncio.sleep(WATCH_INTERVAL_SECONDS)
            except (OSError, InvalidTrustError, InvalidResponseError, WatchError) as error:
                self._on_lost()
                self._version = ""
                pause = RETRY_SECONDS[min(failures, len(RETRY_SECONDS) - 1)]
                failures += 1
                _log.warning(
                    "ConfigMap is not watched",
                    name=self._name,
                    error=str(error) or type(error).__name__,
                    retry_seconds=pause,
                )
                await asyncio.sleep(pause)

    async def _fetch(self) -> None:
        answer = await self._api.request("GET", self._object)
        if answer.status == 404:
            # a watch without a version begins with the object when it is created
            self._version = ""
            self._on_data(None)
            return
        if answer.status != 200:
            raise WatchError(f"the API server answered {answer.status}")
        self._handle_object(_parse(answer.body))

    async def _watch(self) -> None:
        target = (
            f"{self._collection}?watch=true&fieldSelector=metadata.name%3D{self._name}"
            f"&timeoutSeconds={WATCH_SECONDS}&allowWatchBookmarks=true"
        )
        if self._version:
            target += f"&resourceVersion={self._version}"
        async with asyncio.timeout(WATCH_SECONDS + WATCH_GRACE_SECONDS):
            await self._api.stream_lines(target, self._handle_line)

    def _handle_line(self, line: bytes) -> None:
        event = _parse(line)
        match event.get("type"):
            case "ADDED" | "MODIFIED":
                self._handle_object(event.get("object"))
            case "DELETED":
                self._version = ""
                self._on_data(None)
            case "BOOKMARK":
                self._version = _get_resource_version(event.get("object")) or self._version
            # ERROR, for example for an expired version. The next read finds the present version.
            case _:
                raise WatchError("the watch was ended")

    def _handle_object(self, found: object) -> None:
        if not _is_object(found):
            raise WatchError("the API server returned no ConfigMap")
        metadata, data = found.get("metadata"), found.get("data") or {}
        if not _is_object(metadata) or not _is_object(data) or metadata.get("name") != self._name:
            raise WatchError("the API server returned another ConfigMap")
        self._version = _get_resource_version(found)
        self._on_data({key: value for key, value in data.items() if isinstance(value, str)})


def _get_resource_version(found: object) -> str:
    metadata = found.get("metadata") if _is_object(found) else None
    version = str(metadata.get("resourceVersion", "")) if _is_object(metadata) else ""
    return version if version.isalnum() else ""


def _parse(text: bytes) -> dict[str, Any]:
    try:
        found = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise WatchError("the API server did not answer in JSON") from error
    if not _is_object(found):
        raise WatchError("the API server did not answer with an object")
    return found


def _is_object(found: object) -> TypeGuard[dict[str, Any]]:
    return isinstance(found, dict)
