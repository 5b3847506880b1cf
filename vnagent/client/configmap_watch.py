"""One ConfigMap of the super cluster, told again whenever it changes.

Owns the watch on one object by its name. Must not know what it holds. Hazard: a watch that is cut
off without a word tells nothing and looks like peace; each ends after a few minutes. The next one
goes on from its version, or after any trouble with a look at the object as it is.
"""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, TypeGuard

import orjson
import structlog

from tenancy.resources import CONFIG_MAPS
from vnagent.client.https_client import Origin
from vnagent.protocol.http_heads import ResponseProblemError
from vnagent.stream.tls_contexts import TrustProblemError

WATCH_SECONDS = 240
GRACE_SECONDS = 15.0
"""For the server to end a watch whose time is over."""
PAUSE_SECONDS = 1.0
"""Between two watches, in case a server ends them at once."""
RETRY_SECONDS = (0.2, 0.5, 1.0, 2.0, 5.0, 10.0)

_log = structlog.get_logger(__name__)

Data = Mapping[str, str]


class WatchProblemError(Exception):
    """The API server did not answer as one does; says how."""


class Bulletin:
    """Follows one ConfigMap for ever."""

    def __init__(
        self,
        api: Origin,
        *,
        namespace: str,
        name: str,
        tell: Callable[[Data | None], None],
        lose: Callable[[], None],
    ) -> None:
        """`tell` gets the data, None when the object is not there; `lose`: no more is told."""
        self._api = api
        self._object = CONFIG_MAPS.path(namespace, name)
        self._collection = CONFIG_MAPS.path(namespace)
        self._name = name
        self._tell = tell
        self._lose = lose
        self._version = ""

    async def follow(self) -> None:
        """Tell of the object as it is and as it changes."""
        failures = 0
        while True:
            try:
                if not self._version:
                    await self._look()
                await self._watch()
                failures = 0
                await asyncio.sleep(PAUSE_SECONDS)
            except (OSError, TrustProblemError, ResponseProblemError, WatchProblemError) as error:
                self._lose()
                self._version = ""
                pause = RETRY_SECONDS[min(failures, len(RETRY_SECONDS) - 1)]
                failures += 1
                _log.warning(
                    "ConfigMap is not followed",
                    name=self._name,
                    error=str(error) or type(error).__name__,
                    retry_seconds=pause,
                )
                await asyncio.sleep(pause)

    async def _look(self) -> None:
        answer = await self._api.ask("GET", self._object)
        if answer.status == 404:
            self._version = ""  # a watch from here begins with the object when it comes
            self._tell(None)
            return
        if answer.status != 200:
            raise WatchProblemError(f"the API server answered {answer.status}")
        self._take(_parse(answer.body))

    async def _watch(self) -> None:
        target = (
            f"{self._collection}?watch=true&fieldSelector=metadata.name%3D{self._name}"
            f"&timeoutSeconds={WATCH_SECONDS}&allowWatchBookmarks=true"
        )
        if self._version:
            target += f"&resourceVersion={self._version}"
        async with asyncio.timeout(WATCH_SECONDS + GRACE_SECONDS):
            await self._api.follow(target, self._hear)

    def _hear(self, line: bytes) -> None:
        event = _parse(line)
        match event.get("type"):
            case "ADDED" | "MODIFIED":
                self._take(event.get("object"))
            case "DELETED":
                self._version = ""
                self._tell(None)
            case "BOOKMARK":
                self._version = _version_of(event.get("object")) or self._version
            case _:  # ERROR, as when the version is gone: the next look finds the present one
                raise WatchProblemError("the watch was ended")

    def _take(self, found: object) -> None:
        if not _is_object(found):
            raise WatchProblemError("the API server gave no ConfigMap")
        metadata, data = found.get("metadata"), found.get("data") or {}
        if not _is_object(metadata) or not _is_object(data) or metadata.get("name") != self._name:
            raise WatchProblemError("the API server gave another ConfigMap")
        self._version = _version_of(found)
        self._tell({key: value for key, value in data.items() if isinstance(value, str)})


def _version_of(found: object) -> str:
    metadata = found.get("metadata") if _is_object(found) else None
    version = str(metadata.get("resourceVersion", "")) if _is_object(metadata) else ""
    return version if version.isalnum() else ""


def _parse(text: bytes) -> dict[str, Any]:
    try:
        found = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise WatchProblemError("the API server did not answer in JSON") from error
    if not _is_object(found):
        raise WatchProblemError("the API server did not answer with an object")
    return found


def _is_object(found: object) -> TypeGuard[dict[str, Any]]:
    return isinstance(found, dict)
