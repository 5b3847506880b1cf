"""One request through the whole agent, with a kubelet that behaves: what passes and what not."""

import contextlib
import ssl

import pytest

from tenancy.agent_permissions import KubeletCall
from tests.support.eventually import eventually
from tests.support.vnagent import running_agent
from tests.support.vnagent.certificates import KEY, VC_UID, named
from tests.support.vnagent.running_agent import (
    EXEC,
    GREETING,
    LOGS,
    OTHER,
    RUN,
    SPACE,
    SUPER_UID,
    UID,
    FakeKubelet,
    echo_after_switch,
    status_of,
)
from tests.unit.vnagent.protocol.test_http_heads import MALFORMED
from vnagent.server import request


async def test_logs_pass_byte_for_byte(tmp_path, recorded):
    """The kubelet's body, chunks and all, under a head of ours."""
    async with running_agent.staged(tmp_path, FakeKubelet()) as set_up:
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
    async with running_agent.staged(tmp_path, FakeKubelet()) as set_up:
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
    """Its output is the answer. What fails is told in the tenant's words."""
    kubelet = FakeKubelet()
    async with running_agent.staged(tmp_path, kubelet) as set_up:
        answer = await set_up.send(RUN)
        assert answer.endswith(GREETING.partition(b"\r\n\r\n")[2])
        text = f"command 'id' exited with 1 in {SPACE}".encode()
        head = b"HTTP/1.1 500 Internal Server Error\r\nContent-Length: %d\r\n\r\n" % len(text)
        kubelet.answer = running_agent.saying(head + text)
        answer = await set_up.send(RUN)
        assert (status_of(answer), answer.endswith(b"exited with 1 in web\n")) == (500, True)
    assert kubelet.asked == [b"POST /run/%s/shop/main?cmd=id+-u HTTP/1.1" % SPACE.encode()] * 2
    assert [line.status for line in recorded] == [200, 500]


async def test_a_stream_is_a_pipe_after_the_switch(tmp_path, recorded):
    """Early bytes of both sides included, whatever they are."""
    kubelet = FakeKubelet(answer=echo_after_switch)
    async with running_agent.staged(tmp_path, kubelet) as set_up:
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
    async with running_agent.staged(tmp_path, kubelet) as set_up:
        got = await set_up.send(EXEC + smuggled)
        assert b"Connection: close" in got
        assert got.count(b"HTTP/1.1 ") == 1
        assert status_of(got) == {b"5": 500, b"4": 400}.get(answer[9:10], 502)
    assert all(b"Bearer x" not in part for part in seen)
    assert len(kubelet.asked) == 1


async def test_an_unasked_switch_is_no_answer(tmp_path):
    """A kubelet that switches on a request for logs is none."""
    kubelet = FakeKubelet(answer=running_agent.saying(running_agent.SWITCHED))
    async with running_agent.staged(tmp_path, kubelet) as set_up:
        assert status_of(await set_up.send(LOGS)) == 502


async def test_the_kubelets_message_is_reported_with_the_tenants_names(tmp_path):
    """Super-side names stay below."""
    text = f'pod "shop_{SPACE}({SUPER_UID})" is not ready\n'.encode()
    answer = b"HTTP/1.1 400 Bad\r\nContent-Length: %d\r\n\r\n" % len(text) + text
    kubelet = FakeKubelet(answer=running_agent.saying(answer))
    async with running_agent.staged(tmp_path, kubelet) as set_up:
        for raw in (LOGS, EXEC):
            got = await set_up.send(raw)
            assert status_of(got) == 400
            assert got.endswith(f'\r\n\r\npod "shop_web({UID})" is not ready\n'.encode())


@pytest.mark.parametrize("verb", [LOGS, EXEC], ids=["logs", "exec"])
async def test_desynchronised_requests_reach_no_upstream(shared_stage, verb):
    """SEC-09, FIG-11: a malformed head, a second request behind it. The kubelet sees none."""
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
    async with running_agent.staged(shared_folder, FakeKubelet()) as set_up:
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
    """V-07: kubectl shows them to people. No such container is 403, no such pod 404."""
    got = await shared_stage.send(raw)
    assert status_of(got) == status
    assert words in got.partition(b"\r\n\r\n")[2]
    assert shared_stage.kubelet.asked == []


async def test_another_tenant_gets_nothing(tmp_path):
    """SEC-03: a valid certificate of another owner."""
    async with running_agent.staged(tmp_path, FakeKubelet()) as set_up:
        context = set_up.context(named(f"vc://{OTHER}/{KEY}"))
        assert status_of(await set_up.send(LOGS, context)) == 404
        assert status_of(await set_up.send(EXEC, context)) == 404
        assert set_up.kubelet.asked == []
        assert status_of(await set_up.send(LOGS)) == 200


async def test_health_needs_no_kubelet(tmp_path):
    """The answer has no detail."""
    async with running_agent.staged(tmp_path, FakeKubelet()) as set_up:
        got = await set_up.send(b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n")
        assert got.endswith(b"\r\n\r\nok\n")
        assert set_up.kubelet.heads == []


async def test_a_slow_head_is_not_waited_for(tmp_path, monkeypatch):
    """SEC-15: a deadline for the head."""
    monkeypatch.setattr(request, "REQUEST_HEAD_SECONDS", 0.1)
    async with running_agent.staged(tmp_path, FakeKubelet()) as set_up:
        assert status_of(await set_up.send(LOGS[:-2])) == 408


async def test_warm_connections_are_used(tmp_path):
    """A request after the first finds its connection made."""
    kubelet = FakeKubelet()
    async with running_agent.staged(tmp_path, kubelet) as set_up:
        await set_up.send(LOGS)
        await eventually(lambda: kubelet.connections >= 4)  # the list, the log, two for later
        await set_up.send(LOGS)
        assert len(kubelet.asked) == 2


async def test_tenants_never_see_each_others_sessions(recorded, tmp_path):
    """The audit line names who asked, also when nothing was found."""
    async with running_agent.staged(tmp_path, FakeKubelet()) as set_up:
        await set_up.send(LOGS, set_up.context(named(f"vc://{OTHER}/{KEY}")))
        await set_up.send(LOGS)
    assert [(line.caller.vc_uid, line.status) for line in recorded] == [(OTHER, 404), (VC_UID, 200)]


async def test_what_a_policy_switches_off_is_refused(tmp_path, recorded):
    """403 names switch and policy, no kubelet is asked. Other verbs and tenants are served."""
    kubelet = FakeKubelet(pods=[running_agent.shop(), running_agent.shop(OTHER)])
    async with running_agent.staged(tmp_path, kubelet) as set_up:
        set_up.permits.update(running_agent.access(KubeletCall.EXEC))
        got = await set_up.send(EXEC)
        assert status_of(got) == 403
        assert b"exec is disabled for this cluster: spec.access.exec of its" in got
        assert b"TenantPolicy 'shops' is false" in got
        assert kubelet.heads == []
        assert status_of(await set_up.send(LOGS)) == 200
        context = set_up.context(named(f"vc://{OTHER}/{KEY}"))
        await set_up.send(EXEC, context)
        assert len(kubelet.asked) == 2
        set_up.permits.update(None)
        got = await set_up.send(LOGS)
        assert (status_of(got), b"Retry-After: 1" in got) == (503, True)
        assert len(kubelet.asked) == 2
    assert [line.result for line in recorded][:2] == ["disabled", "complete"]
    assert recorded[-1].result == "no_policy"
