"""Two ways to a pod: the kubelet while its certificate verifies, else the super API server."""

import asyncio
import json
import ssl
import threading
from dataclasses import replace

import pytest
import trustme

from tenancy import wellknown
from tests.support import tls_sockets
from tests.support.eventually import eventually
from tests.support.vnagent import kubelet_answers, running_agent
from tests.support.vnagent.certificates import VC_UID, named
from tests.support.vnagent.kubelet_answers import owned
from tests.support.vnagent.running_agent import (
    EXEC,
    GREETING,
    LOGS,
    RUN,
    SPACE,
    SUPER_UID,
    SWITCHED,
    UID,
    FakeKubelet,
    api_server,
    astray,
    saying,
    shop,
)
from vnagent.authz import metrics, pod_authorizer
from vnagent.authz.metrics import UpstreamMode
from vnagent.upstream import node_upstream
from vnagent.upstream.upstream_mode import UpstreamSetting

POD = f"/api/v1/namespaces/{SPACE}/pods/shop".encode()
FORWARD = (
    b"POST /portForward/web/shop HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n"
    b"Connection: Upgrade\r\nUpgrade: SPDY/3.1\r\n"
    b"X-Stream-Protocol-Version: portforward.k8s.io\r\n\r\n"
)
WEBSOCKET = (
    b"GET /attach/web/shop/main?output=1&input=1 HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\n"
    b"Upgrade: websocket\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n"
    b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Protocol: v5.channel.k8s.io\r\n\r\n"
)


def asking(path: str) -> bytes:
    return f"GET {path} HTTP/1.1\r\nHost: a\r\n\r\n".encode()


def failing(code: int, message: str, **other: object) -> bytes:
    """Return an API server's error."""
    body = json.dumps({"kind": "Status", "code": code, "message": message, **other}).encode()
    head = b"HTTP/1.1 %d Error\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
    return head % (code, len(body)) + body


def shown() -> dict[tuple[str, str], float]:
    """Return the ways that the metric shows."""
    return {
        (sample.labels["mode"], sample.labels["reason"]): sample.value
        for family in metrics._UPSTREAM.collect()
        for sample in family.samples
    }


# Around.


async def test_a_log_comes_by_the_api_server(tmp_path):
    """The first call finds out, and is served. An untrusted kubelet never sees a byte of it."""
    async with astray(tmp_path, api_server()) as set_up:
        answer = await set_up.send(LOGS)
        assert answer.endswith(b"5\r\nhello\r\n0\r\n\r\n")
        assert set_up.upstream.mode is UpstreamMode.APISERVER
        assert set_up.kubelet.heads == []
        listing, log = set_up.api.heads
    assert listing.startswith(running_agent.LISTS)
    assert b"Authorization: Bearer first-token\r\n" in listing
    assert log.split(b"\r\n") == [
        b"GET " + POD + b"/log?container=main HTTP/1.1",
        b"Host: 127.0.0.1:%d" % set_up.api.port,
        b"User-Agent: vn-agent",
        b"Connection: close",
        b"Authorization: Bearer first-token",
        b"",
        b"",
    ]
    assert shown() == {("apiserver", "untrusted"): 1.0}


@pytest.mark.parametrize(
    ("raw", "line", "passed"),
    [
        (
            EXEC,
            b"POST " + POD + b"/exec?container=main&stdout=true&command=id HTTP/1.1",
            [b"Upgrade: SPDY/3.1", b"X-Stream-Protocol-Version: v5.channel.k8s.io"],
        ),
        (
            FORWARD,
            b"POST " + POD + b"/portforward HTTP/1.1",
            [b"Upgrade: SPDY/3.1", b"X-Stream-Protocol-Version: portforward.k8s.io"],
        ),
        (
            WEBSOCKET,
            b"GET " + POD + b"/attach?container=main&stdout=true&stdin=true HTTP/1.1",
            [b"Upgrade: websocket", b"Sec-WebSocket-Protocol: v5.channel.k8s.io"],
        ),
    ],
)
async def test_streams_are_the_same_pipes(tmp_path, raw, line, passed):
    """After the 101 bytes go both ways as they are, SPDY or WebSocket, until both have ended."""
    blob = bytes(range(256)) * 64

    def echo(peer: ssl.SSLSocket, head: bytes) -> None:
        kind = b"websocket" if b"websocket" in head else b"SPDY/3.1"
        peer.sendall(SWITCHED.replace(b"SPDY/3.1", kind))
        found = b""
        while len(found) < len(blob):
            found += peer.recv(65536)
        peer.sendall(found[::-1])

    async with astray(tmp_path, api_server(answer=echo)) as set_up:
        context = set_up.context()

        def talk() -> bytes:
            with tls_sockets.dial(set_up.port, context) as peer:
                peer.sendall(raw + blob)
                return tls_sockets.read_all(peer)

        answer = await asyncio.to_thread(talk)
        head = set_up.api.heads[-1]
    assert answer.startswith(b"HTTP/1.1 101 ")
    assert answer.endswith(blob[::-1])
    assert head.startswith(line)
    assert {line.lower() for line in passed} <= set(head.lower().split(b"\r\n"))


async def test_the_gate_is_the_same(tmp_path):
    """SEC-03, SEC-05, SEC-16: what is not the caller's reaches no subresource."""
    host = shop(hostNetwork=True)
    host["metadata"] = {**host["metadata"], "name": "host", "uid": SUPER_UID.replace("b", "c")}
    async with astray(tmp_path, api_server(pods=[shop(), host])) as set_up:
        stranger = set_up.context(named("vc://22222222-0000-4000-8000-000000000000/x"))
        assert running_agent.status_of(await set_up.send(LOGS, stranger)) == 404
        assert running_agent.status_of(await set_up.send(LOGS.replace(b"/main", b"/mesh"))) == 403
        assert (
            running_agent.status_of(await set_up.send(LOGS.replace(b"web", SPACE.encode()))) == 404
        )
        assert (
            running_agent.status_of(await set_up.send(FORWARD.replace(b"/shop", b"/host"))) == 403
        )
        wrong = EXEC.replace(b"/shop/", b"/shop/" + SUPER_UID.encode() + b"/")
        assert running_agent.status_of(await set_up.send(wrong)) == 404
        assert set_up.api.asked == []
        right = LOGS.replace(b"containerLogs", b"exec")
        assert running_agent.status_of(await set_up.send(right)) == 400
        assert set_up.api.asked == []
        assert set_up.kubelet.heads == []


async def test_the_api_servers_message_is_reported_with_the_tenants_names(tmp_path, recorded):
    """Status objects become the sentence in them. Super names in it become the tenant's."""
    message = f'container "main" in pod "shop" of {SPACE} ({SUPER_UID}) is waiting to start'
    async with astray(tmp_path, api_server(answer=saying(failing(400, message)))) as set_up:
        head, _, body = (await set_up.send(LOGS)).partition(b"\r\n\r\n")
    assert running_agent.status_of(head) == 400
    assert body.decode() == f'container "main" in pod "shop" of web ({UID}) is waiting to start\n'
    assert recorded[-1].result == "kubelet_refused"


async def test_the_kubelets_own_words_pass(tmp_path):
    """An upgrade that the kubelet refuses is handed on by API servers as it is."""
    said = b"HTTP/1.1 404 Not Found\r\nContent-Type: text/plain\r\nContent-Length: 5\r\n\r\nnone\n"
    async with astray(tmp_path, api_server(answer=saying(said))) as set_up:
        answer = await set_up.send(EXEC)
    assert running_agent.status_of(answer) == 404
    assert answer.endswith(b"none\n")


@pytest.mark.parametrize(
    ("answer", "status", "reason"),
    [
        (failing(500, "error dialing backend: dial tcp 10.9.8.7:10250"), 502, "api_malformed"),
        (failing(403, 'User "system:serviceaccount:vc-manager:vn-agent"'), 502, "api_denies"),
        (failing(401, "Unauthorized 10.9.8.7"), 502, "api_denies"),
        (failing(429, "Too many requests 10.9.8.7"), 503, "api_busy"),
        (failing(400, "x").replace(b'"message"', b'"massage"'), 502, "api_malformed"),
        (failing(400, "x")[:-1] + b"]", 502, "api_malformed"),
        (
            b"HTTP/1.1 302 Found\r\nContent-Length: 0\r\nLocation: /\r\n\r\n",
            502,
            "kubelet_malformed",
        ),
        (b"SSH-2.0\r\n\r\n", 502, "api_malformed"),
        (b"", 502, "api_down"),
    ],
)
async def test_its_own_troubles_are_not_reported(tmp_path, recorded, answer, status, reason):
    """Addresses and accounts of the super cluster are no tenant's to read."""
    async with astray(tmp_path, api_server(answer=saying(answer))) as set_up:
        found = await set_up.send(EXEC)
    assert running_agent.status_of(found) == status
    assert recorded[-1].result == reason
    assert b"10.9.8.7" not in found
    assert b"serviceaccount" not in found
    assert (b"Retry-After" in found) is (status == 503)


async def test_commands_are_in_no_log(tmp_path, capsys):
    """A target that an API server puts into its error may hold a password."""
    target = f"/api/v1/namespaces/{SPACE}/pods/shop/exec?command=pa55word&container=main"
    said = failing(500, f'Internal error: "{target}": no')
    async with astray(tmp_path, api_server(answer=saying(said))) as set_up:
        found = await set_up.send(EXEC.replace(b"command=id", b"command=pa55word"))
    seen = capsys.readouterr()
    assert b"pa55word" not in found
    assert "pa55word" not in seen.out + seen.err


async def test_run_and_figures_are_not_to_be_had(tmp_path, recorded):
    """They need nodes/proxy, which is what this way does without."""
    async with astray(tmp_path, api_server()) as set_up:
        for raw in (RUN, asking("/stats/summary"), asking("/metrics/resource")):
            answer = await set_up.send(raw)
            assert running_agent.status_of(answer) == 501
            assert b"which has no such call" in answer
        assert set_up.api.asked == []
        assert set_up.kubelet.heads == []
    assert {line.result for line in recorded} == {"not_offered"}


async def test_lists_of_pods_come_out_of_the_gates_own_list(tmp_path):
    """Filtered as the kubelet's are. Reads cost the API server no list of their own."""
    mine, theirs = owned(1, vc_uid=VC_UID), owned(2, vc_uid="22222222-0000-4000-8000-000000000000")
    half = kubelet_answers.listed(mine)
    half["spec"]["containers"].append({"name": "init", "image": "i/init"})
    waiting = {"name": "init", "state": {"waiting": {"reason": "PodInitializing"}}}
    half["status"]["containerStatuses"].append(waiting)
    half["metadata"]["annotations"][wellknown.CONTAINERS] = "init,main"
    api = api_server(pods=[half, kubelet_answers.listed(theirs)])
    async with astray(tmp_path, api) as set_up:
        found = {}
        for path in ("/pods", "/runningpods/", "/pods", "/runningpods/"):
            answer = await set_up.send(asking(path))
            assert running_agent.status_of(answer) == 200
            found[path] = json.loads(answer.partition(b"\r\n\r\n")[2])
        assert len(api.heads) == 1
    for document in found.values():
        (item,) = document["items"]
        assert item["metadata"]["uid"] == mine.tenant_uid
        assert mine.super_namespace not in json.dumps(document)
    assert found["/runningpods/"]["items"][0]["status"] == {}
    assert [c["name"] for c in found["/runningpods/"]["items"][0]["spec"]["containers"]] == ["main"]


# The choice.


async def test_straight_while_the_certificate_verifies(tmp_path):
    """The API server is not asked for anything."""
    async with running_agent.staged(tmp_path, FakeKubelet(), wish=UpstreamSetting.AUTO) as set_up:
        assert (await set_up.send(LOGS)).endswith(b"hello\r\n0\r\n\r\n")
        assert set_up.upstream.mode is UpstreamMode.KUBELET
        assert set_up.api.heads == []
    assert shown() == {("kubelet", "verified"): 1.0}


async def test_a_kubelet_that_is_down_is_not_gone_around(tmp_path, recorded):
    """It answers 502, and the API server has no part in it."""
    async with running_agent.staged(tmp_path, FakeKubelet(), wish=UpstreamSetting.AUTO) as set_up:
        set_up.upstream._origin.address = type(set_up.upstream._origin.address)(
            "127.0.0.1", 1, "127.0.0.1"
        )
        for _ in range(3):
            assert running_agent.status_of(await set_up.send(LOGS)) == 502
        assert set_up.upstream.mode is UpstreamMode.KUBELET
        assert set_up.api.heads == []
    assert {line.result for line in recorded} == {"kubelet_down"}


async def test_told_to_go_straight_it_goes_nowhere_else(tmp_path, recorded):
    """SEC-11: `kubelet` refuses what does not verify."""
    kubelet = FakeKubelet()
    async with running_agent.staged(tmp_path, kubelet, kubelet_authority=trustme.CA()) as set_up:
        assert running_agent.status_of(await set_up.send(LOGS)) == 502
        assert set_up.api.heads == kubelet.heads == []
    assert recorded[-1].result == "kubelet_untrusted"


async def test_told_to_go_around_it_never_calls_the_kubelet(tmp_path):
    """`apiserver` holds for every call, and for the looks as well."""
    async with running_agent.staged(
        tmp_path, FakeKubelet(), wish=UpstreamSetting.APISERVER
    ) as set_up:
        await asyncio.wait_for(set_up.upstream.run(), 5)
        assert running_agent.status_of(await set_up.send(LOGS)) == 200
        assert running_agent.status_of(await set_up.send(asking("/pods"))) == 200
        assert set_up.kubelet.connections == 0
    assert shown() == {("apiserver", "configured"): 1.0}


async def test_it_goes_there_and_back_as_the_certificate_does(tmp_path, monkeypatch, capsys):
    """Looks alone turn it. Each change is told once."""
    monkeypatch.setattr(node_upstream, "PROBE_SECONDS", dict.fromkeys(UpstreamMode, 0.05))
    monkeypatch.setattr("vnagent.upstream.upstream_mode.VERIFY_HOLD_SECONDS", 0.2)
    async with astray(tmp_path, api_server()) as set_up:
        ours = set_up.upstream
        heard = []
        ours._on_changed = lambda choice: heard.append((choice.mode.value, choice.reason.value))
        looking = asyncio.ensure_future(ours.run())
        try:
            await eventually(lambda: ours.mode is UpstreamMode.APISERVER, within=10)
            authorities = ours._origin._authorities
            authorities.path.write_bytes(set_up.serving_authority.cert_pem.bytes())
            await authorities.refresh()
            ours.probe_soon()
            await eventually(lambda: ours.mode is UpstreamMode.KUBELET, within=10)
            set_up.kubelet.answer = saying(GREETING)
            assert running_agent.status_of(await set_up.send(LOGS)) == 200
            assert set_up.kubelet.asked
            authorities.path.write_bytes(trustme.CA().cert_pem.bytes())
            await authorities.refresh()
            ours.probe_soon()
            await eventually(lambda: ours.mode is UpstreamMode.APISERVER, within=10)
        finally:
            looking.cancel()
            await asyncio.gather(looking, return_exceptions=True)
    assert heard == [
        ("apiserver", "untrusted"),
        ("kubelet", "verified"),
        ("apiserver", "untrusted"),
    ]


async def test_a_call_that_was_sent_is_not_made_again(tmp_path):
    """A command must not run twice: only what was never sent goes the other way."""

    may_go = threading.Event()

    def hang_up(peer: ssl.SSLSocket, _: bytes) -> None:
        may_go.wait(tls_sockets.PATIENCE_SECONDS)
        raise OSError("gone")

    kubelet = FakeKubelet(answer=hang_up)
    async with running_agent.staged(tmp_path, kubelet, wish=UpstreamSetting.AUTO) as set_up:
        sent = asyncio.ensure_future(set_up.send(EXEC))
        await eventually(lambda: kubelet.asked, within=10)
        trouble = OSError()
        trouble.is_untrusted = True
        set_up.upstream.record_connect(trouble)
        assert set_up.upstream.mode is UpstreamMode.APISERVER
        assert not sent.done()
        may_go.set()
        assert running_agent.status_of(await sent) == 502
        assert set_up.api.asked == []


async def test_lists_are_of_the_way_that_is_gone(tmp_path, monkeypatch):
    """A table of a moment ago is the kubelet's: reads ask for a list of the API server's."""
    monkeypatch.setattr("vnagent.upstream.upstream_mode.RELAPSE_SECONDS", 0.0)
    async with running_agent.staged(tmp_path, FakeKubelet(), wish=UpstreamSetting.AUTO) as set_up:
        assert running_agent.status_of(await set_up.send(LOGS)) == 200
        trouble = OSError()
        trouble.is_untrusted = True
        set_up.upstream.record_connect(trouble)
        answer = await set_up.send(asking("/pods"))
        assert running_agent.status_of(answer) == 200
        assert len(json.loads(answer.partition(b"\r\n\r\n")[2])["items"]) == 1
        set_up.upstream._state = replace(set_up.upstream._state, hold_seconds=0.0)
        set_up.upstream.record_connect(None)
        assert set_up.upstream.mode is UpstreamMode.KUBELET
        set_up.upstream.record_connect(trouble)
        assert running_agent.status_of(await set_up.send(asking("/pods"))) == 200
        lists = [head.split(b"HTTP")[0] for head in set_up.api.heads]
        assert lists == [running_agent.LISTS, running_agent.LISTS]


async def test_lists_are_no_older_than_the_gates(tmp_path, monkeypatch):
    """A pod that has gone does not stand in them for longer than the gate would serve it."""
    monkeypatch.setattr(pod_authorizer, "MAX_LIST_AGE_SECONDS", 0.0)
    async with astray(tmp_path, api_server()) as set_up:
        assert b'"shop"' in await set_up.send(asking("/pods"))
        set_up.api.pods.clear()
        assert b'"shop"' not in await set_up.send(asking("/pods"))
