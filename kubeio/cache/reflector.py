"""Reflector: keeps a store equal to a collection by list and watch.

Owns streaming or paging the list, watching, resuming, listing again, and the backoff. Knows nothing
of what the objects mean.

Hazard: the reader must not take DELETED of a watch with a selector for a deletion. It is also sent
for an object that stopped matching.

Hazard: after every break the collection's revision must be read before the watch resumes. A server
with etcd restored to an older state would leave a resumed watch silent for hours.
"""

import asyncio
import contextlib
import logging
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import msgspec
import structlog

from kubeio import errors
from kubeio.api.client import Client
from kubeio.backoff import Backoff
from kubeio.cache.cache_budget import BudgetExceededError, CacheAccount, ListedObjects
from kubeio.cache.store import Entry, Store, StorePart, parse_entry
from kubeio.http import watch_decoder
from kubeio.http.rest import WATCH_IDLE_SECONDS
from kubeio.loop_budget import LoopBudget
from kubeio.resource_version import parse_revision
from telemetry import metrics
from tenancy.resources import Resource

PAGE_SIZE = 500
_PAGE_SIZE_LARGE = 25
"""Page size if only a part of each object is kept, because a whole page is in memory."""
_PAGE_SIZE_DIVISOR = 5
"""Divisor of the page size after a page that was larger than an answer may be."""
_MAX_EMPTY_PAGES = 100
"""Pages in a row without a new object, after which a list is considered endless."""
_WATCH_SECONDS_RANGE = (300, 600)  # the server ends a watch after a random time in between
_NO_BOOKMARK_SECONDS_RANGE = (120, 180)
_NO_BOOKMARK_IDLE_SECONDS = 210.0
"""Seconds of silence after which a watch without bookmarks is broken.

Without bookmarks only the end of the watch proves that the server is alive.
"""
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


_PAGE_DECODER = msgspec.json.Decoder(_Page)
_BOOKMARK_DECODER = msgspec.json.Decoder(_Bookmark)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReflectorOptions:
    """Options of a reflector: the selected objects, the part of them that is kept, the limits."""

    namespace: str = ""
    """Empty for the objects of all namespaces."""
    label_selector: str = ""
    field_selector: str = ""
    metadata_only: bool = False
    reduce: Callable[[Entry], Entry] | None = None
    """Returns the part of an entry that is kept. None: entries are kept whole."""
    side: str = ""
    """Metric label from a bounded set, such as `super` or `tenant`."""
    has_bookmarks: bool = True
    """False for Events, because API servers keep Events out of their watch cache.

    Silence means nothing then.
    """
    idle_timeout: float = WATCH_IDLE_SECONDS
    """Seconds of silence after which a watch with bookmarks is broken."""
    max_list_bytes: int | None = None
    """Limit of the bytes of a list that are kept. A longer list fails. None: no limit."""
    account: CacheAccount | None = None
    """Account of the store in the budget of its server. Over it `run` raises BudgetExceededError.
    None: no budget.
    """


DEFAULT_REFLECTOR_OPTIONS = ReflectorOptions()


class Reflector:
    """Reflector of one collection of one server into one store.

    The syncer has twenty for each tenant. With more than 30 attributes, Python gives each reflector
    a dict of its own with 1.3 KB.
    """

    def __init__(
        self,
        client: Client,
        resource: Resource,
        store: Store | StorePart,
        options: ReflectorOptions = DEFAULT_REFLECTOR_OPTIONS,
        *,
        loop_budget: LoopBudget | None = None,
        is_budget_spent: Callable[[], bool] | None = None,
        backoff: Backoff | None = None,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
        on_forbidden: Callable[[], None] | None = None,
    ) -> None:
        """Create the reflector. `run` starts it.

        `loop_budget` is the one of the event loop, and a watch begins in an iteration with budget
        left. After each object the reflector yields to the loop if `is_budget_spent` returns True.
        Its default is `loop_budget.is_spent`. `on_forbidden` is called at the first 403 in a row,
        which is then no warning.
        """
        self.store = store
        self.resource = resource
        self.revision = 0
        """Highest resourceVersion ever seen from this server."""
        self.position = 0
        """Position of the watch. After etcd was restored, it is lower than `revision`."""
        self.restarts = 0
        self.synced = False
        """Whether the store has contained a complete list."""
        self.problem = ""
        """The last failure as a sentence, empty without a failure."""
        self._is_last_forbidden = False
        self._on_forbidden = on_forbidden
        self._client = client
        self._options = options
        self._page_size = PAGE_SIZE if options.reduce is None else _PAGE_SIZE_LARGE
        self._loop_budget = loop_budget or LoopBudget()
        self._is_budget_spent = is_budget_spent or self._loop_budget.is_spent
        self._backoff = backoff or Backoff(base=0.5, ceiling=30.0)
        self._sleep = sleep
        self._resume_version = ""
        self._logged_problem = ""
        self._must_check_history = False
        self._must_relist = False
        self._limit: asyncio.Timeout | None = None
        self._started_at = 0.0
        self._pause_timer: asyncio.Future[object] | None = None
        self._first_list: asyncio.Event | None = None
        """Set with `synced`. Exists only while a caller waits, because an event takes 760 bytes."""
        self._restarts_metric = metrics.WATCH_RESTARTS.labels(options.side, resource.plural)
        self._events_metric = metrics.WATCH_EVENTS.labels(options.side, resource.plural)
        self._objects_metric = metrics.CACHED_OBJECTS.labels(options.side, resource.plural)
        self._counted = 0
        self._logger = _log.bind(cluster=client.endpoint.title, resource=resource.plural)

    @property
    def is_forbidden(self) -> bool:
        """Return whether the server refuses the collection with 403."""
        return self._is_last_forbidden and bool(self.problem)

    async def wait_synced(self) -> None:
        """Wait for the first complete list."""
        if not self.synced:
            self._first_list = self._first_list or asyncio.Event()
            await self._first_list.wait()

    def relist(self) -> None:
        """End the watch and list the whole collection again, at once if the server allows it.

        For callers that learn from another store that etcd was restored to an older state. The
        server's revision may already be beyond the watch's position, and the watch would continue
        without an error.
        """
        if self._must_relist:
            return  # already requested
        self._must_relist = True
        if self._limit is not None:
            self._limit.reschedule(asyncio.get_running_loop().time())

    def retry_now(self, server_returned_at: float) -> None:
        """Retry now after a failure, because the server is reachable since `server_returned_at`
        (loop time).

        An attempt that began earlier may wait for an answer in vain, so it is ended.
        """
        if self._pause_timer is not None:
            self._pause_timer.cancel()
        elif self.problem and self._limit is not None and self._started_at < server_returned_at:
            self._limit.reschedule(asyncio.get_running_loop().time())

    async def run(self) -> None:
        """Keep the store equal to the collection until cancelled.

        Raises BudgetExceededError if the server's budget is exceeded.
        """
        try:
            while True:
                await self._run_once()
        finally:
            self._objects_metric.dec(self._counted)
            self._counted = 0

    async def _run_once(self) -> None:
        """Run one list or one watch, and choose the next step from its failure."""
        try:
            await self._run_until_stale()
        except errors.Gone:
            self._resume_version = ""
            await self._pause("the server no longer has this resourceVersion", logging.INFO)
        except errors.Timeout as problem:
            self._must_check_history = True
            await self._pause(str(problem), logging.INFO)
        except errors.Forbidden as problem:
            self._must_check_history = True
            self._report_forbidden(problem)
            await self._pause(str(problem), logging.INFO if self._on_forbidden else logging.WARNING)
        except errors.ResponseTooLarge as problem:
            if self._options.account is not None:
                raise self._options.account.exceed_response(problem) from None
            await self._pause(str(problem), logging.WARNING)
        except (errors.ApiError, errors.Unavailable, errors.CredentialsError) as problem:
            self._must_check_history = True
            self._is_last_forbidden = False
            await self._pause(str(problem), logging.WARNING)
        except (msgspec.MsgspecError, ValueError, LookupError, RecursionError) as problem:
            self._resume_version = ""
            await self._pause(f"an object cannot be read: {problem}", logging.WARNING)

    def _report_forbidden(self, problem: errors.Forbidden) -> None:
        is_news = not self.is_forbidden
        self._is_last_forbidden, self.problem = True, str(problem)
        if is_news and self._on_forbidden is not None:
            self._on_forbidden()

    async def _run_until_stale(self) -> None:
        """Run one list or one watch, until `relist` interrupts it."""
        self._limit = limit = asyncio.timeout(None)
        self._started_at = asyncio.get_running_loop().time()
        try:
            async with limit:
                await self._list_or_watch()
        except TimeoutError:
            if not limit.expired():
                raise
        finally:
            self._limit = None

    async def _pause(self, problem: str, level: int) -> None:
        self.restarts += 1
        self._restarts_metric.inc()
        delay = self._backoff.next()
        known, self._logged_problem = self._logged_problem, problem
        self.problem = problem
        # The same message again is no news, even if the watch worked for a moment.
        self._logger.log(
            logging.DEBUG if known == problem else level,
            "watch.broken",
            problem=problem,
            retry_seconds=round(delay, 2),
        )
        self._pause_timer = asyncio.ensure_future(self._sleep(delay))
        try:
            await asyncio.wait((self._pause_timer,))  # `retry_now` cancels the pause
        finally:
            self._pause_timer.cancel()
            self._pause_timer = None

    async def _list_or_watch(self) -> None:
        if self._must_relist:
            self._resume_version, self._must_relist = "", False
        if self._resume_version and self._must_check_history:
            await self._check_history()
        if self._resume_version:
            await self._watch(initial=False)
        elif self._client.supports_streamed_lists:
            await self._stream_list()
        else:
            await self._list_pages()

    async def _check_history(self) -> None:
        """Compare revisions after a break, because a restored etcd would send no events."""
        newest = parse_revision((await self._fetch_page("", limit=1)).metadata.resource_version)
        if newest < self.position:
            self._logger.warning("watch.revision_decreased", seen=self.position, now=newest)
            self._resume_version = ""
        self._must_check_history = False

    async def _stream_list(self) -> None:
        try:
            await self._watch(initial=True)
        except (errors.Invalid, errors.BadRequest) as answer:
            self._logger.info("watch.no_streamed_lists", answer=str(answer))
            self._client.disable_streamed_lists()

    async def _watch(self, *, initial: bool) -> None:
        """Watch the collection. With `initial` the server first streams all of it (WatchList).

        The streamed list ends with a marked bookmark, and the same stream continues as the watch.
        """
        loop = asyncio.get_running_loop()
        idle_timeout, range_seconds = (
            (self._options.idle_timeout, _WATCH_SECONDS_RANGE)
            if self._options.has_bookmarks
            else (_NO_BOOKMARK_IDLE_SECONDS, _NO_BOOKMARK_SECONDS_RANGE)
        )
        seconds = random.randint(*range_seconds)  # noqa: S311 - spreads reconnects, no secret
        started = loop.time()
        listed: ListedObjects | None = ListedObjects() if initial else None
        await self._loop_budget.wait_for_budget()  # a start opens hundreds, each with a handshake
        async with self._client.watch(
            self.resource,
            namespace=self._options.namespace,
            label_selector=self._options.label_selector,
            field_selector=self._options.field_selector,
            resource_version=self._resume_version,
            initial_events=initial,
            timeout_seconds=seconds,
            idle_timeout=idle_timeout,
            metadata_only=self._options.metadata_only,
            on_pending=self._options.account.charge_pending if self._options.account else None,
        ) as events:
            self.problem = ""  # the server watches, however late its next event is
            async for event in events:
                if listed is None:
                    self._apply_event(event)
                elif event.type != "BOOKMARK":
                    self._collect_initial(listed, event)
                else:
                    mark = _BOOKMARK_DECODER.decode(event.raw).metadata
                    if watch_decoder.INITIAL_EVENTS_END in (mark.annotations or {}):
                        await self._replace_store(listed, mark.resource_version)
                        listed = None
                if self._is_budget_spent():
                    await asyncio.sleep(0)
        if listed is not None:
            raise errors.Unavailable("the server ended a streamed list before its end")
        if loop.time() - started < seconds - 1:
            # An early end: the server stops, and may return with a restored etcd.
            self._must_check_history = True
            await self._pause("the server ended the watch early", logging.DEBUG)

    async def _list_pages(self) -> None:
        listed = ListedObjects()
        token, barren = "", 0
        while True:
            known = len(listed.found)
            account = self._options.account
            async with account.page_turns if account else contextlib.nullcontext():
                page = await self._fetch_fitting_page(token)
                for item in page.items or ():
                    self._collect(listed, item)
                    if self._is_budget_spent():
                        await asyncio.sleep(0)
                token, version = page.metadata.token, page.metadata.resource_version
                del page
            if not token:
                break
            # An empty page is allowed. A server that repeats its pages has no last one.
            barren = 0 if len(listed.found) > known else barren + 1
            if barren == _MAX_EMPTY_PAGES:
                raise errors.Unavailable(
                    f"the server's list does not end: {barren} pages without new objects"
                )
        await self._replace_store(listed, version)

    async def _fetch_fitting_page(self, token: str) -> _Page:
        """Fetch a page with fewer objects if they are too large for one answer."""
        while True:
            try:
                return await self._fetch_page(token, limit=self._page_size)
            except errors.ResponseTooLarge:
                if self._page_size == 1:
                    raise
                self._page_size = max(1, self._page_size // _PAGE_SIZE_DIVISOR)

    async def _fetch_page(self, token: str, *, limit: int) -> _Page:
        return _PAGE_DECODER.decode(
            await self._client.list_encoded(
                self.resource,
                namespace=self._options.namespace,
                label_selector=self._options.label_selector,
                field_selector=self._options.field_selector,
                limit=limit,
                continue_token=token,
                metadata_only=self._options.metadata_only,
                deadline=_LIST_DEADLINE,
            )
        )

    async def _replace_store(self, listed: ListedObjects, resource_version: str) -> None:
        self._advance(resource_version, restart=True)
        found = listed.found
        for entry in found.values():
            self.store.put(entry, live=False)
            if self._is_budget_spent():
                await asyncio.sleep(0)
        self.store.retain(found.keys())
        self._count_objects()
        self._charge()
        self._must_check_history = False
        self.problem = ""
        self.store.synced = True
        self.synced = True
        if self._first_list is not None:
            self._first_list.set()
            self._first_list = None
        self._logger.debug("watch.listed", objects=len(found), revision=self.position)

    def _apply_event(self, event: watch_decoder.WatchEvent) -> None:
        if event.type == "BOOKMARK":
            self._advance(_BOOKMARK_DECODER.decode(event.raw).metadata.resource_version)
        else:
            entry = self._build_entry(event.raw)
            self._advance(entry.resource_version)
            if event.type == "DELETED":
                self.store.discard(entry, live=True)
            else:
                self.store.put(entry, live=True)
            self._events_metric.inc()
            self._count_objects()
            self._charge()
        self._backoff.reset()
        self.problem = self._logged_problem = ""

    def _build_entry(self, raw: bytes | msgspec.Raw) -> Entry:
        """Return the part of an object that is kept. Raises BudgetExceededError."""
        resource = self.resource
        entry = parse_entry(raw, api_version=resource.api_version, kind=resource.kind)
        if self._options.reduce is not None:
            entry = self._options.reduce(entry)
        if self._options.account is not None:
            self._options.account.check_object(entry)
        return entry

    def _charge(self, listed: ListedObjects | None = None) -> None:
        """Charge the server's budget. Raises BudgetExceededError, without the listed objects."""
        if self._options.account is None:
            return
        try:
            self._options.account.charge(listed)
        except BudgetExceededError:
            if listed is not None:
                listed.clear()  # the error refers to frames that refer to the list
            raise

    def _check_list_size(self, size: int) -> None:
        """Raise Unavailable if a list is larger than the limit and may not fit into memory."""
        limit = self._options.max_list_bytes
        if limit is not None and size > limit:
            raise errors.Unavailable(f"the list has more than {limit} bytes")

    def _collect(self, listed: ListedObjects, raw: bytes | msgspec.Raw) -> None:
        """Add an object to a list. Raises Unavailable or BudgetExceededError over a limit."""
        listed.put(self._build_entry(raw), len(memoryview(raw)))
        self._check_list_size(listed.kept)
        self._charge(listed)

    def _collect_initial(self, listed: ListedObjects, event: watch_decoder.WatchEvent) -> None:
        """Add an event of a streamed list."""
        if not self.store.has_metadata_only:
            return  # earlier objects are no news, and this store would not keep them
        if event.type == "DELETED":
            listed.discard(self._build_entry(event.raw), len(event.raw))
            self._charge(listed)
        else:
            self._collect(listed, event.raw)

    def _advance(self, resource_version: str, *, restart: bool = False) -> None:
        if not resource_version:
            return
        number = parse_revision(resource_version)
        if number < self.position and not restart:
            raise errors.Gone(f"the server's revision decreased from {self.position} to {number}")
        self._resume_version = resource_version
        self.position = number
        self.revision = max(self.revision, number)

    def _count_objects(self) -> None:
        size = len(self.store)
        if size != self._counted:
            self._objects_metric.inc(size - self._counted)
            self._counted = size
