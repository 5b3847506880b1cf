"""Decoder of watch events from a chunked body of newline-separated JSON. Pure.

Owns framing and the meaning of event types. Secrets and CRDs exceed every default buffer, so a line
may be long. A tenant's API may send an endless line. It is refused before it fills the memory that
all tenants share.

Hazard: a partial last line must be discarded. It means that the stream was cut.
"""

from typing import Literal, get_args

import msgspec
import orjson

from kubeio import Object, errors

MAX_LINE_BYTES = 16 * 1024 * 1024
"""Longest line in bytes: ten times the size of an object that etcd accepts."""

INITIAL_EVENTS_END = "k8s.io/initial-events-end"
"""Annotation of the bookmark that ends a streamed list."""

WatchEventType = Literal["ADDED", "MODIFIED", "DELETED", "BOOKMARK"]
_EVENT_TYPES = frozenset(get_args(WatchEventType))


class _Frame(msgspec.Struct):
    type: str
    object: msgspec.Raw


class WatchEvent(msgspec.Struct, frozen=True, gc=False):
    """One event of a watch: its type and the object as JSON."""

    type: WatchEventType
    raw: bytes

    def decode(self) -> Object:
        """Return the object as a new dict."""
        found: Object = orjson.loads(self.raw)
        return found


_FRAME_DECODER = msgspec.json.Decoder(_Frame)


class LineDecoder:
    """Splitter of a body into lines, for any size of chunks."""

    def __init__(self, max_line_bytes: int | None = None) -> None:
        """Start without pending bytes. `max_line_bytes` is the limit of one line."""
        self._max_line_bytes = max_line_bytes or MAX_LINE_BYTES
        # Not a list of chunks: an object per chunk of a few bytes takes ten times as much memory.
        self._pending = bytearray()

    @property
    def pending_bytes(self) -> int:
        """Return the bytes of the unfinished line."""
        return len(self._pending)

    def feed(self, chunk: bytes, where: errors.RequestDescription | None = None) -> list[bytes]:
        """Return the lines that this chunk completes. Raises ResponseTooLarge for a long line."""
        lines = chunk.split(b"\n")
        pending = self._pending
        if len(pending) + len(lines[0]) > self._max_line_bytes:
            raise errors.ResponseTooLarge(
                f"a line of more than {self._max_line_bytes} bytes", request=where
            )
        if pending and len(lines) > 1:
            pending += lines[0]
            lines[0] = bytes(pending)
            pending.clear()
        if rest := lines.pop():
            pending += rest
        return [line for line in lines if line]

    def finish(self, where: errors.RequestDescription) -> None:
        """Raise Unavailable when the body ended inside a line."""
        if self._pending:
            raise errors.Unavailable("the stream was cut inside a line", request=where)


def parse_event(line: bytes, where: errors.RequestDescription) -> WatchEvent:
    """Return the event of a line. An ERROR event is raised as the error in it."""
    try:
        frame = _FRAME_DECODER.decode(line)
    except msgspec.DecodeError as problem:
        raise errors.Unavailable(
            "the stream has a line that is not an event", request=where
        ) from problem
    if frame.type == "ERROR":
        raise errors.from_response(0, bytes(frame.object), request=where)
    if frame.type not in _EVENT_TYPES:
        raise errors.Unavailable(f"the stream has an event of type {frame.type!r}", request=where)
    return WatchEvent(frame.type, bytes(frame.object))  # type: ignore[arg-type]  # checked above
