"""One request through the whole agent, with a kubelet that behaves and one that does not."""

import asyncio
import contextlib
import socket
import ssl

import pytest
import trustme
from prometheus_client import REGISTRY

from tenancy.switches import Call
from tests.support.eventually import eventually
from tests.unit.vnagent import stage, wires
from tests.unit.vnagent.certificates import KEY, VC_UID, named
from tests.unit.vnagent.stage import (
    EXEC,
    GREETING,
    LOGS,
    OTHER,
    RUN,
    SPACE,
    SUPER_UID,
    UID,
    FakeKubelet,
)
from tests.unit.vnagent.test_heads import MALFORMED
from vnagent import audit, metrics, session
from vnagent.limits import Streams


def status_of(answer: bytes) -> int:
    """Return the status of an answer."""
    return int(answer.split(b" ")[1])


@pytest.fixture
def recorded(monkeypatch) -> list[audit.Session]:
    """What the audit log would say."""
    found: list[audit.Session] = []
    monkeypatch.setattr(audit, "record", found.append)
    return found


async def test_logs_pass_byte_for_byte(tmp_path, recorded):
    """The kubelet's body, chunks and all, under a head of ours."""
    async with stage.staged(tmp_path, FakeKubelet()) as set_up:
        answer = await set_up.send(LOGS)
    head, _, body = answer.partition(b"\r\n\r\n")
    assert head.split(b"\r\n") == [
        b"HTTP/1.1 200 OK",
        b"Content-Type: text/plain",
        b"Transfer-Encoding: chunked",
        b"Connection: close",
    ]
    assert body == GREETING.partition(b"\r\n\r\n")[2]
    (line,) = recorded
    assert (line.caller.key, line.status, line.result) == (KEY, 200, "complete")
    assert line.protocol == ""
    assert (line.bytes_up, line.bytes_down) == (0, len(body))


async def test_the_kubelet_sees_the_golden_request(tmp_path):
    """SEC-08: our credential, the super namespace, and nothing of what the caller added."""
    smuggled = (
        b"Authorization: Bearer stolen\r\nImpersonate-User: admin\r\nX-Remote-User: admin\r\n"
        b"X-Forwarded-For: 127.0.0.1\r\nX-Original-URL: /pods\r\nCookie: a\r\n\r\n"
    )
    async with stage.staged(tmp_path, FakeKubelet()) as set_up:
        target = b"/containerLogs/web/shop/main?follow=true&tail=all&tailLines=7"
        raw = LOGS.replace(b"/containerLogs/web/shop/main", target)[:-2] + smuggled
        await set_up.send(raw)
        (head,) = [head for head in set_up.kubelet.heads if b"/pods" not in head]
        authority = b"127.0.0.1:%d" % set_up.kubelet.port
    assert head.split(b"\r\n") == [
        b"GET /containerLogs/%s/shop/main?follow=true&tailLines=7 HTTP/1.1" % SPACE.encode(),
        b"Host: " + authority,
        b"User-Agent: vn-agent",
        b"Connection: close",
        b"Authorization: Bearer first-token",
        b"",
        b"",
    ]


async def test_a_run_is_an_exec_without_a_switch(tmp_path, recorded):
    """Its output is the answer; what fails is told in the tenant's words."""
    kubelet = FakeKubelet()
    async with stage.staged(tmp_path, kubelet) as set_up:
        answer = await set_up.send(RUN)
        assert answer.endswith(GREETING.partition(b"\r\n\r\n")[2])
        text = f"command 'id' exited with 1 in {SPACE}".encode()
        head = b"HTTP/1.1 500 Internal Server Error\r\nContent-Length: %d\r\n\r\n" % len(text)
        kubelet.answer = stage.saying(head + text)
        answer = await set_up.send(RUN)
        assert (status_of(answer), answer.endswith(b"exited with 1 in web\n")) == (500, True)
    assert kubelet.asked == [b"POST /run/%s/shop/main?cmd=id+-u HTTP/1.1" % SPACE.encode()] * 2
    assert [line.status for line in recorded] == [200, 500]


def echo_after_switch(peer: ssl.SSLSocket, head: bytes) -> None:
    """Switch protocols and send back what comes."""
    early = head.partition(b"\r\n\r\n")[2]
    peer.sendall(stage.SWITCHED + b"first ")
    while b"bye" not in early:
        part = peer.recv(1000)
        if not part:
            return
        early += part
    peer.sendall(early)


async def test_a_stream_is_a_pipe_after_the_switch(tmp_path, recorded):
    """Early bytes of both sides included, whatever they are."""
    kubelet = FakeKubelet(answer=echo_after_switch)
    async with stage.staged(tmp_path, kubelet) as set_up:
        answer = await set_up.send(EXEC + b"\x80\x03\x00\x01 GET / HTTP/1.1\r\n\r\nbye")
    head, _, rest = answer.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 101 ")
    assert rest == b"first \x80\x03\x00\x01 GET / HTTP/1.1\r\n\r\nbye"
    assert kubelet.asked == [
        b"POST /exec/%s/shop/main?output=1&command=id HTTP/1.1" % SPACE.encode()
    ]
    assert (recorded[0].status, recorded[0].protocol) == (101, "SPDY/3.1")


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
        b"HTTP/1.1 302 Found\r\nLocation: https://elsewhere/\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 500 Oh\r\nContent-Length: 5\r\n\r\nouch\n",
        b"HTTP/1.1 400 Bad\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nno\r\n0\r\n\r\n",
    ],
)
async def test_a_switch_that_is_refused_closes_the_connection(tmp_path, answer):
    """SEC-09, CVE-2018-1002105: what was to follow the switch never reaches the kubelet."""
    seen: list[bytes] = []

    def refuse(peer: ssl.SSLSocket, head: bytes) -> None:
        seen.append(head)
        peer.sendall(answer)
        with contextlib.suppress(OSError):
            seen.append(peer.recv(1000))

    kubelet = FakeKubelet(answer=refuse)
    smuggled = b"GET /pods HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer x\r\n\r\n"
    async with stage.staged(tmp_path, kubelet) as set_up:
        got = await set_up.send(EXEC + smuggled)
        assert b"Connection: close" in got
        assert got.count(b"HTTP/1.1 ") == 1
        assert status_of(got) == {b"5": 500, b"4": 400}.get(answer[9:10], 502)
    assert all(b"Bearer x" not in part for part in seen)
    assert len(kubelet.asked) == 1


async def test_an_unasked_switch_is_no_answer(tmp_path):
    """A kubelet that switches on a request for logs is none."""
    kubelet = FakeKubelet(answer=stage.saying(stage.SWITCHED))
    async with stage.staged(tmp_path, kubelet) as set_up:
        assert status_of(await set_up.send(LOGS)) == 502


async def test_the_kubelets_words_are_told_in_the_tenants(tmp_path):
    """Super-side names stay below."""
    text = f'pod "shop_{SPACE}({SUPER_UID})" is not ready\n'.encode()
    answer = b"HTTP/1.1 400 Bad\r\nContent-Length: %d\r\n\r\n" % len(text) + text
    kubelet = FakeKubelet(answer=stage.saying(answer))
    async with stage.staged(tmp_path, kubelet) as set_up:
        for raw in (LOGS, EXEC):
            got = await set_up.send(raw)
            assert status_of(got) == 400
            assert got.endswith(f'\r\n\r\npod "shop_web({UID})" is not ready\n'.encode())


@pytest.mark.parametrize("verb", [LOGS, EXEC], ids=["logs", "exec"])
async def test_desynchronised_requests_reach_nobody(shared_stage, verb):
    """SEC-09, FIG-11: a malformed head, a second request behind it; the kubelet sees none."""
    context = shared_stage.context()
    for malformed in MALFORMED:
        block = malformed.replace(LOGS.split(b"\r\n")[0], verb.split(b"\r\n")[0])
        if not block.endswith(b"\r\n\r\n"):
            block += b" \r\n\r\n"
        got = await shared_stage.send(block + LOGS, context)
        assert got.count(b"HTTP/1.1 ") == 1, block
        assert status_of(got) in (400, 404), block
    assert shared_stage.kubelet.asked == []


@pytest.fixture(scope="module")
def shared_folder(tmp_path_factory):
    """A folder for the stage that many tests share."""
    return tmp_path_factory.mktemp("stage")


@pytest.fixture
async def shared_stage(shared_folder):
    """A stage for hostile callers."""
    async with stage.staged(shared_folder, FakeKubelet()) as set_up:
        yield set_up


PIPELINED = [
    LOGS + LOGS,
    LOGS + b"GET /pods HTTP/1.1\r\nHost: a\r\n\r\n",
    LOGS + EXEC,
    LOGS + b"\x00" * 1000,
    b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n" + LOGS,
    LOGS[:-2] + b"Content-Length: 0\r\n\r\n" + LOGS,
    LOGS[:-2] + b"Connection: keep-alive\r\n\r\n" + LOGS,
]


@pytest.mark.parametrize("raw", PIPELINED)
async def test_one_connection_carries_one_request(shared_stage, raw):
    """SEC-09: what follows is not read as a request, and not passed on."""
    got = await shared_stage.send(raw)
    assert got.count(b"HTTP/1.1 ") == 1
    assert len(shared_stage.kubelet.asked) <= 1


@pytest.mark.parametrize(
    ("raw", "status", "words"),
    [
        (LOGS.replace(b"main", b"mesh"), 403, b"no container 'mesh'"),
        (LOGS.replace(b"shop", b"none"), 404, b"pod 'none' is not on this node"),
        (LOGS.replace(b"/web/", b"/%s/" % SPACE.encode()), 404, b"is not on this node"),
        (LOGS.replace(b"containerLogs", b"checkpoint"), 404, b"no such path"),
        (LOGS.replace(b"containerLogs", b"run"), 405, b"run takes POST requests"),
        (RUN.replace(b"?cmd=id%20-u", b""), 400, b"cmd must be given once"),
        (RUN.replace(b"main", b"mesh"), 403, b"no container 'mesh'"),
        (LOGS.replace(b"GET", b"PUT"), 405, b"GET"),
        (LOGS.replace(b"main ", b"main?tailLines=x "), 400, b"tailLines must be a whole number"),
        (
            EXEC.replace(b"Connection: Upgrade\r\nUpgrade: SPDY/3.1\r\n", b""),
            400,
            b"Upgrade request",
        ),
        (LOGS[:-2] + b"Connection: Upgrade\r\nUpgrade: SPDY/3.1\r\n\r\n", 400, b"does not switch"),
        (EXEC.replace(b"SPDY/3.1", b"h2c"), 400, b"SPDY/3.1 or websocket"),
        (b"GET /" + b"x" * 100_000, 431, b"too long"),
    ],
)
async def test_refusals_are_sentences(shared_stage, raw, status, words):
    """V-07: kubectl shows them to people; no such container is 403, no such pod 404."""
    got = await shared_stage.send(raw)
    assert status_of(got) == status
    assert words in got.partition(b"\r\n\r\n")[2]
    assert shared_stage.kubelet.asked == []


async def test_another_tenant_gets_nothing(tmp_path):
    """SEC-03: a valid certificate of somebody else."""
    async with stage.staged(tmp_path, FakeKubelet()) as set_up:
        context = set_up.context(named(f"vc://{OTHER}/{KEY}"))
        assert status_of(await set_up.send(LOGS, context)) == 404
        assert status_of(await set_up.send(EXEC, context)) == 404
        assert set_up.kubelet.asked == []
        assert status_of(await set_up.send(LOGS)) == 200


async def test_health_needs_no_kubelet(tmp_path):
    """And tells nothing."""
    async with stage.staged(tmp_path, FakeKubelet()) as set_up:
        got = await set_up.send(b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n")
        assert got.endswith(b"\r\n\r\nok\n")
        assert set_up.kubelet.heads == []


async def test_a_kubelet_that_cannot_be_trusted_gets_no_token(tmp_path):
    """SEC-11: an impostor with a certificate of its own; the session is counted as such."""
    labels = {"result": "kubelet_untrusted"}
    before = REGISTRY.get_sample_value("vc_agent_sessions_total", labels) or 0.0
    async with stage.staged(tmp_path, FakeKubelet(), kubelet_authority=trustme.CA()) as set_up:
        got = await set_up.send(LOGS)
        assert (status_of(got), b"does not verify" in got) == (502, True)
        assert set_up.kubelet.heads == []
    assert REGISTRY.get_sample_value("vc_agent_sessions_total", labels) == before + 1


async def test_a_kubelet_of_another_name_gets_no_token(tmp_path):
    """SEC-11: a certificate of our authority for another node."""
    async with stage.staged(tmp_path, FakeKubelet(), server_name="127.0.0.2") as set_up:
        got = await set_up.send(LOGS)
        assert (status_of(got), b"does not verify" in got) == (502, True)
        assert set_up.kubelet.heads == []


async def test_a_kubelet_that_is_down_is_said_to_be(tmp_path):
    """502 and a sentence, on each request anew."""
    kubelet = FakeKubelet()
    async with stage.staged(tmp_path, kubelet) as set_up:
        await set_up.send(LOGS)
        kubelet.lists_status = b"503 Busy"
        kubelet.pods = []
        got = await set_up.send(LOGS.replace(b"shop", b"late"))
        assert status_of(got) == 502


async def test_a_refused_token_is_read_again_once(tmp_path):
    """REL-60: the file has a newer one; without it the caller is told, not the kubelet's words."""
    kubelet = FakeKubelet()

    def demand(peer: ssl.SSLSocket, head: bytes) -> None:
        if b"Bearer second-token" in head:
            peer.sendall(GREETING)
        else:
            peer.sendall(b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n")

    kubelet.answer = demand
    async with stage.staged(tmp_path, kubelet) as set_up:
        got = await set_up.send(LOGS)
        assert (status_of(got), b"does not let the node agent in" in got) == (502, True)
        set_up.token_file.write_bytes(b"second-token")
        assert status_of(await set_up.send(LOGS)) == 200
        assert len(kubelet.asked) == 3


async def test_a_missing_token_is_not_taken_for_a_bad_certificate(tmp_path, recorded):
    """Nothing is sent without one; whoever looks for the trouble looks in the right place."""
    kubelet = FakeKubelet()

    def demand(peer: ssl.SSLSocket, _: bytes) -> None:
        peer.sendall(b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n")

    kubelet.answer = demand
    async with stage.staged(tmp_path, kubelet) as set_up:
        set_up.token_file.write_bytes(b"no token\n")
        got = await set_up.send(LOGS)
        assert (status_of(got), b"has no credential for the node's kubelet" in got) == (502, True)
        assert len(kubelet.asked) == 1
        await eventually(lambda: recorded)
        assert recorded[-1].result == "kubelet_denies"


async def test_a_missing_right_is_not_blamed_on_the_tenant(tmp_path):
    """The kubelet's 403 names our account; the tenant hears that the agent was refused."""
    text = b"Forbidden (user=system:serviceaccount:vc-manager:vn-agent)"
    answer = b"HTTP/1.1 403 Forbidden\r\nContent-Length: %d\r\n\r\n" % len(text) + text
    kubelet = FakeKubelet(answer=stage.saying(answer))
    async with stage.staged(tmp_path, kubelet) as set_up:
        got = await set_up.send(EXEC)
        assert (status_of(got), b"serviceaccount" in got) == (502, False)


async def test_a_silent_log_ends_with_its_caller(tmp_path, recorded):
    """The kubelet sends no head before the first line, maybe for hours."""
    gateway = stage.Gateway()
    kubelet = FakeKubelet(answer=gateway)
    async with stage.staged(tmp_path, kubelet) as set_up:

        def leave() -> None:
            with wires.dial(set_up.port, set_up.context()) as peer:
                peer.sendall(LOGS)
                gateway.entered.wait(wires.PATIENCE_SECONDS)
                wires.half_close(peer)
                with contextlib.suppress(OSError):
                    peer.recv(1)

        async with asyncio.timeout(wires.PATIENCE_SECONDS / 2):  # the gateway waits longer
            await asyncio.to_thread(leave)
        await eventually(lambda: recorded)
        assert recorded[0].result == "caller_gone"
        assert set_up.streams.count == 0
        gateway.open()


async def test_a_switch_that_does_not_come_is_not_waited_for(tmp_path, monkeypatch):
    """A node that vanishes in between says nothing; a log may be silent, an exec may not."""
    monkeypatch.setattr(session, "SWITCH_SECONDS", 0.2)
    gateway = stage.Gateway()
    async with stage.staged(tmp_path, FakeKubelet(answer=gateway)) as set_up:
        silent = asyncio.ensure_future(set_up.send(LOGS))
        got = await set_up.send(EXEC)
        assert (status_of(got), b"did not answer in time" in got) == (504, True)
        assert set_up.streams.count == 1
        gateway.open()
        assert status_of(await silent) == 200


async def test_few_runs_at_once(tmp_path):
    """SEC-15: the node keeps the whole output of each until its end; other calls go on."""
    gateway = stage.Gateway()
    kubelet = FakeKubelet(answer=gateway)
    async with stage.staged(tmp_path, kubelet) as set_up:
        running = [asyncio.ensure_future(set_up.send(RUN)) for _ in range(2)]
        await eventually(lambda: len(kubelet.asked) >= 2)
        got = await set_up.send(RUN)
        assert (status_of(got), b"has 2 runs open on the node" in got) == (429, True)
        other = asyncio.ensure_future(set_up.send(LOGS))
        await eventually(lambda: len(kubelet.asked) >= 3)
        gateway.open()
        assert {status_of(await one) for one in (*running, other)} == {200}
        assert status_of(await set_up.send(RUN)) == 200


async def test_one_stream_too_many_is_told_why(tmp_path):
    """SEC-15: 429 for the greedy tenant, 200 for the other."""
    gateway = stage.Gateway()
    kubelet = FakeKubelet(pods=[stage.shop(), stage.shop(OTHER)], answer=gateway)
    async with stage.staged(tmp_path, kubelet, streams=Streams(per_tenant=2)) as set_up:
        first = [asyncio.ensure_future(set_up.send(LOGS)) for _ in range(2)]
        await eventually(lambda: len(kubelet.asked) >= 2)
        got = await set_up.send(LOGS)
        assert (status_of(got), b"Retry-After: 1" in got) == (429, True)
        assert b"2 streams open on the node" in got
        other = asyncio.ensure_future(
            set_up.send(LOGS, set_up.context(named(f"vc://{OTHER}/{KEY}")))
        )
        await eventually(lambda: len(kubelet.asked) >= 3)
        gateway.open()
        assert [status_of(got) for got in await asyncio.gather(*first, other)] == [200] * 3
        assert status_of(await set_up.send(LOGS)) == 200


async def test_a_tenant_that_goes_on_past_its_limit_is_no_longer_answered(
    tmp_path, monkeypatch, recorded, capsys
):
    """SEC-15: nor read, nor written down, for as long; the other tenant is, at the same address."""
    monkeypatch.setattr(session, "TOLD_AT_ONCE", 3)
    monkeypatch.setattr(session, "TOLD_SECONDS", 60.0)
    monkeypatch.setattr(metrics, "_labels", {})
    gateway = stage.Gateway()
    kubelet = FakeKubelet(pods=[stage.shop()], answer=gateway)
    labels = {"tenant": metrics.tenant_label(VC_UID), "reason": "repeated"}
    before = REGISTRY.get_sample_value("vc_agent_connections_refused_total", labels) or 0.0
    async with stage.staged(tmp_path, kubelet, streams=Streams(per_tenant=1)) as set_up:
        first = asyncio.ensure_future(set_up.send(LOGS))
        await eventually(lambda: kubelet.asked)
        for _ in range(3):
            assert status_of(await set_up.send(LOGS)) == 429
        for _ in range(4):
            with contextlib.suppress(OSError):
                assert await set_up.send(LOGS) == b""
        await eventually(lambda: len(recorded) == 3)
        other = set_up.context(named(f"vc://{OTHER}/{KEY}"))
        assert status_of(await set_up.send(LOGS, other)) == 404
        gateway.open()
        assert status_of(await first) == 200
    assert REGISTRY.get_sample_value("vc_agent_connections_refused_total", labels) == before + 4
    assert capsys.readouterr().out.count("past its limit") == 1


async def test_a_slow_head_is_not_waited_for(tmp_path, monkeypatch):
    """SEC-15: a deadline for the head."""
    monkeypatch.setattr(session, "HEAD_SECONDS", 0.1)
    async with stage.staged(tmp_path, FakeKubelet()) as set_up:
        assert status_of(await set_up.send(LOGS[:-2])) == 408


async def test_warm_connections_are_used(tmp_path):
    """A request after the first finds its connection made."""
    kubelet = FakeKubelet()
    async with stage.staged(tmp_path, kubelet) as set_up:
        await set_up.send(LOGS)
        await eventually(lambda: kubelet.connections >= 4)  # the list, the log, two for later
        await set_up.send(LOGS)
        assert len(kubelet.asked) == 2


async def test_tenants_never_see_each_others_sessions(recorded, tmp_path):
    """The audit line names who asked, also when nothing was found."""
    async with stage.staged(tmp_path, FakeKubelet()) as set_up:
        await set_up.send(LOGS, set_up.context(named(f"vc://{OTHER}/{KEY}")))
        await set_up.send(LOGS)
    assert [(line.caller.vc_uid, line.status) for line in recorded] == [(OTHER, 404), (VC_UID, 200)]


async def test_what_a_policy_switches_off_is_refused(tmp_path, recorded):
    """403 names switch and policy, no kubelet is asked; other verbs and tenants are served."""
    kubelet = FakeKubelet(pods=[stage.shop(), stage.shop(OTHER)])
    async with stage.staged(tmp_path, kubelet) as set_up:
        set_up.permits.learn(stage.access(Call.EXEC))
        got = await set_up.send(EXEC)
        assert status_of(got) == 403
        assert b"exec is switched off for this cluster: spec.access.exec of its" in got
        assert b"TenantPolicy 'shops' is false" in got
        assert kubelet.heads == []
        assert status_of(await set_up.send(LOGS)) == 200
        context = set_up.context(named(f"vc://{OTHER}/{KEY}"))
        await set_up.send(EXEC, context)
        assert len(kubelet.asked) == 2
        set_up.permits.learn(None)
        got = await set_up.send(LOGS)
        assert (status_of(got), b"Retry-After: 1" in got) == (503, True)
        assert len(kubelet.asked) == 2
    assert [line.result for line in recorded][:2] == ["switched_off", "complete"]
    assert recorded[-1].result == "no_policy"


async def test_what_is_switched_off_ends(tmp_path, recorded):
    """A running session is cut, and one that waits for the kubelet is told; others go on."""
    gateway = stage.Gateway()
    kubelet = FakeKubelet(
        answer=lambda peer, head: (
            gateway(peer, head) if head.startswith(b"GET /c") else echo_after_switch(peer, head)
        )
    )
    async with stage.staged(tmp_path, kubelet) as set_up:
        waiting = asyncio.ensure_future(set_up.send(LOGS))
        with await asyncio.to_thread(wires.dial, set_up.port, set_up.context()) as peer:
            await asyncio.to_thread(peer.sendall, EXEC)
            await asyncio.to_thread(wires.read_until, peer, b"first ")
            await eventually(lambda: set_up.permits.count == 2)
            set_up.permits.learn(stage.access(Call.EXEC))
            peer.suppress_ragged_eofs = False
            with pytest.raises((ssl.SSLEOFError, ConnectionResetError)):
                await asyncio.to_thread(peer.recv, 1)
        await eventually(lambda: recorded)
        assert (recorded[0].status, recorded[0].result) == (101, "switched_off")
        assert set_up.permits.count == 1
        set_up.permits.learn(stage.access(Call.LOGS))
        got = await waiting
        assert (status_of(got), b"logs is switched off" in got) == (403, True)
        assert (set_up.permits.count, set_up.streams.count) == (0, 0)
        gateway.open()


async def test_a_runtime_that_restarts_ends_streams_and_is_told(tmp_path, recorded):
    """REL-90: the kubelet lives; what ran is broken off, what is new gets the kubelet's words."""
    text = b"rpc error: code = Unavailable desc = connection refused"
    down = b"HTTP/1.1 500 Oh\r\nContent-Length: %d\r\n\r\n" % len(text) + text
    kubelet = FakeKubelet(answer=lambda peer, _: _break_off(peer))
    async with stage.staged(tmp_path, kubelet) as set_up:
        got = await set_up.send(EXEC)
        assert got.startswith(b"HTTP/1.1 101 ")
        assert got.endswith(b"first")
        kubelet.answer = stage.saying(down)
        got = await set_up.send(EXEC)
        assert (status_of(got), text in got) == (500, True)
        kubelet.answer = stage.saying(GREETING)
        assert status_of(await set_up.send(LOGS)) == 200
        assert (set_up.streams.count, set_up.permits.count) == (0, 0)
    assert [line.result for line in recorded] == ["kubelet_lost", "kubelet_refused", "complete"]


def _break_off(peer: ssl.SSLSocket) -> None:
    peer.sendall(stage.SWITCHED + b"first")
    socket.socket.shutdown(peer, socket.SHUT_RDWR)


@pytest.mark.parametrize("junk", [0, 100_000, 400_000])
async def test_a_caller_that_goes_before_its_silent_log_begins_leaves_nothing(tmp_path, junk):
    """Whatever it sent behind its request: its end stands behind that."""
    gate = stage.Gateway()
    async with stage.staged(tmp_path, FakeKubelet(answer=gate)) as found:

        def talk() -> None:
            with wires.dial(found.port, found.context()) as peer:
                peer.sendall(LOGS)
                assert gate.entered.wait(wires.PATIENCE_SECONDS)
                with contextlib.suppress(OSError):
                    peer.sendall(b"x" * junk)

        await asyncio.to_thread(talk)
        await eventually(lambda: found.streams.count == 0, within=wires.PATIENCE_SECONDS / 4)
        gate.open()
