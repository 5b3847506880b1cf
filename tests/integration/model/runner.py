"""A program on one server, and its answers in a form in which two servers say the same.

UIDs, revisions and made-up names become numbers in the order in which they are met, moments one
word. What the two may say differently is left out: managedFields, messages, which of several rules
an invalid object breaks.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

import orjson

from kubeio.errors import RequestDescription
from kubeio.http import watch_decoder
from kubeio.http.transport_protocol import HttpRequest, HttpTransport
from tenancy.resources import CONFIG_MAPS, NAMESPACES, Resource
from tests.integration.model.programs import SPACES, Object, ProgramRequest

_MADE = re.compile(r"(made-\d{3}-)[a-z0-9]{5}")
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")


@dataclass
class ServerState:
    """The states of one place that a server has shown so far."""

    uid: str = "00000000-0000-4000-8000-000000000000"
    version: str = "1"
    older: str = "1"


@dataclass
class ProgramRunner:
    """One server that programs run on."""

    wire: HttpTransport
    prefix: str
    """Of namespaces, so that programs do not meet."""
    known: dict[tuple[str, str, str], ServerState] = field(default_factory=dict)
    answers: list[Object] = field(default_factory=list)

    async def begin(self) -> str:
        """Make the namespaces. Returns the revision from which everything can be watched."""
        for space in SPACES:
            body = {"metadata": {"name": self.prefix + space}}
            status, answer = await self.ask("POST", NAMESPACES.build_path(), body)
            assert status == 201, answer
        _, found = await self.ask("GET", CONFIG_MAPS.build_path() + "?limit=1", None)
        return str(found["metadata"]["resourceVersion"])

    async def ask(
        self, method: str, target: str, body: Any, content: str = "application/json"
    ) -> tuple[int, Object]:
        """Send one request."""
        encoded = None if body is None else orjson.dumps(body)
        headers = [("Accept", "application/json"), ("User-Agent", "program/1")]
        if encoded is not None:
            headers.append(("Content-Type", content))
        request = HttpRequest(
            method, target, headers, encoded, RequestDescription("server", method, target)
        )
        answer = await self.wire.exchange(request, timeout_seconds=30.0)
        return answer.status, orjson.loads(answer.content)

    async def run(self, step: ProgramRequest) -> None:
        """Run one step and remember the answer."""
        is_space = step.resource is NAMESPACES
        space = "" if is_space else self.prefix + step.space
        name = self.prefix + step.name if is_space else step.name
        place = (step.resource.kind, space, name)
        known = self.known.setdefault(place, ServerState())
        body = self._completed(step, known)
        at = "" if step.verb == "POST" and not step.subresource else name
        query = "&".join(f"{key}={value}" for key, value in step.params)
        target = step.resource.build_path(space, at, step.subresource) + (
            f"?{query}" if query else ""
        )
        target = target.replace(" ", "%20")
        status, answer = await self.ask(step.verb, target, body, step.content or "application/json")
        await self._note(step, status, known)
        self.answers.append({"status": status, "answer": answer})
        token = (answer.get("metadata") or {}).get("continue")
        while token:
            status, answer = await self.ask("GET", f"{target}&continue={token}", None)
            self.answers.append({"status": status, "answer": answer})
            token = (answer.get("metadata") or {}).get("continue")

    def _completed(self, step: ProgramRequest, known: ServerState) -> Any:
        """Put UID and revision into a body."""
        body = orjson.loads(orjson.dumps(step.body))
        if not isinstance(body, dict):
            return body
        told: Object = {}
        if step.uid:
            told["uid"] = known.uid if step.uid == "right" else "11111111-0000-4000-8000-00000000"
        if step.version:
            told["resourceVersion"] = known.version if step.version == "right" else known.older
        if told and step.verb == "DELETE":
            body["preconditions"] = told
        elif told:
            body["metadata"] = {**(body.get("metadata") or {}), **told}
        return body

    async def _note(self, step: ProgramRequest, status: int, known: ServerState) -> None:
        """Remember what is there now, as a client does that looks after each step."""
        if step.resource is NAMESPACES:
            target = NAMESPACES.build_path("", self.prefix + step.name)
        else:
            target = step.resource.build_path(self.prefix + step.space, step.name)
        if step.verb == "GET" or status >= 400:
            return
        found, live = await self.ask("GET", target, None)
        if found == 200 and live["metadata"]["resourceVersion"] != known.version:
            known.older, known.version = known.version, live["metadata"]["resourceVersion"]
            known.uid = live["metadata"]["uid"]
        self.answers.append({"status": found, "answer": live})

    async def watched(
        self, resource: Resource, revision: str, space: str, end: str, selector: str
    ) -> list[Object]:
        """Return the events of a kind in a namespace from a revision on, until a marker comes."""
        target = (
            f"{resource.build_path(self.prefix + space)}?watch=1&resourceVersion={revision}"
            f"&timeoutSeconds=20&labelSelector={selector}"
        )
        headers = [("Accept", "application/json"), ("User-Agent", "program/1")]
        request = HttpRequest(
            "GET", target, headers, None, RequestDescription("server", "WATCH", target)
        )
        answer = await self.wire.stream(request, connect=10.0, idle_timeout=30.0)
        lines, found = watch_decoder.LineDecoder(), list[Object]()
        try:
            while chunk := await answer.read():
                for line in lines.feed(chunk):
                    event = orjson.loads(line)
                    if event["object"]["metadata"].get("name") == end:
                        return found
                    found.append(event)
        finally:
            answer.abort()
        return found

    def normal(self, found: Any) -> Any:
        """Return answers in the form in which servers can be compared."""
        return NumberedValues(self.prefix, found).form(found)


class NumberedValues:
    """Numbers for what each server makes up, in the order in which it is met."""

    def __init__(self, prefix: str, everything: Any) -> None:
        self._prefix = prefix
        self._uids: dict[str, str] = {}
        versions: set[int] = set()
        self._collect(everything, versions)
        self._ranks = {str(number): rank for rank, number in enumerate(sorted(versions))}

    def _collect(self, found: Any, versions: set[int]) -> None:
        if isinstance(found, list):
            for item in found:
                self._collect(item, versions)
        elif isinstance(found, dict):
            metadata = found.get("metadata")
            if isinstance(metadata, dict) and metadata.get("name"):
                text = metadata.get("resourceVersion", "")
                if text:
                    versions.add(int(text))
            for value in found.values():
                self._collect(value, versions)

    def form(self, found: Any, key: str = "") -> Any:
        """Return the normal form of a value that stands under a key."""
        if isinstance(found, list):
            return [self.form(item) for item in found]
        if isinstance(found, dict):
            return self._mapping(found)
        return self._word(found, key) if isinstance(found, str) else found

    def _word(self, found: str, key: str) -> str:
        if key == "uid":
            return self._uids.setdefault(found, f"uid-{len(self._uids)}")
        if key == "resourceVersion":
            return f"rv-{self._ranks[found]}" if found in self._ranks else "of a list"
        if key == "name":
            found = _MADE.sub(r"\1", found)
        return _TIME.sub("T", found).replace(self._prefix, "")

    def _mapping(self, found: Object) -> Object:
        if found.get("kind") == "Status":
            return self._status(found)
        left_out = {"managedFields", "continue", "selfLink"}
        if str(found.get("kind", "")).endswith("List"):
            found = {**found, "metadata": {**found["metadata"], "resourceVersion": ""}}
        return {
            key: self.form(value, key)
            for key, value in sorted(found.items())
            if key not in left_out and value not in ({}, [], None)
        }

    def _status(self, found: Object) -> Object:
        details = found.get("details") or {}
        kept = {key: found.get(key) for key in ("status", "reason", "code")}
        causes = sorted({str(cause.get("reason")) for cause in details.get("causes") or ()})
        if found.get("code") == 422:  # which of several rules speaks first is not compared
            causes = []
        return {**kept, "causes": [cause for cause in causes if cause == "NamespaceTerminating"]}
