"""The API of one cluster: paths and parameters to verbs, answers to JSON.

Owns routing, lists, and counting what is asked. Knows HTTP's words but no connection. Hazard: a
kind that is not served answers 404, as one whose CRD is missing.
"""

import string
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl

import orjson

from tests.support.memapi import patches, refusals, verbs
from tests.support.memapi.cluster import Collection, MemoryCluster
from tests.support.memapi.lists import RequestedList, RequestedWatch, listed, selected
from tests.support.memapi.refusals import StatusError
from tests.support.memapi.watches import Object, StoredObject, reduced

_LETTERS = string.ascii_letters + string.digits
_TOKEN_LETTERS = 934  # a service account's token is about a kilobyte of base64


@dataclass(slots=True, kw_only=True)
class ApiRequest:
    """Request of a client."""

    method: str
    target: str
    body: bytes = b""
    accept: str = ""
    content: str = ""
    agent: str = ""
    authorization: str = ""
    params: Mapping[str, str] = field(default_factory=dict)

    @property
    def wants_metadata(self) -> bool:
        """Return whether the client wants only metadata."""
        return "as=PartialObjectMetadata" in self.accept

    @property
    def manager(self) -> str:
        """Name of the writer in managedFields."""
        return self.params.get("fieldManager") or self.agent.partition("/")[0]


@dataclass(slots=True, frozen=True, kw_only=True)
class RequestTarget:
    """Meaning of a path."""

    collection: Collection
    namespace: str = ""
    name: str = ""
    subresource: str = ""


ApiAnswer = tuple[int, bytes] | RequestedWatch


class MemoryApi:
    """Answers for one cluster."""

    def __init__(self, cluster: MemoryCluster) -> None:
        self.cluster = cluster
        self._places: dict[str, RequestTarget | None] = {}

    def answer(self, request: ApiRequest) -> ApiAnswer:
        """Return status and body, or the watch to begin."""
        path, _, query = request.target.partition("?")
        request.params = dict(parse_qsl(query, keep_blank_values=True)) if query else {}
        try:
            place = self.place(path)
            if place is None:
                return self._plain(path)
            what = self._count(request, place)
            answer = self._do(request, place)
        except StatusError as refusal:
            return refusal.code, refusal.encoded()
        if self.cluster.written is not None and request.method != "GET":
            self.cluster.written[f"{what} {place.name or _named(request)}"] += 1
        return answer

    def _plain(self, path: str) -> tuple[int, bytes]:
        if path in ("/readyz", "/livez", "/healthz"):
            return 200, b"ok"
        if path == "/version":
            return 200, orjson.dumps({"major": "1", "minor": "36", "gitVersion": "v1.36.4"})
        raise StatusError(404, "NotFound", "the server could not find the requested resource")

    def place(self, path: str) -> RequestTarget | None:
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
        return RequestTarget(
            collection=collection, namespace=namespace, name=name, subresource=subresource
        )

    def _count(self, request: ApiRequest, place: RequestTarget) -> str:
        """Count a request. Return its verb and resource."""
        verb = _VERBS.get(request.method, request.method)
        if verb == "get" and not place.name:
            verb = "watch" if "watch" in request.params else "list"
        what = "/".join(filter(None, (place.collection.resource.plural, place.subresource)))
        self.cluster.requests[f"{verb} {what}"] += 1
        return f"{verb} {what}"

    def _do(self, request: ApiRequest, place: RequestTarget) -> ApiAnswer:
        if request.method == "GET":
            return self._read(request, place)
        body: Any = orjson.loads(request.body) if request.body else {}
        if request.method == "POST":
            if place.name:
                return self._post_to(place, body)
            return 201, self._create(request, place, body)
        if request.method == "PATCH":
            return self._patch(request, place, body)
        if request.method == "DELETE":
            there = verbs.found(place.collection, place.namespace, place.name)
            return self._delete(place, there, body)
        return self._replace(request, place, body)

    def _replace(self, request: ApiRequest, place: RequestTarget, body: Object) -> ApiAnswer:
        told = body.get("metadata") or {}
        if told.get("name", place.name) != place.name:
            raise refusals.bad(
                f"the name of the object ({told['name']}) does not match the name on the URL"
                f" ({place.name})"
            )
        there = place.collection.get(place.namespace, place.name)
        if there is None and place.collection.resource.kind in _MADE_BY_PUT:
            plural = place.collection.resource.plural
            if told.get("uid"):
                raise refusals.precondition(plural, place.name, "UID", told["uid"], "")
            told.pop("resourceVersion", None)
            return 201, self._create(request, place, body)
        there = there or verbs.found(place.collection, place.namespace, place.name)
        if place.subresource == "finalize":
            return 200, verbs.finalize(place.collection, there, body).body
        written = verbs.replace(
            place.collection, there, body, request.manager, subresource=place.subresource
        )
        return 200, written.body

    def _read(self, request: ApiRequest, place: RequestTarget) -> ApiAnswer:
        if place.name:
            found = verbs.found(place.collection, place.namespace, place.name)
            return 200, reduced(found.body) if request.wants_metadata else found.body
        if "watch" in request.params:
            return self._follow(request, place)
        asked = RequestedList(
            collection=place.collection,
            namespace=place.namespace,
            params=request.params,
            wants_metadata=request.wants_metadata,
        )
        return 200, listed(asked)

    def _create(self, request: ApiRequest, place: RequestTarget, body: Object) -> bytes:
        made = verbs.create(self.cluster, place.collection, place.namespace, body, request.manager)
        return made.body

    def _post_to(self, place: RequestTarget, body: Object) -> ApiAnswer:
        verbs.admit(place.collection, place.namespace, place.name)
        there = verbs.found(place.collection, place.namespace, place.name)
        if place.subresource == "binding":
            uid = body["metadata"].get("uid", "")
            verbs.bind(place.collection, there, body["target"]["name"], uid)
            success = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}
            return 201, orjson.dumps({**success, "code": 201})
        if place.subresource == "token":
            return 201, orjson.dumps(_token(body, self.cluster))
        raise StatusError(404, "NotFound", f"there is no {place.subresource}")

    def _patch(self, request: ApiRequest, place: RequestTarget, body: Any) -> ApiAnswer:
        collection, content = place.collection, request.content
        there = collection.get(place.namespace, place.name)
        if content == patches.APPLY:
            return self._apply(request, place, there, body)
        change: Callable[[Object], Object]
        if content == patches.JSON:
            change, written = (lambda found: patches.edited(found, body)), {}
        elif content in (patches.MERGE, patches.STRATEGIC):
            by_key = content == patches.STRATEGIC
            change = lambda found: patches.merged(found, body, by_key=by_key)  # noqa: E731
            written = body
        else:
            raise StatusError(415, "UnsupportedMediaType", f"{content} is not known here")
        found = verbs.found(collection, place.namespace, place.name)
        return 200, verbs.patch(
            collection, found, change, written, request.manager, subresource=place.subresource
        ).body

    def _apply(
        self, request: ApiRequest, place: RequestTarget, there: StoredObject | None, body: Object
    ) -> tuple[int, bytes]:
        collection, by = place.collection, (request.manager, place.subresource)
        key = (place.namespace, place.name)
        if there is None:
            metadata = body.setdefault("metadata", {})
            plural = collection.resource.plural
            if metadata.get("uid"):
                raise refusals.precondition(plural, place.name, "UID", metadata["uid"], "")
            if place.subresource:
                raise refusals.not_found(plural, place.name)
            metadata.setdefault("name", place.name)
            answer = self._create(request, place, body)
            collection.applied[key] = {by: orjson.loads(request.body)}
            return 201, answer
        before = collection.applied.get(key, {})
        written = verbs.patch(
            collection,
            there,
            lambda found: patches.applied(found, before.get(by), body),
            body,
            request.manager,
            subresource=place.subresource,
        )
        if collection.get(*key) is not None:
            collection.applied[key] = {**before, by: body}
        return 200, written.body

    def _delete(self, place: RequestTarget, there: StoredObject, options: Object) -> ApiAnswer:
        resource = place.collection.resource
        left, is_gone = verbs.delete(place.collection, there, options)
        if not is_gone:
            return 200, left.body
        if resource.kind in _SHOWN_AT_THEIR_END:
            return 200, left.body
        details: Object = {"name": place.name, "kind": resource.plural}
        if resource.group:
            details["group"] = resource.group
        details["uid"] = left.decode()["metadata"]["uid"]
        success = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Success",
            "details": details,
        }
        return 200, orjson.dumps(success)

    def _follow(self, request: ApiRequest, place: RequestTarget) -> RequestedWatch:
        params = request.params
        return RequestedWatch(
            collection=place.collection,
            selection=selected(params, place.namespace),
            revision=int(params.get("resourceVersion") or 0),
            sends_list=params.get("sendInitialEvents") == "true",
            seconds=float(params.get("timeoutSeconds") or 1800),
            metadata_only=request.wants_metadata,
        )


_MADE_BY_PUT = frozenset({"Lease", "Service"})
"""Kinds that a PUT makes where there is none."""
_SHOWN_AT_THEIR_END = frozenset(
    {"PersistentVolume", "PersistentVolumeClaim", "Pod", "Service", "ServiceAccount"}
)
"""Kinds of which a delete answers the object, not a Status."""


_VERBS = {"GET": "get", "POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}


def _named(request: ApiRequest) -> str:
    """Return the name of what is made."""
    metadata = orjson.loads(request.body).get("metadata") or {}
    return metadata.get("name") or metadata.get("generateName") or ""


def _token(body: Object, cluster: MemoryCluster) -> Object:
    seconds = (body.get("spec") or {}).get("expirationSeconds") or 3600
    seconds = min(seconds, cluster.token_seconds or seconds)
    ends = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(cluster.clock() + seconds))
    token = "".join(cluster.chance.choices(_LETTERS, k=_TOKEN_LETTERS))
    return {**body, "status": {"token": token, "expirationTimestamp": ends}}
