"""Reads through the whole agent: who gets what, and what a kubelet cannot do to us."""

import asyncio
import gzip
import json
import ssl
from types import SimpleNamespace

import pytest

from tests.support import tls_sockets
from tests.support.eventually import eventually
from tests.support.vnagent import kubelet_answers, running_agent
from tests.support.vnagent.certificates import URI, VC_UID, named
from tests.support.vnagent.kubelet_answers import owned, pod_figures, tenant_uid
from tests.support.vnagent.running_agent import FakeKubelet
from vnagent.authz import thread_offload
from vnagent.nodeapi import node_reads, singleflight
from vnagent.protocol.errors import RequestRefusedError
from vnagent.server import request

OTHER = "22222222-0000-4000-8000-000000000000"
OTHER_KEY = "default-b41df0-two"
OWN = owned(vc_uid=VC_UID)
GUEST = owned(2, vc_uid=OTHER, super_namespace="default-b41df0-two-web")
PATHS = ("/stats/summary", "/metrics/resource", "/pods", "/runningpods/")
METRICS = "".join(
    f'pod_cpu_usage_seconds_total{{namespace="{pod.super_namespace}",pod="shop"}} {value} 1\n'
    for pod, value in ((OWN, 11), (GUEST, 22))
)


def asking(path: str) -> bytes:
    """Return a request."""
    return f"GET {path} HTTP/1.1\r\nHost: a\r\n\r\n".encode()


def answering(body: bytes, *headers: bytes) -> bytes:
    """Return an answer."""
    lines = [b"HTTP/1.1 200 OK", b"Content-Length: %d" % len(body), *headers, b"", b""]
    return b"\r\n".join(lines) + body


def content(path: str) -> bytes:
    """Return what a kubelet says of two tenants."""
    if path.startswith("/metrics"):
        return f"{METRICS}resource_scrape_error 0\n".encode()
    if path.startswith("/stats"):
        return kubelet_answers.summary(pod_figures(OWN, 11), pod_figures(GUEST, 22))
    return kubelet_answers.pod_list(kubelet_answers.listed(OWN), kubelet_answers.listed(GUEST))


def node() -> FakeKubelet:
    """Return a kubelet that behaves."""

    def answer(peer: ssl.SSLSocket, head: bytes) -> None:
        peer.sendall(answering(content(head.split()[1].decode())))

    return FakeKubelet(
        pods=[kubelet_answers.listed(OWN), kubelet_answers.listed(GUEST)], answer=answer
    )


def split(answer: bytes) -> tuple[int, list[bytes], bytes]:
    """Return status, header lines and body of an answer."""
    head, _, body = answer.partition(b"\r\n\r\n")
    first, *headers = head.split(b"\r\n")
    return int(first.split()[1]), headers, body


@pytest.fixture(autouse=True)
def hasty(monkeypatch):
    """No one waits between two equal questions. A slow machine is no reason to ask once more."""
    monkeypatch.setattr(singleflight, "MIN_QUERY_INTERVAL_SECONDS", 0.0)
    monkeypatch.setattr(singleflight, "MAX_AGE_SECONDS", 60.0)


@pytest.mark.parametrize("path", PATHS)
async def test_each_tenant_gets_its_own(tmp_path, path, recorded):
    """SEC-04: one answer of the kubelet, two of ours, without a word of the other."""
    async with running_agent.staged(tmp_path, node()) as set_up:
        status, headers, one = split(await set_up.send(asking(path)))
        _, _, two = split(
            await set_up.send(asking(path), set_up.context(named(f"vc://{OTHER}/{OTHER_KEY}")))
        )
        third = named("vc://33333333-0000-4000-8000-000000000000/third")
        _, _, none = split(await set_up.send(asking(path), set_up.context(third)))
        await eventually(lambda: len(recorded) == 3)
    kind = b"text/plain; version=0.0.4; charset=utf-8" if "metrics" in path else b"application/json"
    assert status == 200
    assert b"Content-Type: " + kind in headers
    assert b"Content-Length: %d" % len(one) in headers
    marks = {"/metrics/resource": ("} 11 ", "} 22 "), "/stats/summary": (":11,", ":22,")}
    own, foreign = marks.get(path, (tenant_uid(1), tenant_uid(2)))
    assert (own in one.decode(), foreign in one.decode()) == (True, False)
    assert (own in two.decode(), foreign in two.decode()) == (False, True)
    assert own not in none.decode()
    assert foreign not in none.decode()
    assert b"default-b41df0" not in one + two + none
    assert [line.bytes_down for line in recorded] == [len(one), len(two), len(none)]
    assert {(line.status, line.result) for line in recorded} == {(200, "complete")}


async def test_the_kubelet_sees_the_golden_request(tmp_path):
    """SEC-08: our path, our credential, and nothing of the caller's."""
    async with running_agent.staged(tmp_path, node()) as set_up:
        raw = asking("/stats/summary/?only_cpu_and_memory=true&force=1")
        smuggled = b"Authorization: Bearer stolen\r\nAccept-Encoding: gzip\r\nX-Remote-User: a\r\n"
        await set_up.send(raw[:-2] + smuggled + b"\r\n")
        _, head = set_up.kubelet.heads
        authority = b"127.0.0.1:%d" % set_up.kubelet.port
    assert head.split(b"\r\n") == [
        b"GET /stats/summary?only_cpu_and_memory=true HTTP/1.1",
        b"Host: " + authority,
        b"User-Agent: vn-agent",
        b"Accept: application/json",
        b"Connection: close",
        b"Authorization: Bearer first-token",
        b"",
        b"",
    ]


async def test_without_a_certificate_nothing_is_asked(tmp_path):
    """SEC-01: a token is no identity here, whosever it is."""
    async with running_agent.staged(tmp_path, node()) as set_up:
        raw = asking("/pods")[:-2] + b"Authorization: Bearer of-a-tenant\r\n\r\n"
        with pytest.raises(OSError, match=r"certificate required|closed|reset"):
            await set_up.send(raw, set_up.context(None))
        assert set_up.kubelet.heads == []


async def test_a_recreated_pod_is_another(tmp_path):
    """The figures are of a UID that the list does not know."""
    kubelet = node()
    kubelet.pods = [kubelet_answers.listed(owned(7, vc_uid=VC_UID))]
    async with running_agent.staged(tmp_path, kubelet) as set_up:
        _, _, body = split(await set_up.send(asking("/stats/summary")))
        assert json.loads(body)["pods"] == []


ODD = {
    "garbage": answering(b"\x00\x01 kube-system"),
    "html": answering(b"<html>kube-system</html>"),
    "gzip": answering(gzip.compress(content("/pods")), b"Content-Encoding: gzip"),
    "cut short": b"HTTP/1.1 200 OK\r\nContent-Length: 5000\r\n\r\n{",
    "framed twice": b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\n{}",
    "not HTTP": b"\x16\x03\x01\r\n\r\n",
    "switched": running_agent.SWITCHED,
    "failed": b"HTTP/1.1 500 Oh\r\nContent-Length: 11\r\n\r\nkube-system",
    "moved": b"HTTP/1.1 301 Moved\r\nLocation: https://kube-system/\r\nContent-Length: 0\r\n\r\n",
    "no more": b"",
}


@pytest.mark.parametrize("path", ["/stats/summary", "/metrics/resource", "/runningpods"])
async def test_an_odd_kubelet_is_not_passed_on(tmp_path, path):
    """502 and our own words, each time. Then it is asked again as if nothing had been."""
    kubelet = node()
    good = kubelet.answer
    async with running_agent.staged(tmp_path, kubelet) as set_up:
        context = set_up.context()
        for name, answer in ODD.items():
            kubelet.answer = running_agent.saying(answer)
            status, _, body = split(await set_up.send(asking(path), context))
            assert (status, b"kube-system" in body, body[:18]) == (
                502,
                False,
                b"the node's kubelet",
            ), name
        kubelet.answer = good
        assert split(await set_up.send(asking(path), context))[0] == 200
        await eventually(lambda: set_up.streams.count == 0)


async def test_a_missing_right_is_reported_to_be_ours(tmp_path):
    """The kubelet's 403 names our account."""
    text = b"Forbidden (user=system:serviceaccount:vc-manager:vn-agent)"
    answer = b"HTTP/1.1 403 Forbidden\r\nContent-Length: %d\r\n\r\n" % len(text) + text
    kubelet = node()
    kubelet.answer = running_agent.saying(answer)
    async with running_agent.staged(tmp_path, kubelet) as set_up:
        status, _, body = split(await set_up.send(asking("/stats/summary")))
        assert (status, body) == (502, b"the node's kubelet does not accept the node agent\n")


async def test_too_much_is_not_read(tmp_path, monkeypatch, recorded):
    """A kubelet without end: what is over the cap is not waited for, and the caller hears so."""
    row = node_reads._READ_ROUTES[node_reads.RouteVerb.STATS]
    monkeypatch.setitem(
        node_reads._READ_ROUTES,
        node_reads.RouteVerb.STATS,
        node_reads._ReadRoute(row.path, row.content_type, 300_000),
    )

    sent = []

    def flood(peer: ssl.SSLSocket, _: bytes) -> None:
        peer.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        while True:
            peer.sendall(b"10000\r\n" + b" " * 65536 + b"\r\n")
            sent.append(65536)

    kubelet = node()
    kubelet.answer = flood
    async with running_agent.staged(tmp_path, kubelet) as set_up:
        status, _, body = split(await set_up.send(asking("/stats/summary")))
        await eventually(lambda: recorded)
    assert (status, b"more than the node agent accepts" in body) == (502, True)
    assert recorded[0].result == "kubelet_large"
    assert sum(sent) < 50_000_000  # the cap, and what sockets hold


async def test_a_slow_kubelet_is_not_waited_for(tmp_path, monkeypatch):
    """A scraper's patience is short as well."""
    monkeypatch.setattr(singleflight, "RESPONSE_SECONDS", 0.2)
    gateway = running_agent.HeldKubelet()
    kubelet = node()
    kubelet.answer = gateway
    async with running_agent.staged(tmp_path, kubelet) as set_up:
        status, _, body = split(await set_up.send(asking("/metrics/resource")))
        assert (status, b"in time" in body) == (504, True)
        gateway.open()


async def test_a_node_that_is_busy_reports_it(tmp_path, monkeypatch, recorded):
    """Few answers are in memory. A further request waits, but not for long."""
    monkeypatch.setattr(singleflight, "PLACE_WAIT_SECONDS", 0.2)
    gateway = running_agent.HeldKubelet(answering(content("/stats/summary")))
    kubelet = node()
    kubelet.answer = gateway
    async with running_agent.staged(tmp_path, kubelet) as set_up:
        context, other = set_up.context(), set_up.context(named(f"vc://{OTHER}/{OTHER_KEY}"))
        raws = [asking(f"/stats/summary{query}") for query in ("", "?only_cpu_and_memory=true")]
        first = [asyncio.ensure_future(set_up.send(raw, context)) for raw in raws]
        await eventually(lambda: len(kubelet.asked) == singleflight.MAX_HELD_RESPONSES)
        status, headers, body = split(await set_up.send(asking("/metrics/resource"), other))
        assert (status, body) == (429, b"the node is busy with other reads. Try again\n")
        assert b"Retry-After: 1" in headers
        assert len(kubelet.asked) == singleflight.MAX_HELD_RESPONSES
        gateway.open()
        assert [split(got)[0] for got in await asyncio.gather(*first)] == [200, 200]
        assert split(await set_up.send(raws[0], other))[0] == 200
    assert recorded[0].result == "reads_full"


async def test_tenants_that_ask_together_share_an_answer(tmp_path):
    """Four scrapers cost the kubelet what one does, and each gets its own."""
    gateway = running_agent.HeldKubelet(answering(content("/metrics/resource")))
    kubelet = node()
    kubelet.answer = gateway
    async with running_agent.staged(tmp_path, kubelet) as set_up:
        contexts = [set_up.context(), set_up.context(named(f"vc://{OTHER}/{OTHER_KEY}"))]
        raw = asking("/metrics/resource")
        scrapers = [asyncio.ensure_future(set_up.send(raw, each)) for each in contexts * 2]
        await eventually(lambda: set_up.streams.count == len(scrapers))
        await eventually(lambda: kubelet.asked)
        gateway.open()
        got = [split(answer)[2] for answer in await asyncio.gather(*scrapers)]
    assert kubelet.asked == [b"GET /metrics/resource HTTP/1.1"]
    assert ["} 11 " in text.decode() for text in got] == [True, False] * 2
    assert ["} 22 " in text.decode() for text in got] == [False, True] * 2


async def test_a_tenant_has_its_own_limit(tmp_path, monkeypatch):
    """Waiting calls count, and do not take the places of others."""
    gateway = running_agent.HeldKubelet(answering(content("/stats/summary")))
    kubelet = node()
    kubelet.answer = gateway
    async with running_agent.staged(tmp_path, kubelet) as set_up:
        context, raw = set_up.context(), asking("/stats/summary")
        open_ones = [
            asyncio.ensure_future(set_up.send(raw, context))
            for _ in range(node_reads.MAX_READS_PER_TENANT)
        ]
        await eventually(lambda: set_up.streams.count == node_reads.MAX_READS_PER_TENANT)
        status, _, body = split(await set_up.send(raw, context))
        assert (status, b"4 reads of the node open" in body) == (429, True)
        gateway.open()
        assert {split(got)[0] for got in await asyncio.gather(*open_ones)} == {200}
        assert split(await set_up.send(raw, context))[0] == 200


async def test_a_certificate_for_figures_opens_nothing_else(tmp_path):
    """SEC-02: a metrics-server dials what tenants write. It need not reach into pods."""
    kubelet = FakeKubelet(
        answer=running_agent.saying(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
    )
    figures = named(URI.replace("vc://", "vc-figures://"))
    async with running_agent.staged(tmp_path, kubelet) as set_up:
        context = set_up.context(figures)
        for raw in (running_agent.LOGS, running_agent.EXEC, running_agent.RUN):
            got = await set_up.send(raw, context)
            assert b"403 Forbidden" in got
            assert b"for /metrics/resource only" in got
        for path in (b"/pods", b"/stats/summary", b"/healthz"):
            got = await set_up.send(b"GET %s HTTP/1.1\r\nHost: a\r\n\r\n" % path, context)
            assert b"403 Forbidden" in got
        assert not kubelet.asked
        await set_up.send(b"GET /metrics/resource HTTP/1.1\r\nHost: a\r\n\r\n", context)
    assert [line.split(b" ")[1] for line in kubelet.asked] == [b"/metrics/resource"]


def test_no_entry_is_kept_without_a_reason():
    """A tenant that once asked is no entry for ever."""
    places = node_reads.NodeReads(None, SimpleNamespace(kubelet=None), per_tenant=1)
    with places.hold_read("a"), places.hold_read("b"):
        assert len(places._open) == 2
        with pytest.raises(RequestRefusedError), places.hold_read("a"):
            pass
    assert not places._open


async def test_large_answers_are_read_beside_the_loop(tmp_path, monkeypatch):
    """Everyone's streams run on it."""
    sizes: list[int] = []
    real = asyncio.to_thread

    async def watched(work, *args, **kwargs):
        if args and isinstance(args[0], bytes):
            sizes.append(len(args[0]))
        return await real(work, *args, **kwargs)

    monkeypatch.setattr(thread_offload.asyncio, "to_thread", watched)
    many = [pod_figures(OWN, 11), *(pod_figures(owned(n), n) for n in range(10, 200))]
    large = kubelet_answers.summary(*many)
    kubelet = node()
    kubelet.pods += [kubelet_answers.listed(owned(n, name=f"p{n}")) for n in range(10, 200)]
    kubelet.answer = running_agent.saying(answering(large))
    async with running_agent.staged(tmp_path, kubelet) as set_up:
        status, _, body = split(await set_up.send(asking("/stats/summary")))
        await set_up.send(asking("/pods"))
    assert (status, len(json.loads(body)["pods"])) == (200, 1)
    listed = len(json.dumps({"items": kubelet.pods}))
    assert [size for size in sizes if size > thread_offload.THREAD_THRESHOLD_BYTES] == [
        listed,
        len(large),
        listed,
    ]


async def test_a_caller_that_does_not_read_is_left(tmp_path, monkeypatch, recorded):
    """Its answer is in memory as long as it takes, which is not for ever."""
    monkeypatch.setattr(request, "RESPONSE_READ_SECONDS", 0.3)
    item = kubelet_answers.listed(OWN)
    kinds = [{"type": "c" * 4000, "status": "True"}] * 5000
    item["status"]["conditions"] = kinds
    kubelet = node()
    kubelet.pods = [item]

    async with running_agent.staged(tmp_path, kubelet) as set_up:
        peer = await asyncio.to_thread(
            tls_sockets.dial, set_up.port, set_up.context(), receive_buffer=4096
        )
        try:
            peer.sendall(asking("/pods"))
            await eventually(lambda: recorded)
            assert (recorded[0].status, recorded[0].result) == (200, "too_long")
            await eventually(lambda: set_up.streams.count == 0)
        finally:
            peer.close()
