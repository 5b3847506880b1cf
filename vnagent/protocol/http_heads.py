"""HTTP/1.1 heads, read strictly and written from an allow-list; pure.

Whole answers are read by h11; a head by itself needs no more than its lines, and is read as h11
would or not at all.

Owns which headers pass in each direction. Must not know sockets or routes. Hazard: two servers that
read one head differently are two requests. So each line is one of two strict patterns, requests
have no bodies, one connection carries one request, and nothing but what stands here is copied from
one side to the other.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from http import HTTPStatus

import h11

from vnagent.protocol.errors import Reason, RefusedError

END = b"\r\n\r\n"
MAX_REQUEST_HEAD_BYTES = 96 * 1024
"""A query of 64 KiB (long exec commands travel there) and headers."""
MAX_RESPONSE_HEAD_BYTES = 32 * 1024
MAX_HEADER_LINES = 128

Headers = tuple[tuple[bytes, bytes], ...]
"""Names in lower case, values; repeated names stay apart."""

# No bare CR or LF, no control character but the tab, no blank before a colon, no folded line.
_REQUEST_LINE = re.compile(rb"([A-Z]+) (/[!-~]*) HTTP/1\.1")
_STATUS_LINE = re.compile(rb"HTTP/1\.1 ([1-5][0-9]{2})(?: [\t -~\x80-\xff]*)?")
_FIELD_LINE = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+):([\t -~\x80-\xff]*)")
_LENGTH = re.compile(rb"[0-9]{1,18}")

_UPGRADES = {b"spdy/3.1": b"SPDY/3.1", b"websocket": b"websocket"}
_PROTOCOLS = (
    rb"(?:v[0-9]{1,2}\.)?(?:base64\.)?channel\.k8s\.io|portforward\.k8s\.io"
    rb"|SPDY/3\.1\+portforward\.k8s\.io"
)
# A closed set: kubelets also take bearer tokens out of Sec-WebSocket-Protocol.
_PROTOCOL = re.compile(_PROTOCOLS)
_MAX_PROTOCOLS = 16
_WEBSOCKET_KEY = re.compile(rb"[A-Za-z0-9+/]{22}==")
_WEBSOCKET_ANSWER = re.compile(rb"[A-Za-z0-9+/]{27}=")
_CONTENT_TYPE = re.compile(rb"[A-Za-z0-9/+.;=, \"-]{1,128}")

_PROTOCOL_LISTS = (b"x-stream-protocol-version", b"sec-websocket-protocol")
_ANSWERED_PROTOCOLS = (*_PROTOCOL_LISTS, b"x-accepted-stream-protocol-versions")


@dataclass(frozen=True, slots=True)
class RequestHead:
    """What a caller sent."""

    method: bytes
    target: bytes
    headers: Headers


@dataclass(frozen=True, slots=True)
class ResponseHead:
    """What the kubelet answered."""

    status: int
    headers: Headers

    def values(self, name: bytes) -> list[bytes]:
        """Return every value of a header."""
        return _values(self.headers, name)


class ResponseProblemError(Exception):
    """The answer of a server is not one that we can use."""


class TooLongError(ResponseProblemError):
    """The answer of a server is longer than we take."""


def parse_request(block: bytes) -> RequestHead:
    """Read a request head that ends with an empty line, or raise RefusedError."""
    if block.count(b"\r\n") > 1 + MAX_HEADER_LINES:
        raise RefusedError(431, Reason.MALFORMED, "the request has too many headers")
    try:
        line, headers = _read(block, _REQUEST_LINE)
    except ValueError as error:
        raise _malformed("the request head is not HTTP/1.1") from error
    if len(_values(headers, b"host")) != 1:
        raise _malformed("a request names one host")
    if _values(headers, b"transfer-encoding"):
        raise _malformed("requests to the node agent have no body")
    if any(length != b"0" for length in _values(headers, b"content-length")):
        raise _malformed("requests to the node agent have no body")
    return RequestHead(line[1], line[2], headers)


def requested_upgrade(head: RequestHead) -> bytes:
    """Return the protocol that a request wants to switch to, empty when none."""
    wanted = _values(head.headers, b"upgrade")
    if not wanted:
        return b""
    tokens = b",".join(_values(head.headers, b"connection")).lower().split(b",")
    if b"upgrade" not in {token.strip() for token in tokens}:
        raise _malformed("an Upgrade header needs Connection: Upgrade")
    if len(wanted) != 1 or wanted[0].lower() not in _UPGRADES:
        raise _malformed("the node agent switches to SPDY/3.1 or websocket only")
    return _UPGRADES[wanted[0].lower()]


def upgrade_headers(head: RequestHead, upgrade: bytes) -> list[tuple[bytes, bytes]]:
    """Return what passes of a request that switches protocols."""
    passed = [(b"Connection", b"Upgrade"), (b"Upgrade", upgrade)]
    for name in _PROTOCOL_LISTS:
        passed += [(name, protocol) for protocol in _protocols(_values(head.headers, name))]
    if upgrade == b"websocket":
        keys = _values(head.headers, b"sec-websocket-key")
        versions = _values(head.headers, b"sec-websocket-version")
        if len(keys) != 1 or _WEBSOCKET_KEY.fullmatch(keys[0]) is None or versions != [b"13"]:
            raise _malformed("the WebSocket handshake needs one key and version 13")
        passed += [(b"Sec-WebSocket-Key", keys[0]), (b"Sec-WebSocket-Version", b"13")]
    return passed


def write_request(
    method: str, target: str, host: str, headers: Iterable[tuple[bytes, bytes]], token: bytes
) -> bytes:
    """Write a request head; the credential comes last and from us alone.

    Raises ValueError for what would be more than one line, or a target that is not one word.
    """
    lines = [
        b"%s %s HTTP/1.1" % (method.encode("ascii"), target.encode("ascii")),
        b"Host: " + host.encode("ascii"),
        b"User-Agent: vn-agent",
        *(b"%s: %s" % header for header in headers),
        b"Authorization: Bearer " + token,
    ]
    if _REQUEST_LINE.fullmatch(lines[0]) is None or not all(map(_FIELD_LINE.fullmatch, lines[1:])):
        raise ValueError("a request to a server behind the agent is not one line for each header")
    return b"\r\n".join(lines) + END


def parse_response(block: bytes) -> ResponseHead:
    """Read a response head that ends with an empty line, or raise ResponseProblemError."""
    try:
        line, headers = _read(block, _STATUS_LINE)
    except ValueError as error:
        raise ResponseProblemError("the response head is not HTTP/1.1") from error
    return ResponseHead(int(line[1]), headers)


def _read(block: bytes, first: re.Pattern[bytes]) -> tuple[re.Match[bytes], Headers]:
    """Return the first line and the headers of a head; raises ValueError when it is none."""
    if not block.endswith(END):
        raise ValueError("the head does not end")
    line, *fields = block[: -len(END)].split(b"\r\n")
    found, pairs = first.fullmatch(line), []
    if found is None or len(fields) >= MAX_HEADER_LINES:
        raise ValueError("the first line is none, or too many follow it")
    for field in fields:
        pair = _FIELD_LINE.fullmatch(field)
        if pair is None:
            raise ValueError("a line is no header")
        pairs.append((pair[1].lower(), pair[2].strip(b" \t")))
    return found, tuple(pairs)


class AnswerReader:
    """Reads one whole answer of bounded size."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._status = 0
        self._body = bytearray()
        self._connection = _awaiting()

    def feed(self, chunk: bytes) -> tuple[int, bytes] | None:
        """Take bytes, empty at the end of the connection; return status and body when whole."""
        try:
            self._connection.receive_data(chunk)
            while (event := self._connection.next_event()) is not h11.NEED_DATA:
                match event:
                    case h11.Response():
                        self._status = event.status_code
                    case h11.Data():
                        self._body += event.data
                    case h11.EndOfMessage():
                        return self._status, bytes(self._body)
                    case h11.InformationalResponse():
                        pass
                    case _:
                        raise ResponseProblemError("the response is cut short")
                if len(self._body) > self._limit:
                    raise TooLongError(f"the response is longer than {self._limit} bytes")
        except h11.RemoteProtocolError as error:
            raise ResponseProblemError("the response is not HTTP/1.1") from error
        return None


class LineReader:
    """Reads a 200 that goes on, line by line; each line is of bounded size."""

    def __init__(self, limit: int) -> None:
        self.has_ended = False
        self._limit = limit
        self._line = bytearray()
        self._connection = _awaiting()

    def feed(self, chunk: bytes) -> list[bytes]:
        """Take bytes, empty at the end of the connection; return the lines that are whole.

        Raises ResponseProblemError; nothing that came in the same chunk is returned then.
        """
        try:
            self._connection.receive_data(chunk)
            while (event := self._connection.next_event()) is not h11.NEED_DATA:
                match event:
                    case h11.Response(status_code=200) | h11.InformationalResponse():
                        pass
                    case h11.Data():
                        self._line += event.data
                    case h11.EndOfMessage():
                        self.has_ended = True
                        break
                    case h11.Response():
                        raise ResponseProblemError(f"the answer is {event.status_code}")
                    case _:
                        raise ResponseProblemError("the response is cut short")
        except h11.RemoteProtocolError as error:
            raise ResponseProblemError("the response is not HTTP/1.1") from error
        *lines, rest = self._line.split(b"\n")
        self._line = rest
        if len(rest) > self._limit:
            raise ResponseProblemError("a line of the response is too long")
        return [bytes(line) for line in lines if line]


def _awaiting() -> h11.Connection:
    """Return h11 in wait for an answer: it wants to have sent what is answered."""
    connection = h11.Connection(h11.CLIENT, max_incomplete_event_size=MAX_RESPONSE_HEAD_BYTES)
    # Any GET tells it that a body may follow.
    connection.send(h11.Request(method="GET", target="/", headers=[("Host", "origin")]))
    connection.send(h11.EndOfMessage())
    return connection


def write_switch(answer: ResponseHead, upgrade: bytes) -> bytes:
    """Write the 101 that a kubelet's 101 becomes."""
    passed = [(b"Connection", b"Upgrade"), (b"Upgrade", upgrade)]
    for name in _ANSWERED_PROTOCOLS:
        passed += [(name, protocol) for protocol in _protocols(answer.values(name))]
    accepted = answer.values(b"sec-websocket-accept")
    if upgrade == b"websocket" and len(accepted) == 1 and _WEBSOCKET_ANSWER.fullmatch(accepted[0]):
        passed.append((b"Sec-WebSocket-Accept", accepted[0]))
    return _response(HTTPStatus.SWITCHING_PROTOCOLS, passed)


def write_stream(answer: ResponseHead) -> bytes:
    """Write the head of a 200 whose body goes on byte for byte until the kubelet closes.

    The body keeps the kubelet's own framing, so its framing header passes and the connection is
    said to close: nobody can take what follows for a second answer.
    """
    lengths, codings = answer.values(b"content-length"), answer.values(b"transfer-encoding")
    has_both = codings and (lengths or [coding.lower() for coding in codings] != [b"chunked"])
    if has_both or len(lengths) > 1 or not all(map(_LENGTH.fullmatch, lengths)):
        raise ResponseProblemError("the response is framed in two ways")
    framing = [(b"Transfer-Encoding", b"chunked")] if codings else []
    framing += [(b"Content-Length", length) for length in lengths]
    kinds = [kind for kind in answer.values(b"content-type") if _CONTENT_TYPE.fullmatch(kind)]
    kind = kinds[0] if len(kinds) == 1 else b"text/plain"
    return _response(HTTPStatus.OK, [(b"Content-Type", kind), *framing, _CLOSE])


PLAIN_TEXT = b"text/plain; charset=utf-8"


def write_answer(status: int, body: bytes, extra: Headers = ()) -> bytes:
    """Write a whole answer of our own, in plain text as the kubelet does."""
    return write_answer_head(status, len(body), PLAIN_TEXT, extra) + body


def write_answer_head(status: int, length: int, content_type: bytes, extra: Headers = ()) -> bytes:
    """Write the head of an answer of our own, whose body has `length` bytes."""
    headers = [
        (b"Content-Type", content_type),
        (b"X-Content-Type-Options", b"nosniff"),
        (b"Content-Length", b"%d" % length),
        *extra,
        _CLOSE,
    ]
    return _response(status, headers)


_CLOSE = (b"Connection", b"close")
_KNOWN_STATUSES = frozenset(status.value for status in HTTPStatus)


def _response(status: int, headers: Iterable[tuple[bytes, bytes]]) -> bytes:
    lines = [b"%s: %s\r\n" % header for header in headers]
    phrase = HTTPStatus(status).phrase if status in _KNOWN_STATUSES else "Other"
    first = f"HTTP/1.1 {status} {phrase}\r\n".encode("ascii")
    return b"".join((first, *lines, b"\r\n"))


def _malformed(sentence: str) -> RefusedError:
    return RefusedError(400, Reason.MALFORMED, sentence)


def _values(headers: Headers, name: bytes) -> list[bytes]:
    return [value for key, value in headers if key == name]


def _protocols(values: Iterable[bytes]) -> list[bytes]:
    """Return the stream protocols that are known to be no credentials, each once."""
    named = (name.strip() for value in values for name in value.split(b","))
    known = dict.fromkeys(name for name in named if _PROTOCOL.fullmatch(name))
    return list(known)[:_MAX_PROTOCOLS]
