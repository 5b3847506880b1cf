"""Lists and watches that are asked for: pages, earlier states, and where a watch begins.

Owns the meaning of their parameters. Hazard: what a continued list shows is the state of its first
page, which may be compacted away meanwhile.
"""

import base64
import binascii
import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import orjson

from tests.support.memapi import refusals, selection
from tests.support.memapi.cluster import Collection, MemoryCluster
from tests.support.memapi.watches import (
    CollectionWatch,
    Object,
    Selection,
    StoredObject,
    event,
    reduced,
)


@dataclass(slots=True, frozen=True, kw_only=True)
class RequestedList:
    """A list that was asked for."""

    collection: Collection
    namespace: str
    params: Mapping[str, str]
    wants_metadata: bool


@dataclass(slots=True, frozen=True, kw_only=True)
class RequestedWatch:
    """A requested watch, which the connection creates."""

    collection: Collection
    selection: Selection
    revision: int
    """0: from now on."""
    sends_list: bool
    seconds: float
    metadata_only: bool

    def begin(
        self, send: Callable[[bytes], None], end: Callable[[], None], *, behind: int = 0
    ) -> CollectionWatch | None:
        """Start the watch. None, after its reason was sent, if its past was compacted.

        A list before it is `behind` by so many revisions, as far as they are known.
        """
        collection = self.collection
        begun, listed = self.revision, None
        if not begun:
            begun = max(collection.cluster.revision - behind, 0)
            listed = collection.select(self.selection, begun)
            if listed is None:
                begun = collection.cluster.revision
                listed = collection.select(self.selection)
        missed = collection.since(begun)
        if missed is None:
            gone = refusals.expired(f"too old resource version: {begun}")
            send(event("ERROR", gone.encoded()))
            return None
        watch = CollectionWatch(
            self.selection,
            send,
            metadata_only=self.metadata_only,
            after=begun,
            end=end,
        )
        for found in listed or ():
            watch.say(watch.first(found))
        if self.sends_list:
            watch.say(collection.cluster.bookmark(collection.resource, begun, ends_list=True))
        for change in missed:
            watch.offer(change)
        collection.follow(watch)
        return watch


def selected(params: Mapping[str, str], namespace: str) -> Selection:
    """Return what a list or a watch is to show."""
    return Selection(
        namespace=namespace,
        labels=selection.of_labels(params.get("labelSelector", "")),
        fields=selection.of_fields(params.get("fieldSelector", "")),
    )


def listed(asked: RequestedList) -> bytes:
    """Return a list, or a page of it. Raises RefusedError."""
    cluster = asked.collection.cluster
    params, resource = asked.params, asked.collection.resource
    limit, token = int(params.get("limit") or 0), params.get("continue") or ""
    revision, start = _opened(token) if token else (_revision(params, cluster), "")
    chosen = selected(params, asked.namespace)
    scope = chosen
    if limit:  # a page is cut from all keys, unless one name is asked for
        is_named = params.get("fieldSelector", "").startswith("metadata.name=")
        fields = chosen.fields if is_named else None
        scope = Selection(namespace=asked.namespace, fields=fields)
    found = asked.collection.select(scope, revision)
    if found is None:
        raise refusals.expired(
            "The provided continue parameter is too old to display a consistent list result."
            if token
            else f"The resourceVersion for the provided list is too old: {revision}"
        )
    revision = revision or cluster.revision
    metadata: Object = {"resourceVersion": str(revision)}
    page = found
    if limit:
        found = [each for each in found if _place_of(each) > start]
        page = list(itertools.islice(filter(chosen.takes, found), limit))
        # The rest may not be selected. Then the last page is empty, as on real servers.
        if len(page) == limit and page[-1] is not found[-1]:
            metadata["continue"] = _sealed(revision, _place_of(page[-1]))
            if chosen.labels is None and chosen.fields is None:
                metadata["remainingItemCount"] = len(found) - limit
    kind, version = f"{resource.kind}List", resource.api_version
    if asked.wants_metadata:
        kind, version = "PartialObjectMetadataList", "meta.k8s.io/v1"
    head = orjson.dumps({"kind": kind, "apiVersion": version, "metadata": metadata})
    own = orjson.dumps({"kind": resource.kind, "apiVersion": resource.api_version})[:-1] + b","
    items = [
        reduced(each.body) if asked.wants_metadata else b"{" + each.body.removeprefix(own)
        for each in page
    ]
    return head[:-1] + b',"items":[' + b",".join(items) + b"]}"


def _revision(params: Mapping[str, str], cluster: MemoryCluster) -> int:
    """Return the revision of a list: 0 for the newest."""
    told = int(params.get("resourceVersion") or 0)
    if told > cluster.revision:
        raise refusals.from_the_future(told, cluster.revision)
    return told if params.get("resourceVersionMatch") == "Exact" else 0


def _place_of(found: StoredObject) -> str:
    return f"{found.namespace}/{found.name}" if found.namespace else found.name


def _sealed(revision: int, last: str) -> str:
    return base64.urlsafe_b64encode(orjson.dumps([revision, last])).decode()


def _opened(token: str) -> tuple[int, str]:
    try:
        revision, last = orjson.loads(base64.urlsafe_b64decode(token))
    except (binascii.Error, ValueError) as problem:
        raise refusals.bad("continue key is not valid") from problem
    return int(revision), str(last)
