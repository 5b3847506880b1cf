"""Keep a store equal to a collection: stream or list, watch, resume, list anew when told to.

Owns the loop and its backoff. Knows nothing of what the objects mean. Hazards: a selected watch
reports an object that stopped matching as deleted. And a server whose store went back would leave a
resumed watch silent for hours, so after every break the collection's revision is read before the
watch goes on.
"""

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable

import msgspec
import structlog

from kubeio import errors
from kubeio.api.client import Client
from kubeio.backoff import Backoff
from kubeio.cache.store import Entry, Key, Store, parse
from kubeio.http import watch_decoder
from kubeio.http.rest import SILENCE
from kubeio.loop_budget import Turns
from kubeio.resource_version import revision_of
from telemetry import metrics
from tenancy.resources import Resource

PAGE = 500
_PAGE_OF_LARGE = 25
"""Of objects of which only a part is kept: a page is in memory as a whole."""
_BARREN_PAGES = 100
"""Pages in a row without anything new, after which a list is taken to have no end."""
_WATCH_SECONDS = (300, 600)  # the server ends a watch after a random time in between
_UNMARKED_SECONDS = (120, 180)
_UNMARKED_SILENCE = 210.0
"""Where a server has no bookmarks to send, only the end of the watch tells that it lives."""
_LIST_DEADLINE = 60.0

_log: structlog.stdlib.BoundLogger = structlog.get_logger(__name__)


class _ListMeta(
    msgspec.Struct, rename={"resource_version": "resourceVersion", "token": "continue"}
):
    resource_version: str = ""
    token: str = ""


class _Page(msgspec.Struct):
    metadata: _ListMeta
    items: list[msgspec.Raw] | None = None


class _Versioned(msgspec.Struct, rename={"resource_version": "resourceVersion"}):
    resource_version: str = ""
    annotations: dict[str, str] | None = None


class _Bookmark(msgspec.Struct):
    metadata: _Versioned


_PAGE = msgspec.json.Decoder(_Page)
_BOOKMARK = msgspec.json.Decoder(_Bookmark)


class Reflector:
    """Feeds one store from one collection of one server."""

    def __init__(
        self,
        client: Client,
        resource: Resource,
        store: Store,
        *,
        namespace: str = "",
        label_selector: str = "",
        field_selector: str = "",
        metadata_only: bool = False,
        reduce: Callable[[Entry], Entry] | None = None,
        side: str = "",
        turns: Turns | None = None,
        is_turn_over: Callable[[], bool] | None = None,
        silence: float = SILENCE,
        has_bookmarks: bool = True,
        backoff: Backoff | None = None,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
        most: int | None = None,
    ) -> None:
        """Make nothing happen yet; `side` is the bounded metric label, `super` or `tenant`.

        `most` bytes of a list are kept; without, as many as the server has. A longer one fails.

        `reduce` returns what of an entry is kept, where that is not all. `has_bookmarks` is False
        for Events, which API servers keep out of their watch cache: silence means nothing then.
        A watch begins in a fresh one of `turns`, the loop's. After each object that was taken in
        others are let on the loop when `is_turn_over` says so, without it when the turn is over.
        """
        self.store = store
        self.resource = resource
        self.revision = 0
        """Highest resourceVersion ever seen from this server."""
        self.position = 0
        """Where the watch stands; lower than `revision` once the server's store went back."""
        self.restarts = 0
        self.problem = ""
        """The last failure as a sentence; empty while all is well."""
        self._client = client
        self._namespace = namespace
        self._labels = label_selector
        self._fields = field_selector
        self._metadata_only = metadata_only
        self._reduce = reduce
        self._turns = turns or Turns()
        self._is_turn_over = is_turn_over or self._turns.is_over
        self._silence = silence if has_bookmarks else _UNMARKED_SILENCE
        self._seconds = _WATCH_SECONDS if has_bookmarks else _UNMARKED_SECONDS
        self._backoff = backoff or Backoff(base=0.5, ceiling=30.0)
        self._sleep = sleep
        self._most = most
        self._resume = ""
        self._told = ""
        self._in_doubt = False
        self._is_stale = False
        self._limit: asyncio.Timeout | None = None
        self._began = 0.0
        self._pausing: asyncio.Future[object] | None = None
        self._synced = asyncio.Event()
        self._restarts_metric = metrics.WATCH_RESTARTS.labels(side, resource.plural)
        self._events_metric = metrics.WATCH_EVENTS.labels(side, resource.plural)
        self._objects_metric = metrics.CACHED_OBJECTS.labels(side, resource.plural)
        self._counted = 0
        self._logger = _log.bind(cluster=client.endpoint.title, resource=resource.plural)

    @property
    def synced(self) -> bool:
        """Tell whether the store has held a complete list."""
        return self._synced.is_set()

    async def wait_synced(self) -> None:
        """Wait for the first complete list."""
        await self._synced.wait()

    def list_anew(self) -> None:
        """Trust no watch any more: list the whole collection, at once if the server lets us.

        For whoever learns that another store is behind the server. Its revision may be beyond where
        the watch stands, which then goes on as if nothing had been.
        """
        if self._is_stale:
            return  # it is on its way
        self._is_stale = True
        if self._limit is not None:
            self._limit.reschedule(asyncio.get_running_loop().time())

    def hurry(self, returned: float) -> None:
        """Try again now, if all is not well: the server is there again since a time of the loop's.

        A try that began before may wait for an answer in vain, and is ended.
        """
        if self._pausing is not None:
            self._pausing.cancel()
        elif self.problem and self._limit is not None and self._began < returned:
            self._limit.reschedule(asyncio.get_running_loop().time())

    async def run(self) -> None:
        """Follow the collection until cancelled."""
        try:
            while True:
                await self._guarded()
        finally:
            self._objects_metric.dec(self._counted)
            self._counted = 0

    async def _guarded(self) -> None:
        """One list or one watch, and what its end means for the next."""
        try:
            await self._until_stale()
        except errors.Gone:
            self._resume = ""
            await self._pause("the server no longer has this resourceVersion", logging.INFO)
        except errors.Timeout as problem:
            self._in_doubt = True
            await self._pause(str(problem), logging.INFO)
        except (errors.ApiError, errors.Unavailable, errors.CredentialsProblem) as problem:
            self._in_doubt = True
            await self._pause(str(problem), logging.WARNING)
        except (msgspec.MsgspecError, ValueError, LookupError, RecursionError) as problem:
            self._resume = ""
            await self._pause(f"an object cannot be read: {problem}", logging.WARNING)

    async def _until_stale(self) -> None:
        """One list or one watch; it ends as well when somebody asks for a new list."""
        self._limit = limit = asyncio.timeout(None)
        self._began = asyncio.get_running_loop().time()
        try:
            async with limit:
                await self._round()
        except TimeoutError:
            if not limit.expired():
                raise
        finally:
            self._limit = None

    async def _pause(self, problem: str, level: int) -> None:
        self.restarts += 1
        self._restarts_metric.inc()
        delay = self._backoff.next()
        known, self._told = self._told, problem
        self.problem = problem
        # The same words again say nothing new, also when the watch stood for a moment.
        self._logger.log(
            logging.DEBUG if known == problem else level,
            "watch.broken",
            problem=problem,
            retry_seconds=round(delay, 2),
        )
        self._pausing = asyncio.ensure_future(self._sleep(delay))
        try:
            await asyncio.wait((self._pausing,))  # also when somebody hurries
        finally:
            self._pausing.cancel()
            self._pausing = None

    async def _round(self) -> None:
        if self._is_stale:
            self._resume, self._is_stale = "", False
        if self._resume and self._in_doubt:
            await self._check_history()
        if self._resume:
            await self._watch(initial=False)
        elif self._client.supports_streamed_lists:
            await self._stream_list()
        else:
            await self._page_list()

    async def _check_history(self) -> None:
        """After a break: a store that lost its end would never send what we wait for."""
        newest = revision_of((await self._page("", limit=1)).metadata.resource_version)
        if newest < self.position:
            self._logger.warning("watch.store_went_back", seen=self.position, now=newest)
            self._resume = ""
        self._in_doubt = False

    async def _stream_list(self) -> None:
        try:
            await self._watch(initial=True)
        except (errors.Invalid, errors.BadRequest) as answer:
            self._logger.info("watch.no_streamed_lists", answer=str(answer))
            self._client.supports_streamed_lists = False

    async def _watch(self, *, initial: bool) -> None:
        """Follow the collection; `initial` has the server stream the whole of it first (WatchList).

        The streamed list ends with a marked bookmark, and the same stream goes on as the watch.
        """
        loop = asyncio.get_running_loop()
        seconds = random.randint(*self._seconds)  # noqa: S311 - spreads reconnects, no secret
        started = loop.time()
        found: dict[Key, Entry] | None = {} if initial else None
        size = 0
        await self._turns.fresh()  # a start opens hundreds, each with a handshake
        async with self._client.watch(
            self.resource,
            namespace=self._namespace,
            label_selector=self._labels,
            field_selector=self._fields,
            resource_version=self._resume,
            initial_events=initial,
            timeout_seconds=seconds,
            silence=self._silence,
            metadata_only=self._metadata_only,
        ) as events:
            self.problem = ""  # the server follows, however long its next event takes
            async for event in events:
                if found is None:
                    self._take(event)
                elif event.type != "BOOKMARK":
                    size += self._collect(found, event)
                    self._check_size(size)
                else:
                    mark = _BOOKMARK.decode(event.raw).metadata
                    if watch_decoder.INITIAL_EVENTS_END in (mark.annotations or {}):
                        await self._replace(found, mark.resource_version)
                        found = None
                if self._is_turn_over():
                    await asyncio.sleep(0)
        if found is not None:
            raise errors.Unavailable("the server ended a streamed list before its end")
        if loop.time() - started < seconds - 1:
            # Ended before its time: a server that stops, perhaps to come back with another store.
            self._in_doubt = True
            await self._pause("the server ended the watch early", logging.DEBUG)

    async def _page_list(self) -> None:
        found: dict[Key, Entry] = {}
        token, barren, size = "", 0, 0
        while True:
            known = len(found)
            page = await self._page(token, limit=PAGE if self._reduce is None else _PAGE_OF_LARGE)
            for item in page.items or ():
                entry = self._kept(item)
                found[entry.key] = entry
                size += len(entry.body)
                self._check_size(size)
                if self._is_turn_over():
                    await asyncio.sleep(0)
            token = page.metadata.token
            if not token:
                break
            # One page with nothing on it is allowed; a server that goes in circles has no last one.
            barren = 0 if len(found) > known else barren + 1
            if barren == _BARREN_PAGES:
                raise errors.Unavailable(f"the server's list has no end: {barren} pages, no news")
        await self._replace(found, page.metadata.resource_version)

    async def _page(self, token: str, *, limit: int) -> _Page:
        return _PAGE.decode(
            await self._client.list_encoded(
                self.resource,
                namespace=self._namespace,
                label_selector=self._labels,
                field_selector=self._fields,
                limit=limit,
                continue_token=token,
                metadata_only=self._metadata_only,
                deadline=_LIST_DEADLINE,
            )
        )

    async def _replace(self, found: dict[Key, Entry], resource_version: str) -> None:
        self._advance(resource_version, restart=True)
        for entry in found.values():
            self.store.put(entry, live=False)
            if self._is_turn_over():
                await asyncio.sleep(0)
        self.store.retain(found.keys())
        self._count()
        self._in_doubt = False
        self.problem = ""
        self.store.synced = True
        self._synced.set()
        self._logger.debug("watch.listed", objects=len(found), revision=self.position)

    def _take(self, event: watch_decoder.Event) -> None:
        if event.type == "BOOKMARK":
            self._advance(_BOOKMARK.decode(event.raw).metadata.resource_version)
        else:
            entry = self._kept(event.raw)
            self._advance(entry.resource_version)
            if event.type == "DELETED":
                self.store.discard(entry, live=True)
            else:
                self.store.put(entry, live=True)
            self._events_metric.inc()
            self._count()
        self._backoff.reset()
        self.problem = self._told = ""

    def _kept(self, raw: bytes | msgspec.Raw) -> Entry:
        """Return what of an object is kept."""
        resource = self.resource
        entry = parse(raw, api_version=resource.api_version, kind=resource.kind)
        return entry if self._reduce is None else self._reduce(entry)

    def _check_size(self, size: int) -> None:
        """Give a list up that nobody could hold."""
        if self._most is not None and size > self._most:
            raise errors.Unavailable(f"the list has more than {self._most} bytes")

    def _collect(self, found: dict[Key, Entry], event: watch_decoder.Event) -> int:
        """Take an event of a streamed list in; returns how many bytes of it are kept."""
        if not self.store.keeps:
            return 0  # what was there before is no news, and nobody would hold it
        entry = self._kept(event.raw)
        if event.type == "DELETED":
            found.pop(entry.key, None)
        else:
            found[entry.key] = entry
        return len(entry.body)

    def _advance(self, resource_version: str, *, restart: bool = False) -> None:
        if not resource_version:
            return
        number = revision_of(resource_version)
        if number < self.position and not restart:
            raise errors.Gone(f"the server's revision went back from {self.position} to {number}")
        self._resume = resource_version
        self.position = number
        self.revision = max(self.revision, number)

    def _count(self) -> None:
        size = len(self.store)
        if size != self._counted:
            self._objects_metric.inc(size - self._counted)
            self._counted = size
