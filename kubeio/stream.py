"""Newline-separated JSON out of a chunked body, and the events of a watch.

Owns framing and the meaning of event types. There is no limit on a line's length: Secrets and CRDs
exceed every default buffer. Hazard: a stream that ends inside a line was cut, and what it said last
must be treated as never said.
"""

from collections.abc import AsyncIterator
from typing import Literal

import msgspec
import orjson

from kubeio import Object, errors

INITIAL_EVENTS_END = "k8s.io/initial-events-end"
"""Annotation of the bookmark that ends a streamed list."""

EventType = Literal["ADDED", "MODIFIED", "DELETED", "BOOKMARK"]


class _Frame(msgspec.Struct):
    type: str
    object: msgspec.Raw


class Event(msgspec.Struct, frozen=True, gc=False):
    """One event of a watch: its type and the object as JSON."""

    type: EventType
    raw: bytes

    def decode(self) -> Object:
        """Return the object as a dict of the caller's own."""
        found: Object = orjson.loads(self.raw)
        return found


_DECODE = msgspec.json.Decoder(_Frame)


async def lines(chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Yield each line without its end. Raises Unavailable when the body ends inside a line."""
    pending: list[bytes] = []
    async for chunk in chunks:
        head, *rest = chunk.split(b"\n")
        pending.append(head)
        for following in rest:
            line = b"".join(pending)
            pending = [following]
            if line:
                yield line
    if any(pending):
        raise errors.Unavailable("the stream was cut inside a line")


async def events(chunks: AsyncIterator[bytes], where: str) -> AsyncIterator[Event]:
    """Yield the events of a watch. An ERROR event is raised as the error it carries."""
    async for line in lines(chunks):
        try:
            frame = _DECODE.decode(line)
        except msgspec.DecodeError as problem:
            raise errors.Unavailable(
                f"{where}: the stream has a line that is no event"
            ) from problem
        if frame.type == "ERROR":
            raise errors.from_status(0, orjson.loads(bytes(frame.object)), where=where)
        if frame.type not in ("ADDED", "MODIFIED", "DELETED", "BOOKMARK"):
            raise errors.Unavailable(f"{where}: the stream has an event of type {frame.type!r}")
        yield Event(frame.type, bytes(frame.object))  # type: ignore[arg-type]  # checked above
