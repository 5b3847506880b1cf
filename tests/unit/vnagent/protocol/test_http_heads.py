"""Heads: what is read, what passes, and what can never be smuggled."""

import itertools
import string

import h11
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vnagent.protocol import http_heads
from vnagent.protocol.errors import RefusalReason, RequestRefusedError

HOST = b"Host: agent:10550\r\n"
LOGS = b"GET /containerLogs/ns/pod/c HTTP/1.1\r\n"
UPGRADE = b"Connection: Upgrade\r\nUpgrade: SPDY/3.1\r\n"
WEBSOCKET = (
    b"Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
    b"Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n"
)


def request(*lines: bytes, first: bytes = LOGS) -> http_heads.RequestHead:
    """Read a request with some header lines."""
    return http_heads.parse_request(first + HOST + b"".join(lines) + b"\r\n")


def test_what_go_sends_is_read():
    """The heads of client-go's transports."""
    head = request(b"User-Agent: kube-apiserver\r\n", b"Accept-Encoding: gzip\r\n")
    assert (head.method, head.target) == (b"GET", b"/containerLogs/ns/pod/c")
    assert http_heads.get_requested_upgrade(head) == b""
    head = request(
        UPGRADE,
        b"Content-Length: 0\r\n",
        b"X-Stream-Protocol-Version: v5.channel.k8s.io\r\n",
        b"X-Stream-Protocol-Version: v4.channel.k8s.io\r\n",
        first=b"POST /exec/ns/pod/c?command=id HTTP/1.1\r\n",
    )
    assert http_heads.get_requested_upgrade(head) == b"SPDY/3.1"
    assert http_heads.filter_upgrade_headers(head, b"SPDY/3.1") == [
        (b"Connection", b"Upgrade"),
        (b"Upgrade", b"SPDY/3.1"),
        (b"x-stream-protocol-version", b"v5.channel.k8s.io"),
        (b"x-stream-protocol-version", b"v4.channel.k8s.io"),
    ]


MALFORMED = [
    LOGS.replace(b"\r\n", b"\n") + HOST + b"\r\n",
    LOGS + HOST.replace(b"\r\n", b"\n") + b"\r\n",
    LOGS + b"\r\n",  # no Host
    LOGS + HOST + HOST + b"\r\n",
    LOGS + HOST + b"Host: other\r\n\r\n",
    LOGS + HOST + b"X: a\r\n folded: b\r\n\r\n",
    LOGS + HOST + b"X: a\r\n\tfolded\r\n\r\n",
    LOGS + HOST + b"X : a\r\n\r\n",
    LOGS + HOST + b" X: a\r\n\r\n",
    LOGS + HOST + b"X\r\n\r\n",
    LOGS + HOST + b": a\r\n\r\n",
    LOGS + HOST + b"X: a\0b\r\n\r\n",
    LOGS + HOST + b"X: a\rb\r\n\r\n",
    LOGS + HOST + b"X: a\nY: b\r\n\r\n",
    LOGS + HOST + b"X(): a\r\n\r\n",
    LOGS + HOST + b"X\xe4: a\r\n\r\n",
    LOGS + HOST + b"Content-Length: 5\r\n\r\n",
    LOGS + HOST + b"Content-Length: 00\r\n\r\n",
    LOGS + HOST + b"Content-Length: +0\r\n\r\n",
    LOGS + HOST + b"Content-Length: 0, 5\r\n\r\n",
    LOGS + HOST + b"Content-Length: 0\r\nContent-Length: 5\r\n\r\n",
    LOGS + HOST + b"Content-Length: x\r\n\r\n",
    LOGS + HOST + b"Transfer-Encoding: chunked\r\n\r\n",
    LOGS + HOST + b"transfer-encoding: Chunked\r\n\r\n",
    LOGS + HOST + b"Transfer-Encoding: gzip, chunked\r\n\r\n",
    LOGS + HOST + b"Transfer-Encoding: identity\r\n\r\n",
    LOGS + HOST + b"Transfer-Encoding: \x0bchunked\r\n\r\n",
    LOGS + HOST + b"Content-Length: 0\r\nTransfer-Encoding: chunked\r\n\r\n",
    b" " + LOGS + HOST + b"\r\n",
    b"\r\n" + LOGS + HOST + b"\r\n",
    LOGS.replace(b"HTTP/1.1", b"HTTP/1.0") + HOST + b"\r\n",
    LOGS.replace(b"HTTP/1.1", b"HTTP/2.0") + HOST + b"\r\n",
    LOGS.replace(b"HTTP/1.1", b"http/1.1") + HOST + b"\r\n",
    LOGS.replace(b" HTTP/1.1", b"") + HOST + b"\r\n",
    LOGS.replace(b"GET /", b"GET  /") + HOST + b"\r\n",
    LOGS.replace(b"GET /", b"GET\t/") + HOST + b"\r\n",
    LOGS.replace(b"/c ", b"/c\x00 ") + HOST + b"\r\n",
    LOGS.replace(b"/c ", b"/\xc3\xa4 ") + HOST + b"\r\n",
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    b"\x16\x03\x01\x02\x00\x01\r\n\r\n",
    b"\r\n\r\n",
    LOGS + HOST,
]


@pytest.mark.parametrize("block", MALFORMED)
def test_what_could_be_read_in_two_ways_is_refused(block):
    """SEC-09: one head, one meaning, no body."""
    with pytest.raises(RequestRefusedError) as refused:
        http_heads.parse_request(block)
    assert (refused.value.status, refused.value.reason) == (400, RefusalReason.MALFORMED)


def h11_reads(block: bytes) -> http_heads.RequestHead | None:
    """Return what h11 makes of a request's head, None when it has a body or is none."""
    server = h11.Connection(h11.SERVER)
    try:
        server.receive_data(block)
        event, end = server.next_event(), server.next_event()
    except h11.RemoteProtocolError:
        return None
    if not (isinstance(event, h11.Request) and isinstance(end, h11.EndOfMessage)):
        return None
    headers = tuple((bytes(name), bytes(value)) for name, value in event.headers)
    return http_heads.RequestHead(bytes(event.method), bytes(event.target), headers)


PIECES = (
    b"\r\n",
    b"\n",
    b"\r",
    b"\0",
    b" ",
    b"\t",
    b":",
    b"\x0b",
    b"\x7f",
    b"\xe9",
    b"a",
    b"/",
    b"0",
)
OLD = (
    b"transfer-encoding: chunked\r\n",
    b"Content-Length: 0\r\n",
    b"Host: b\r\n",
    b"HTTP/1.0",
    b"get",
)


@given(st.data())
def test_what_is_read_is_what_h11_reads(data):
    """SEC-09: a head that was changed anywhere means the same to both, or is refused by ours."""
    block = LOGS + HOST + UPGRADE + b"X-A: \t b  c\t \r\nx-a:\r\nContent-Length: 0\r\n\r\n"
    for _ in range(data.draw(st.integers(0, 3))):
        start = data.draw(st.integers(0, len(block)))
        end = min(len(block), start + data.draw(st.integers(0, 3)))
        block = block[:start] + data.draw(st.sampled_from(PIECES + OLD)) + block[end:]
    try:
        found = http_heads.parse_request(block)
    except RequestRefusedError:
        return
    theirs = h11_reads(block)
    assert theirs is not None
    assert (found.method, found.target) == (theirs.method, theirs.target)
    # Of one length that is said twice h11 keeps one.
    assert list(dict.fromkeys(found.headers)) == list(dict.fromkeys(theirs.headers))


FRAMING = [
    *(f"{name}: {value}" for name in ("Content-Length", "CONTENT-LENGTH") for value in ("0", "5")),
    *(f"Content-Length:{value}" for value in ("", "00", "+0", "-0", "0x0", "0, 0", "0,5", "5\t")),
    *(f"Transfer-Encoding: {value}" for value in ("chunked", "identity", "chunked, identity")),
    *("transfer-encoding:chunked", "Transfer-Encoding : chunked", "Transfer-Encoding\t: chunked"),
    *(
        " Transfer-Encoding: chunked",
        "Transfer-Encoding: xchunked",
        "Transfer-Encoding: \x0bchunked",
    ),
    *(
        "X: a\r\n Transfer-Encoding: chunked",
        "X: a\nTransfer-Encoding: chunked",
        "Content-Length : 5",
    ),
]


def read(lines: bytes, method: bytes) -> http_heads.HeaderPairs | None:
    """Return the headers of a request, None when it is refused as malformed."""
    try:
        return request(lines, first=LOGS.replace(b"GET", method)).headers
    except RequestRefusedError as refused:
        if (refused.status, refused.reason) == (400, RefusalReason.MALFORMED):
            return None
        raise


def test_no_two_lines_of_framing_make_a_body():
    """SEC-09: each pair in each order. What passes says in every reading that nothing follows."""
    pairs = list(itertools.product((b"GET", b"POST"), ("X: y", *FRAMING), ("X: y", *FRAMING)))
    assert len(pairs) >= 400
    passed = 0
    for method, *pair in pairs:
        found = read("".join(f"{line}\r\n" for line in pair).encode(), method)
        if found is None:
            continue
        passed += 1
        assert {value for name, value in found if name == b"content-length"} <= {b"0"}, pair
        assert b"transfer-encoding" not in dict(found), pair
        assert all(line == "X: y" or line.lower().startswith("content-length") for line in pair)
    assert 0 < passed < len(pairs) // 10


def test_a_head_of_many_lines_is_refused():
    """Headers are counted as well as measured."""
    with pytest.raises(RequestRefusedError) as refused:
        request(*(b"X: a\r\n" for _ in range(http_heads.MAX_HEADER_LINES)))
    assert refused.value.status == 431


@pytest.mark.parametrize(
    "lines",
    [
        b"Upgrade: SPDY/3.1\r\n",
        b"Connection: close\r\nUpgrade: SPDY/3.1\r\n",
        b"Connection: Upgrade\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\n",
        b"Connection: Upgrade\r\nUpgrade: h2c, websocket\r\n",
        b"Connection: Upgrade\r\nUpgrade: websocket\r\nUpgrade: h2c\r\n",
        b"Connection: Upgrade\r\nUpgrade: TLS/1.0\r\n",
        b"Connection: Upgrade\r\nUpgrade: \r\n",
    ],
)
def test_other_switches_are_refused(lines):
    """SEC-09: only the two protocols that carry streams."""
    with pytest.raises(RequestRefusedError):
        http_heads.get_requested_upgrade(request(lines))


@pytest.mark.parametrize(
    "lines",
    [
        WEBSOCKET.replace(b"13", b"8"),
        WEBSOCKET.replace(b"AAAAAAAAAAAAAAAAAAAAAA==", b"short"),
        WEBSOCKET + b"Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n",
        WEBSOCKET + b"Sec-WebSocket-Version: 13\r\n",
        b"Connection: Upgrade\r\nUpgrade: websocket\r\n",
    ],
)
def test_odd_websocket_handshakes_are_refused(lines):
    """One key and the one version."""
    with pytest.raises(RequestRefusedError):
        http_heads.filter_upgrade_headers(request(lines), b"websocket")


STREAMS = ("v5.channel.k8s.io", "v4.channel.k8s.io", "v4.base64.channel.k8s.io")
FORWARDS = ("portforward.k8s.io", "SPDY/3.1+portforward.k8s.io", "v4.channel.k8s.io")


@pytest.mark.parametrize("protocol", dict.fromkeys((*STREAMS, *FORWARDS)))
@pytest.mark.parametrize("upgrade", [b"SPDY/3.1", b"websocket"])
def test_every_protocol_of_the_supported_clients_passes(upgrade, protocol):
    """REL-94: SPDY, WebSocket v4 and v5, port-forward over WebSocket, asked for and chosen."""
    is_websocket = upgrade == b"websocket"
    name = b"sec-websocket-protocol" if is_websocket else b"x-stream-protocol-version"
    line = b"%s: %s\r\n" % (name, protocol.encode())
    head = request(WEBSOCKET if is_websocket else UPGRADE, line)
    assert http_heads.get_requested_upgrade(head) == upgrade
    assert (name, protocol.encode()) in http_heads.filter_upgrade_headers(head, upgrade)
    first = b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: "
    answer = http_heads.parse_response(first + upgrade + b"\r\n" + line + b"\r\n")
    assert line in http_heads.write_switching_protocols(answer, upgrade)


def test_tokens_do_not_pass_as_websocket_protocols():
    """SEC-08: kubelets take bearer tokens out of this header, so protocols are a closed set."""
    head = request(
        WEBSOCKET,
        b"Sec-WebSocket-Protocol: v5.channel.k8s.io, "
        b"base64url.bearer.authorization.k8s.io.c2VjcmV0, v4.channel.k8s.io\r\n",
    )
    passed = http_heads.filter_upgrade_headers(head, b"websocket")
    assert [value for name, value in passed if name == b"sec-websocket-protocol"] == [
        b"v5.channel.k8s.io",
        b"v4.channel.k8s.io",
    ]


NAMES = [
    *("authorization", "proxy-authorization", "impersonate-user", "impersonate-group"),
    *("impersonate-uid", "impersonate-extra-scopes", "x-remote-user", "x-remote-group"),
    *("x-remote-extra-a", "forwarded", "x-forwarded-for", "x-forwarded-host", "x-forwarded-uri"),
    *("x-forwarded-proto", "x-original-url", "x-rewrite-url", "x-real-ip", "via", "te", "trailer"),
    *("keep-alive", "proxy-connection", "expect", "range", "cookie", "origin", "referer", "date"),
    *("accept", "accept-encoding", "content-type", "user-agent", "traceparent", "baggage", "from"),
    *("http2-settings", "sec-websocket-extensions", "x-http-method-override", "x-csrf-token"),
]


@given(
    st.lists(
        st.tuples(
            st.one_of(
                st.sampled_from(NAMES),
                st.text(string.ascii_letters + string.digits + "-_.!#$%&'*+^`|~", min_size=1),
            ),
            st.text(string.ascii_letters + string.digits + " ,;=/:", max_size=30),
            st.booleans(),
        ),
        max_size=30,
    )
)
def test_nothing_else_passes(extra):
    """SEC-08: names, cases and duplicates at will. The kubelet sees the golden set."""
    ours = ("host", "upgrade", "connection", "content-length", "transfer-encoding")
    streams = ("x-stream-protocol-version", "sec-websocket-protocol")
    lines = [
        f"{name.upper() if is_upper else name}: {value.strip()}\r\n".encode()
        for name, value, is_upper in extra
        if name.lower() not in (*ours, *streams)
    ]
    head = request(UPGRADE, *lines, b"X-Stream-Protocol-Version: v5.channel.k8s.io\r\n")
    written = http_heads.write_request(
        "POST",
        "/exec/s/p/c",
        "10.0.0.1:10250",
        http_heads.filter_upgrade_headers(head, b"SPDY/3.1"),
        b"tok",
    )
    assert written.split(b"\r\n") == [
        b"POST /exec/s/p/c HTTP/1.1",
        b"Host: 10.0.0.1:10250",
        b"User-Agent: vn-agent",
        b"Connection: Upgrade",
        b"Upgrade: SPDY/3.1",
        b"x-stream-protocol-version: v5.channel.k8s.io",
        b"Authorization: Bearer tok",
        b"",
        b"",
    ]


def test_a_switch_is_passed_without_foreign_headers():
    """The kubelet's 101 becomes ours, with the protocol that it chose."""
    answer = http_heads.parse_response(
        b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\n"
        b"X-Stream-Protocol-Version: v4.channel.k8s.io\r\nSet-Cookie: a=b\r\nServer: node-1\r\n"
        b"Date: now\r\n\r\n"
    )
    assert http_heads.write_switching_protocols(answer, b"SPDY/3.1") == (
        b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\n"
        b"x-stream-protocol-version: v4.channel.k8s.io\r\n\r\n"
    )
    answer = http_heads.parse_response(
        b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
        b"Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n"
        b"Sec-WebSocket-Protocol: v5.channel.k8s.io\r\n\r\n"
    )
    assert http_heads.write_switching_protocols(answer, b"websocket").split(b"\r\n")[3:-2] == [
        b"sec-websocket-protocol: v5.channel.k8s.io",
        b"Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=",
    ]


def test_a_stream_keeps_its_framing_and_reports_that_it_closes():
    """The body goes on byte for byte, so exactly one framing may be announced."""
    chunked = http_heads.parse_response(
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Type: text/plain\r\n"
        b"X-Node: one\r\n\r\n"
    )
    assert http_heads.write_stream_head(chunked) == (
        b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nTransfer-Encoding: chunked\r\n"
        b"Connection: close\r\n\r\n"
    )
    empty = http_heads.parse_response(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
    assert b"Content-Length: 0\r\n" in http_heads.write_stream_head(empty)
    both = http_heads.ResponseHead(
        200, ((b"content-length", b"5"), (b"transfer-encoding", b"chunked"))
    )
    gzip = http_heads.ResponseHead(200, ((b"transfer-encoding", b"gzip, chunked"),))
    for odd in (both, gzip):
        with pytest.raises(http_heads.InvalidResponseError):
            http_heads.write_stream_head(odd)


@pytest.mark.parametrize(
    "block", [b"HTTP/1.1\r\n\r\n", b"SSH-2.0\r\n\r\n", b"HTTP/1.1 200 OK\r\nA\r\n\r\n", b"\r\n\r\n"]
)
def test_answers_that_are_none_are_noticed(block):
    """The kubelet's port may be another owner's."""
    with pytest.raises(http_heads.InvalidResponseError):
        http_heads.parse_response(block)


@pytest.mark.parametrize(
    ("chunks", "found"),
    [
        ([b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n", b"o", b"k"], (200, b"ok")),
        (
            [b"HTTP/1.1 404 No\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nno\r\n", b"0\r\n\r\n"],
            (404, b"no"),
        ),
        ([b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nConnection: close\r\n\r\nhi", b""],)
        + ((200, b"hi"),),
    ],
)
def test_whole_answers_are_put_together(chunks, found):
    """However they are cut."""
    reader = http_heads.ResponseReader(100)
    *early, last = [reader.feed(chunk) for chunk in chunks]
    assert early == [None] * len(early)
    assert last == found


@pytest.mark.parametrize(
    "chunks",
    [
        [b"HTTP/1.1 200 OK\r\nContent-Length: 200\r\n\r\n" + b"x" * 150],
        [b"HTTP/1.1 200 OK\r\nContent-Length: 20\r\n\r\nx", b""],
        [b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"],
        [b"HTTP/1.1 200 OK\r\n" + b"X: a\r\n" * 10_000],
        [b""],
    ],
)
def test_answers_without_end_are_dropped(chunks):
    """Too long, cut short, or not to be read."""
    reader = http_heads.ResponseReader(100)
    with pytest.raises(http_heads.InvalidResponseError):
        list(map(reader.feed, chunks))


def test_an_answer_of_ours_is_plain_text():
    """The text that kubectl shows after `unable to upgrade connection`."""
    written = http_heads.write_response(404, b"gone\n", ((b"Retry-After", b"1"),))
    assert written == (
        b"HTTP/1.1 404 Not Found\r\nContent-Type: text/plain; charset=utf-8\r\n"
        b"X-Content-Type-Options: nosniff\r\nContent-Length: 5\r\nRetry-After: 1\r\n"
        b"Connection: close\r\n\r\ngone\n"
    )
    assert http_heads.write_response(499, b"").startswith(b"HTTP/1.1 499 Other\r\n")


@pytest.mark.parametrize(
    "block",
    [
        b"HTTP/1.0 200 OK\r\n\r\n",
        b"HTTP/1.1 20 OK\r\n\r\n",
        b"HTTP/1.1 600 OK\r\n\r\n",
        b"HTTP/1.1 200 O\x00K\r\n\r\n",
        b"HTTP/1.1 200 OK\nA: b\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nA: b\nC: d\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nA: b\r\n folded\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nA : b\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n: b\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nA: \x0bb\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n" + b"A: b\r\n" * http_heads.MAX_HEADER_LINES + b"\r\n",
    ],
)
def test_answers_are_read_strictly(block):
    """SEC-08: a head that two readers could read in two ways goes to no one."""
    with pytest.raises(http_heads.InvalidResponseError):
        http_heads.parse_response(block)


def test_an_answer_is_read_as_h11_reads_it():
    """Names in lower case, values without the blanks around them, whatever order and case."""
    block = (
        b"HTTP/1.1 101 Switching Protocols\r\nUPGRADE:SPDY/3.1\r\nX-A: \t b c\t \r\nx-a:\r\n"
        b"X-Caf\x21: \xc3\xa9\r\n\r\n"
    )
    client = h11.Connection(h11.CLIENT)
    propose = [(b"Host", b"a"), (b"Connection", b"Upgrade"), (b"Upgrade", b"any")]
    client.send(h11.Request(method=b"GET", target=b"/", headers=propose))
    client.send(h11.EndOfMessage())
    client.receive_data(block)
    event = client.next_event()
    assert isinstance(event, h11.InformationalResponse)
    found = http_heads.parse_response(block)
    assert found.status == event.status_code
    assert found.headers == tuple((bytes(name), bytes(value)) for name, value in event.headers)


@pytest.mark.parametrize("lengths", [(b"5", b"5"), (b"5", b"6"), (b"-1",), (b"",), (b"5, 5",)])
def test_a_length_that_two_readers_could_take_for_two_is_refused(lengths):
    """SEC-08: what follows would be another answer to someone."""
    answer = http_heads.ResponseHead(200, tuple((b"content-length", each) for each in lengths))
    with pytest.raises(http_heads.InvalidResponseError):
        http_heads.write_stream_head(answer)


@pytest.mark.parametrize(
    ("method", "target", "header"),
    [
        ("GET", "/a b", b"c"),
        ("GET", "/a\r\nX: y", b"c"),
        ("GET", "a", b"c"),
        ("GET /x HTTP/1.1\r\nX: y\r\n\r\nGET", "/a", b"c"),
        ("GET", "/a", b"c\r\nX: y"),
        ("GET", "/a", b"c\nX: y"),
    ],
)
def test_what_would_be_two_requests_is_not_written(method, target, header):
    """SEC-08: nothing of what is sent on is a second line."""
    with pytest.raises(ValueError, match="one line"):
        http_heads.write_request(method, target, "10.0.0.1:10250", [(b"Accept", header)], b"tok")
