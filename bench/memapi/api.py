"""The API of one cluster: paths and parameters to verbs, answers to JSON.

Owns routing, lists, and counting what is asked. Knows HTTP's words but no connection. Hazard: a
kind that is not served answers 404, as one whose CRD is missing.
"""

import secrets
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl

import orjson

from bench.memapi import patches, selection, verbs
from bench.memapi.cluster import Cluster, Collection, Object, Selection, Stored, reduced
from bench.memapi.verbs import RefusedError

PAGE = 500
_TOKEN_BYTES = 700  # a service account's token is about a kilobyte of base64


@dataclass(slots=True, kw_only=True)
class Request:
    """What a client asks."""

    method: str
    target: str
    body: bytes = b""
    accept: str = ""
    content: str = ""
    agent: str = ""
    params: Mapping[str, str] = field(default_factory=dict)

    @property
    def wants_metadata(self) -> bool:
        """Tell whether only metadata are asked for."""
        return "as=PartialObjectMetadata" in self.accept

    @property
    def manager(self) -> str:
        """Who is noted as writer."""
        return self.params.get("fieldManager") or self.agent.partition("/")[0]


@dataclass(slots=True, frozen=True, kw_only=True)
class Place:
    """What a path means."""

    collection: Collection
    namespace: str = ""
    name: str = ""
    subresource: str = ""


@dataclass(slots=True, frozen=True, kw_only=True)
class Following:
    """A watch that was asked for; the connection makes it."""

    collection: Collection
    selection: Selection
    revision: int
    """0: from now on."""
    sends_list: bool
    seconds: float
    metadata_only: bool


Answer = tuple[int, bytes] | Following


class Api:
    """Answers for one cluster."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self._places: dict[str, Place | None] = {}

    def answer(self, request: Request) -> Answer:
        """Return status and body, or the watch to begin."""
        path, _, query = request.target.partition("?")
        request.params = dict(parse_qsl(query, keep_blank_values=True)) if query else {}
        try:
            place = self._place(path)
            if place is None:
                return self._plain(path)
            self._count(request, place)
            return self._do(request, place)
        except RefusedError as refusal:
            return refusal.code, _status(refusal)

    def _plain(self, path: str) -> tuple[int, bytes]:
        if path in ("/readyz", "/livez", "/healthz"):
            return 200, b"ok"
        if path == "/version":
            return 200, orjson.dumps({"major": "1", "minor": "36", "gitVersion": "v1.36.4"})
        raise RefusedError(404, "NotFound", "the server could not find the requested resource")

    def _place(self, path: str) -> Place | None:
        """Read `/api[s/group]/version[/namespaces/x]/plural[/name[/subresource]]`."""
        parts = path.strip("/").split("/")
        head = 2 if parts[0] == "api" else 3
        root, rest = "/" + "/".join(parts[:head]), parts[head:]
        if not rest:
            return None
        namespace = ""
        if rest[0] == "namespaces" and len(rest) > 2 and rest[2] not in ("status", "finalize"):
            namespace, rest = rest[1], rest[2:]
        collection = self.cluster.collections.get(f"{root}/{rest[0]}")
        if collection is None:
            return None
        name, subresource = [*rest[1:3], "", ""][:2]
        return Place(collection=collection, namespace=namespace, name=name, subresource=subresource)

    def _count(self, request: Request, place: Place) -> None:
        verb = _VERBS.get(request.method, request.method)
        if verb == "get" and not place.name:
            verb = "watch" if "watch" in request.params else "list"
        what = "/".join(filter(None, (place.collection.resource.plural, place.subresource)))
        self.cluster.requests[f"{verb} {what}"] += 1

    def _do(self, request: Request, place: Place) -> Answer:
        if request.method == "GET":
            return self._read(request, place)
        body: Object = orjson.loads(request.body) if request.body else {}
        if request.method == "POST":
            if place.name:
                return self._post_to(place, body)
            return 201, self._create(request, place, body)
        if request.method == "PATCH":
            return self._patch(request, place, body)
        there = verbs.found(place.collection, place.namespace, place.name)
        if request.method == "DELETE":
            return self._delete(place, there, body)
        written = verbs.replace(
            place.collection, there, body, request.manager, subresource=place.subresource
        )
        return 200, written.body

    def _read(self, request: Request, place: Place) -> Answer:
        if place.name:
            found = verbs.found(place.collection, place.namespace, place.name)
            return 200, reduced(found.body) if request.wants_metadata else found.body
        return (self._follow if "watch" in request.params else self._list)(request, place)

    def _create(self, request: Request, place: Place, body: Object) -> bytes:
        made = verbs.create(self.cluster, place.collection, place.namespace, body, request.manager)
        return made.body

    def _post_to(self, place: Place, body: Object) -> Answer:
        there = verbs.found(place.collection, place.namespace, place.name)
        if place.subresource == "binding":
            uid = body["metadata"].get("uid", "")
            verbs.bind(place.collection, there, body["target"]["name"], uid)
            return 201, orjson.dumps(
                {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}
            )
        if place.subresource == "token":
            return 201, orjson.dumps(_token(body))
        raise RefusedError(404, "NotFound", f"there is no {place.subresource}")

    def _patch(self, request: Request, place: Place, body: Object) -> Answer:
        collection, content = place.collection, request.content
        there = collection.get(place.namespace, place.name)
        if there is None and content == patches.APPLY and not place.subresource:
            body["metadata"].setdefault("name", place.name)
            return 201, self._create(request, place, body)
        if content not in (patches.MERGE, patches.STRATEGIC, patches.APPLY):
            raise RefusedError(415, "UnsupportedMediaType", f"{content} is not known here")
        written = verbs.patch(
            collection,
            verbs.found(collection, place.namespace, place.name),
            body,
            request.manager,
            by_key=content != patches.MERGE,
            subresource=place.subresource,
        )
        return 200, written.body

    def _delete(self, place: Place, there: Stored, options: Object) -> Answer:
        resource = place.collection.resource
        left, is_gone = verbs.delete(place.collection, there, options)
        if not is_gone:
            return 202 if resource.kind != "Pod" else 200, left.body
        if resource.kind in ("Pod", "Service", "PersistentVolumeClaim"):
            return 200, left.body
        details = {"name": place.name, "kind": resource.plural}
        success = {"kind": "Status", "apiVersion": "v1", "status": "Success", "details": details}
        return 200, orjson.dumps(success)

    def _list(self, request: Request, place: Place) -> Answer:
        params, resource = request.params, place.collection.resource
        limit = int(params.get("limit") or 0)
        skipped = int(params.get("continue") or 0)
        found = list(place.collection.select(_selection(params, place.namespace)))
        page = found[skipped : skipped + limit] if limit else found
        metadata: Object = {"resourceVersion": str(self.cluster.revision)}
        if limit and skipped + limit < len(found):
            metadata["continue"] = str(skipped + limit)
        kind, version = f"{resource.kind}List", resource.api_version
        if request.wants_metadata:
            kind, version = "PartialObjectMetadataList", "meta.k8s.io/v1"
        head = orjson.dumps({"kind": kind, "apiVersion": version, "metadata": metadata})
        items = [reduced(each.body) if request.wants_metadata else each.body for each in page]
        return 200, head[:-1] + b',"items":[' + b",".join(items) + b"]}"

    def _follow(self, request: Request, place: Place) -> Following:
        params = request.params
        return Following(
            collection=place.collection,
            selection=_selection(params, place.namespace),
            revision=int(params.get("resourceVersion") or 0),
            sends_list=params.get("sendInitialEvents") == "true",
            seconds=float(params.get("timeoutSeconds") or 1800),
            metadata_only=request.wants_metadata,
        )


_VERBS = {"GET": "get", "POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}


def _selection(params: Mapping[str, str], namespace: str) -> Selection:
    return Selection(
        namespace=namespace,
        labels=selection.of_labels(params.get("labelSelector", "")),
        fields=selection.of_fields(params.get("fieldSelector", "")),
    )


def _status(refusal: RefusedError) -> bytes:
    return orjson.dumps(
        {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": str(refusal),
            "reason": refusal.reason,
            "code": refusal.code,
        }
    )


def _token(body: Object) -> Any:
    seconds = (body.get("spec") or {}).get("expirationSeconds") or 3600
    ends = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + seconds))
    token = secrets.token_urlsafe(_TOKEN_BYTES)
    return {**body, "status": {"token": token, "expirationTimestamp": ends}}
