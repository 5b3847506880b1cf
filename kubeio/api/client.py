"""Client of one API server: dicts (or encoded JSON) in, dicts out.

Owns paths, parameters and the media types of patches. `kubeio.http.rest` sends the requests. Knows
no kinds beyond their coordinates.

Hazard: the caller must read the object after a create without an answer. Such a create is not
repeated, so its result is unknown.
"""

import contextlib
import math
import re
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from types import TracebackType
from typing import Literal, Self
from urllib.parse import quote

import orjson

from kubeio import Object, errors
from kubeio.config.endpoint import Endpoint
from kubeio.http import watch_decoder
from kubeio.http.rest import (
    DEFAULT_CLIENT_OPTIONS,
    JSON,
    WATCH_IDLE_SECONDS,
    ClientOptions,
    JsonPatchOperations,
    QueryParams,
    RequestBody,
    RestClient,
)
from tenancy.resources import Resource

PatchKind = Literal["merge", "strategic", "json"]
PropagationPolicy = Literal["Background", "Foreground", "Orphan"]
FieldValidation = Literal["", "Ignore", "Warn", "Strict"]

WATCH_MARGIN_SECONDS = 60.0
"""Seconds after `timeout_seconds` after which the client ends a watch that the server does not."""
_METADATA_ONLY = "application/json;as=PartialObjectMetadata{};g=meta.k8s.io;v=v1,application/json"
_PATCH_TYPES: Mapping[PatchKind, str] = {
    "merge": "application/merge-patch+json",
    "strategic": "application/strategic-merge-patch+json",
    "json": "application/json-patch+json",
}
_match_plain_name = re.compile(r"(?:[a-z0-9][-a-z0-9.]*)?").fullmatch
"""Match a name that needs no quoting, as most."""
_APPLY = "application/apply-patch+yaml"  # JSON is valid YAML


class Client:
    """Client of one API server. Use as `async with Client(endpoint) as client`."""

    def __init__(self, endpoint: Endpoint, options: ClientOptions = DEFAULT_CLIENT_OPTIONS) -> None:
        """Create the client. It makes no connection before the first request."""
        self.endpoint = endpoint
        self.user_agent = options.user_agent
        self.fence = options.fence
        self._supports_streamed_lists = True
        self._transport = RestClient(endpoint, options)

    async def __aenter__(self) -> Self:
        """Open the pools. No connection is made yet."""
        await self._transport.__aenter__()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        problem: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Close every connection."""
        await self._transport.__aexit__(kind, problem, traceback)

    @property
    def supports_streamed_lists(self) -> bool:
        """Return whether to stream lists (WatchList): the server has not refused one."""
        return self._supports_streamed_lists

    def disable_streamed_lists(self) -> None:
        """Record that the server refuses streamed lists. Every later list of it is paged."""
        self._supports_streamed_lists = False

    async def get(
        self,
        resource: Resource,
        name: str,
        *,
        namespace: str = "",
        subresource: str = "",
        metadata_only: bool = False,
        deadline: float | None = None,
    ) -> Object:
        """Fetch one object, live from the server."""
        path = _build_path(resource, namespace, _require_name(name), subresource)
        accept = _METADATA_ONLY.format("") if metadata_only else JSON
        return await self._object("GET", path, accept=accept, deadline=deadline)

    async def list(
        self,
        resource: Resource,
        *,
        namespace: str = "",
        label_selector: str = "",
        field_selector: str = "",
        limit: int = 0,
        continue_token: str = "",
        metadata_only: bool = False,
        deadline: float | None = None,
    ) -> Object:
        """Return the List object of a collection, or of one page of it if `limit` is set."""
        found: Object = orjson.loads(
            await self.list_encoded(
                resource,
                namespace=namespace,
                label_selector=label_selector,
                field_selector=field_selector,
                limit=limit,
                continue_token=continue_token,
                metadata_only=metadata_only,
                deadline=deadline,
            )
        )
        return found

    async def list_encoded(
        self,
        resource: Resource,
        *,
        namespace: str = "",
        label_selector: str = "",
        field_selector: str = "",
        limit: int = 0,
        continue_token: str = "",
        metadata_only: bool = False,
        deadline: float | None = None,
    ) -> bytes:
        """Return a list as `list` does, but as encoded JSON."""
        params = _drop_empty_params(
            labelSelector=label_selector,
            fieldSelector=field_selector,
            limit=str(limit) if limit else "",
        )
        if continue_token:
            params["continue"] = continue_token
        accept = _METADATA_ONLY.format("List") if metadata_only else JSON
        return await self._transport.request(
            "GET", _build_path(resource, namespace), params=params, accept=accept, deadline=deadline
        )

    @contextlib.asynccontextmanager
    async def watch(
        self,
        resource: Resource,
        *,
        namespace: str = "",
        label_selector: str = "",
        field_selector: str = "",
        resource_version: str = "",
        initial_events: bool = False,
        timeout_seconds: int = 0,
        idle_timeout: float = WATCH_IDLE_SECONDS,
        metadata_only: bool = False,
        on_pending: Callable[[int], None] | None = None,
    ) -> AsyncIterator[AsyncIterator[watch_decoder.WatchEvent]]:
        """Open a watch with bookmarks. Leaving the block closes it.

        `initial_events` streams the list first (WatchList). A bookmark with the annotation
        `watch_decoder.INITIAL_EVENTS_END` marks its end. The iterator ends when the server ends the
        watch. It raises Gone, Unavailable or Timeout when the watch broke. Timeout is also raised
        for a server that does not end the watch soon after `timeout_seconds`. `on_pending` is
        called with the bytes of an unfinished event.
        """
        params = _drop_empty_params(
            watch="1",
            allowWatchBookmarks="true",
            labelSelector=label_selector,
            fieldSelector=field_selector,
            resourceVersion=resource_version,
            sendInitialEvents="true" if initial_events else "",
            resourceVersionMatch="NotOlderThan" if initial_events else "",
            timeoutSeconds=str(timeout_seconds) if timeout_seconds else "",
        )
        accept = _METADATA_ONLY.format("") if metadata_only else JSON
        path = _build_path(resource, namespace)
        async with self._transport.watch(
            path,
            params=params,
            accept=accept,
            idle_timeout=idle_timeout,
            max_seconds=timeout_seconds + WATCH_MARGIN_SECONDS if timeout_seconds else math.inf,
            on_pending=on_pending,
        ) as events:
            yield events

    async def create(
        self,
        resource: Resource,
        body: RequestBody,
        *,
        namespace: str = "",
        name: str = "",
        subresource: str = "",
        field_manager: str = "",
        validation: FieldValidation = "",
        dry_run: bool = False,
        deadline: float | None = None,
    ) -> Object:
        """Create an object, or with `name` and `subresource` a binding, eviction or token.

        The namespace is taken from the body when it is a dict and no namespace is given.
        """
        namespace = namespace or _read_metadata_field(body, "namespace")
        path = _build_path(resource, namespace, name, subresource)
        params = _write_params(field_manager, validation, dry_run=dry_run)
        return await self._object("POST", path, params=params, body=body, deadline=deadline)

    async def replace(
        self,
        resource: Resource,
        body: RequestBody,
        *,
        namespace: str = "",
        name: str = "",
        subresource: str = "",
        field_manager: str = "",
        validation: FieldValidation = "",
        dry_run: bool = False,
        deadline: float | None = None,
    ) -> Object:
        """Replace an object. Its resourceVersion must still be current."""
        namespace, name = (
            namespace or _read_metadata_field(body, "namespace"),
            name or _read_metadata_field(body, "name"),
        )
        path = _build_path(resource, namespace, _require_name(name), subresource)
        params = _write_params(field_manager, validation, dry_run=dry_run)
        return await self._object("PUT", path, params=params, body=body, deadline=deadline)

    async def patch(
        self,
        resource: Resource,
        name: str,
        body: RequestBody | JsonPatchOperations,
        *,
        kind: PatchKind = "merge",
        namespace: str = "",
        subresource: str = "",
        field_manager: str = "",
        validation: FieldValidation = "",
        dry_run: bool = False,
        deadline: float | None = None,
    ) -> Object:
        """Patch an object. The server merges."""
        return await self._object(
            "PATCH",
            _build_path(resource, namespace, _require_name(name), subresource),
            params=_write_params(field_manager, validation, dry_run=dry_run),
            body=body,
            content=_PATCH_TYPES[kind],
            repeatable=kind != "json",  # adding to a list twice adds twice
            deadline=deadline,
        )

    async def apply(
        self,
        resource: Resource,
        body: RequestBody,
        *,
        field_manager: str,
        force: bool = True,
        namespace: str = "",
        name: str = "",
        subresource: str = "",
        validation: FieldValidation = "",
        dry_run: bool = False,
        deadline: float | None = None,
    ) -> Object:
        """Apply an object (server-side apply).

        Fields that are no longer sent are removed. Fields of other managers stay.
        """
        namespace, name = (
            namespace or _read_metadata_field(body, "namespace"),
            name or _read_metadata_field(body, "name"),
        )
        params = _write_params(field_manager, validation, dry_run=dry_run)
        params["force"] = "true" if force else "false"
        path = _build_path(resource, namespace, _require_name(name), subresource)
        return await self._object(
            "PATCH", path, params=params, body=body, content=_APPLY, deadline=deadline
        )

    async def delete(
        self,
        resource: Resource,
        name: str,
        *,
        namespace: str = "",
        uid: str = "",
        resource_version: str = "",
        grace_seconds: int | None = None,
        propagation: PropagationPolicy | None = None,
        dry_run: bool = False,
        deadline: float | None = None,
    ) -> Object:
        """Delete an object. With `uid`, raise Conflict if the name belongs to another object.

        Returns the object while finalizers or a grace period keep it, otherwise a Status.
        """
        options: Object = {"apiVersion": "v1", "kind": "DeleteOptions"}
        preconditions = _drop_empty_params(uid=uid, resourceVersion=resource_version)
        if preconditions:
            options["preconditions"] = preconditions
        if grace_seconds is not None:
            options["gracePeriodSeconds"] = grace_seconds
        if propagation is not None:
            options["propagationPolicy"] = propagation
        if dry_run:
            options["dryRun"] = ["All"]
        path = _build_path(resource, namespace, _require_name(name))
        return await self._object("DELETE", path, body=options, deadline=deadline)

    async def raw(
        self,
        method: str,
        path: str,
        *,
        params: QueryParams | None = None,
        body: RequestBody | JsonPatchOperations | None = None,
        content: str = JSON,
        accept: str = JSON,
        repeatable: bool | None = None,
        deadline: float | None = None,
    ) -> bytes:
        """Send any request and return the answer's body: `/version`, `/readyz`, pod logs, ..."""
        return await self._transport.request(
            method,
            path,
            params=params,
            body=body,
            content=content,
            accept=accept,
            repeatable=repeatable,
            deadline=deadline,
        )

    async def find_lines(self, path: str, *, start: bytes, max_bytes: int) -> Sequence[bytes]:
        """Return the lines of a text, such as `/metrics`, that begin with `start`.

        Raises ResponseTooLarge if the text has more than `max_bytes`, and TimeoutError.
        """
        return await self._transport.find_lines(path, start=start, max_bytes=max_bytes)

    async def version(self) -> str:
        """Return the server's gitVersion, such as `v1.36.4`."""
        return str((await self._object("GET", "/version"))["gitVersion"])

    async def _object(
        self,
        method: str,
        path: str,
        *,
        params: QueryParams | None = None,
        body: RequestBody | JsonPatchOperations | None = None,
        content: str = JSON,
        accept: str = JSON,
        repeatable: bool | None = None,
        deadline: float | None = None,
    ) -> Object:
        answer = await self._transport.request(
            method,
            path,
            params=params,
            body=body,
            content=content,
            accept=accept,
            repeatable=repeatable,
            deadline=deadline,
        )
        try:
            found = orjson.loads(answer)
        except orjson.JSONDecodeError:
            found = None
        if not isinstance(found, dict):
            raise errors.Unavailable(
                "the answer is not a JSON object. Check for a proxy in between",
                request=self._transport.describe_request(method, path),
            )
        return found


def _build_path(resource: Resource, namespace: str, name: str = "", subresource: str = "") -> str:
    """Return the URL path. Any name stays one segment of it."""
    if not (_match_plain_name(namespace) and _match_plain_name(name)):
        for part in (namespace, name):
            if part in (".", ".."):
                raise ValueError(f"{part!r} is not a name")
        namespace, name = quote(namespace, safe=""), quote(name, safe=":")
    return resource.build_path(namespace, name, subresource)


def _require_name(name: str) -> str:
    """Return a name.

    Raise ValueError if it is empty, as the path would be the whole collection's.
    """
    if not name:
        raise ValueError(
            "the object has no name. Without a name the request would apply to all objects"
        )
    return name


def _read_metadata_field(body: RequestBody, field: str) -> str:
    if isinstance(body, bytes):
        return ""
    return str((body.get("metadata") or {}).get(field) or "")


def _drop_empty_params(**params: str) -> dict[str, str]:
    return {key: value for key, value in params.items() if value}


def _write_params(
    field_manager: str, validation: FieldValidation, *, dry_run: bool
) -> dict[str, str]:
    return _drop_empty_params(
        fieldManager=field_manager,
        fieldValidation=validation,
        dryRun="All" if dry_run else "",
    )
