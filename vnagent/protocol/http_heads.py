"""HTTP/1.1 heads, parsed strictly and written from an allow-list. Pure.

The library h11 parses whole responses. A head by itself needs only its lines, and it is parsed as
h11 would parse it or refused.

The module decides which headers pass in each direction. It must not know sockets or routes. Hazard:
each line must match one of two strict patterns, requests have no bodies, and one connection serves
one request. Otherwise two servers could read one head as two different requests. Only the headers
that this module lists are copied from one side to the other.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from http import HTTPStatus

import h11

from vnagent.protocol.errors import RefusalReason, RequestRefusedError

HEAD_END = b"\r\n\r\n"
MAX_REQUEST_HEAD_BYTES = 96 * 1024
"""Limit of a request head in bytes: a query of 64 KiB, which may hold a long exec command, and
headers.
"""
MAX_RESPONSE_HEAD_BYTES = 32 * 1024
MAX_HEADER_LINES = 128

HeaderPairs = tuple[tuple[bytes, bytes], ...]
"""Pairs of a name in lower case and a value. Repeated names stay separate."""

# The patterns allow no bare CR or LF, no control character except the tab, no blank before a colon
# and no folded line.
_REQUEST_LINE = re.compile(rb"([A-Z]+) (/[!-~]*) HTTP/1\.1")
_STATUS_LINE = re.compile(rb"HTTP/1\.1 ([1-5][0-9]{2})(?: [\t -~\x80-\xff]*)?")
_FIELD_LINE = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+):([\t -~\x80-\xff]*)")
_CONTENT_LENGTH = re.compile(rb"[0-9]{1,18}")

_UPGRADES = {b"spdy/3.1": b"SPDY/3.1", b"websocket": b"websocket"}
_PROTOCOL_PATTERN = (
    rb"(?:v[0-9]{1,2}\.)?(?:base64\.)?channel\.k8s\.io|portforward\.k8s\.io"
    rb"|SPDY/3\.1\+portforward\.k8s\.io"
)
# The set is closed because kubelets also accept bearer tokens in Sec-WebSocket-Protocol.
_PROTOCOL = re.compile(_PROTOCOL_PATTERN)
_MAX_PROTOCOLS = 16
_WEBSOCKET_KEY = re.compile(rb"[A-Za-z0-9+/]{22}==")
_WEBSOCKET_ANSWER = re.compile(rb"[A-Za-z0-9+/]{27}=")
_CONTENT_TYPE = re.compile(rb"[A-Za-z0-9/+.;=, \"-]{1,128}")

_PROTOCOL_LISTS = (b"x-stream-protocol-version", b"sec-websocket-protocol")
_ANSWERED_PROTOCOLS = (*_PROTOCOL_LISTS, b"x-accepted-stream-protocol-versions")


@dataclass(frozen=True, slots=True)
class RequestHead:
    """Head of a caller's request."""

    method: bytes
    target: bytes
    headers: HeaderPairs


@dataclass(frozen=True, slots=True)
class ResponseHead:
    """Head of the kubelet's response."""

    status: int
    headers: HeaderPairs

    def values(self, name: bytes) -> list[bytes]:
        """Return every value of a header."""
        return _get_values(self.headers, name)


class InvalidResponseError(Exception):
    """A server's response that the agent cannot use."""


class ResponseTooLongError(InvalidResponseError):
    """A server's response that is longer than the limit."""


def parse_request(block: bytes) -> RequestHead:
    """Parse a request head that ends with an empty line, or raise RefusedError."""
    if block.count(b"\r\n") > 1 + MAX_HEADER_LINES:
        raise RequestRefusedError(431, RefusalReason.MALFORMED, "the request has too many headers")
    try:
        line, headers = _parse_head(block, _REQUEST_LINE)
    except ValueError as error:
        raise _build_malformed("the request head is not HTTP/1.1") from error
    if len(_get_values(headers, b"host")) != 1:
        raise _build_malformed("a request has exactly one Host header")
    if _get_values(headers, b"transfer-encoding"):
        raise _build_malformed("requests to the node agent have no body")
    if any(length != b"0" for length in _get_values(headers, b"content-length")):
        raise _build_malformed("requests to the node agent have no body")
    return RequestHead(line[1], line[2], headers)


def get_requested_upgrade(head: RequestHead) -> bytes:
    """Return the protocol that a request asks to switch to, or empty bytes without a switch."""
    wanted = _get_values(head.headers, b"upgrade")
    if not wanted:
        return b""
    tokens = b",".join(_get_values(head.headers, b"connection")).lower().split(b",")
    if b"upgrade" not in {token.strip() for token in tokens}:
        raise _build_malformed("an Upgrade header needs Connection: Upgrade")
    if len(wanted) != 1 or wanted[0].lower() not in _UPGRADES:
        raise _build_malformed("the node agent switches to SPDY/3.1 or websocket only")
    return _UPGRADES[wanted[0].lower()]


def filter_upgrade_headers(head: RequestHead, upgrade: bytes) -> list[tuple[bytes, bytes]]:
    """Return the headers that pass from a request that switches protocols."""
    passed = [(b"Connection", b"Upgrade"), (b"Upgrade", upgrade)]
    for name in _PROTOCOL_LISTS:
        passed += [
            (name, protocol) for protocol in _filter_protocols(_get_values(head.headers, name))
        ]
    if upgrade == b"websocket":
        keys = _get_values(head.headers, b"sec-websocket-key")
        versions = _get_values(head.headers, b"sec-websocket-version")
        if len(keys) != 1 or _WEBSOCKET_KEY.fullmatch(keys[0]) is None or versions != [b"13"]:
            raise _build_malformed("the WebSocket handshake needs one key and version 13")
        passed += [(b"Sec-WebSocket-Key", keys[0]), (b"Sec-WebSocket-Version", b"13")]
    return passed


def write_request(
    method: str, target: str, host: str, headers: Iterable[tuple[bytes, bytes]], token: bytes
) -> bytes:
    """Return a request head, with the agent's credential as the last header.

    Raises ValueError if a header would span several lines, or if the target is not one word.
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
    return b"\r\n".join(lines) + HEAD_END


def parse_response(block: bytes) -> ResponseHead:
    """Parse a response head that ends with an empty line, or raise ResponseProblemError."""
    try:
        line, headers = _parse_head(block, _STATUS_LINE)
    except ValueError as error:
        raise InvalidResponseError("the response head is not HTTP/1.1") from error
    return ResponseHead(int(line[1]), headers)


def _parse_head(block: bytes, first: re.Pattern[bytes]) -> tuple[re.Match[bytes], HeaderPairs]:
    """Return the first line and the headers of a head. Raises ValueError if it is malformed."""
    if not block.endswith(HEAD_END):
        raise ValueError("the head does not end")
    line, *fields = block[: -len(HEAD_END)].split(b"\r\n")
    found, pairs = first.fullmatch(line), []
    if found is None or len(fields) >= MAX_HEADER_LINES:
        raise ValueError("the request line is missing or malformed")
    for field in fields:
        pair = _FIELD_LINE.fullmatch(field)
        if pair is None:
            raise ValueError("a line is not a header")
        pairs.append((pair[1].lower(), pair[2].strip(b" \t")))
    return found, tuple(pairs)


class ResponseReader:
    """Parser of one whole response of bounded size."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._status = 0
        self._body = bytearray()
        self._connection = _create_response_parser()

    def feed(self, chunk: bytes) -> tuple[int, bytes] | None:
        """Parse a chunk, empty at the end of the connection. Return status and body when whole."""
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
                        raise InvalidResponseError("the response is cut short")
                if len(self._body) > self._limit:
                    raise ResponseTooLongError(f"the response is longer than {self._limit} bytes")
        except h11.RemoteProtocolError as error:
            raise InvalidResponseError("the response is not HTTP/1.1") from error
        return None


class LineReader:
    """Parser of a 200 response that goes on, line by line. Each line is of bounded size."""

    def __init__(self, limit: int) -> None:
        self.has_ended = False
        self._limit = limit
        self._line = bytearray()
        self._connection = _create_response_parser()

    def feed(self, chunk: bytes) -> list[bytes]:
        """Parse a chunk, empty at the end of the connection. Return the complete lines.

        Raises ResponseProblemError. No line of the same chunk is returned then.
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
                        raise InvalidResponseError(f"the answer is {event.status_code}")
                    case _:
                        raise InvalidResponseError("the response is cut short")
        except h11.RemoteProtocolError as error:
            raise InvalidResponseError("the response is not HTTP/1.1") from error
        *lines, rest = self._line.split(b"\n")
        self._line = rest
        if len(rest) > self._limit:
            raise InvalidResponseError("a line of the response is too long")
        return [bytes(line) for line in lines if line]


def _create_response_parser() -> h11.Connection:
    """Return an h11 connection that awaits a response, after it was given a request."""
    connection = h11.Connection(h11.CLIENT, max_incomplete_event_size=MAX_RESPONSE_HEAD_BYTES)
    # Any GET makes h11 expect that a body may follow.
    connection.send(h11.Request(method="GET", target="/", headers=[("Host", "origin")]))
    connection.send(h11.EndOfMessage())
    return connection


def write_switching_protocols(answer: ResponseHead, upgrade: bytes) -> bytes:
    """Return the 101 head for the caller, made from the kubelet's 101."""
    passed = [(b"Connection", b"Upgrade"), (b"Upgrade", upgrade)]
    for name in _ANSWERED_PROTOCOLS:
        passed += [(name, protocol) for protocol in _filter_protocols(answer.values(name))]
    accepted = answer.values(b"sec-websocket-accept")
    if upgrade == b"websocket" and len(accepted) == 1 and _WEBSOCKET_ANSWER.fullmatch(accepted[0]):
        passed.append((b"Sec-WebSocket-Accept", accepted[0]))
    return _write_head(HTTPStatus.SWITCHING_PROTOCOLS, passed)


def write_stream_head(answer: ResponseHead) -> bytes:
    """Return the head of a 200 whose body passes byte for byte until the kubelet closes.

    The body keeps the kubelet's own framing, so the framing header passes. The head has
    `Connection: close`, so bytes that follow cannot be read as a second response. Raises
    ResponseProblemError if the response is framed in two ways.
    """
    lengths, codings = answer.values(b"content-length"), answer.values(b"transfer-encoding")
    has_both = codings and (lengths or [coding.lower() for coding in codings] != [b"chunked"])
    if has_both or len(lengths) > 1 or not all(map(_CONTENT_LENGTH.fullmatch, lengths)):
        raise InvalidResponseError("the response is framed in two ways")
    framing = [(b"Transfer-Encoding", b"chunked")] if codings else []
    framing += [(b"Content-Length", length) for length in lengths]
    kinds = [kind for kind in answer.values(b"content-type") if _CONTENT_TYPE.fullmatch(kind)]
    kind = kinds[0] if len(kinds) == 1 else b"text/plain"
    return _write_head(HTTPStatus.OK, [(b"Content-Type", kind), *framing, _CONNECTION_CLOSE])


PLAIN_TEXT = b"text/plain; charset=utf-8"


def write_response(status: int, body: bytes, extra: HeaderPairs = ()) -> bytes:
    """Return a whole response of the agent, in plain text as the kubelet sends it."""
    return write_response_head(status, len(body), PLAIN_TEXT, extra) + body


def write_response_head(
    status: int, length: int, content_type: bytes, extra: HeaderPairs = ()
) -> bytes:
    """Return the head of a response of the agent whose body has `length` bytes."""
    headers = [
        (b"Content-Type", content_type),
        (b"X-Content-Type-Options", b"nosniff"),
        (b"Content-Length", b"%d" % length),
        *extra,
        _CONNECTION_CLOSE,
    ]
    return _write_head(status, headers)


_CONNECTION_CLOSE = (b"Connection", b"close")
_KNOWN_STATUSES = frozenset(status.value for status in HTTPStatus)


def _write_head(status: int, headers: Iterable[tuple[bytes, bytes]]) -> bytes:
    lines = [b"%s: %s\r\n" % header for header in headers]
    phrase = HTTPStatus(status).phrase if status in _KNOWN_STATUSES else "Other"
    first = f"HTTP/1.1 {status} {phrase}\r\n".encode("ascii")
    return b"".join((first, *lines, b"\r\n"))


def _build_malformed(sentence: str) -> RequestRefusedError:
    return RequestRefusedError(400, RefusalReason.MALFORMED, sentence)


def _get_values(headers: HeaderPairs, name: bytes) -> list[bytes]:
    return [value for key, value in headers if key == name]


def _filter_protocols(values: Iterable[bytes]) -> list[bytes]:
    """Return the stream protocols that are known to be no credentials, without duplicates."""
    named = (name.strip() for value in values for name in value.split(b","))
    known = dict.fromkeys(name for name in named if _PROTOCOL.fullmatch(name))
    return list(known)[:_MAX_PROTOCOLS]
