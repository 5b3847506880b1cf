"""Pods in another super cluster: one question for each call, and the record decides."""

import asyncio
import json
import ssl
import threading
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from tenancy import wellknown
from tenancy.agent_permissions import KubeletCall
from tests.support.vnagent import running_agent
from tests.support.vnagent.certificates import VC_UID, named
from tests.support.vnagent.running_agent import (
    EXEC,
    GREETING,
    LOGS,
    OTHER,
    RUN,
    SPACE,
    SWITCHED,
    FakeKubelet,
    RunningAgent,
    saying,
    shop,
)
from vnagent.nodeapi import target_pods as targets
from vnagent.protocol import subresources
from vnagent.protocol.routes import Route, RouteVerb
from vnagent.upstream import apiserver

REGISTRATION = "cccccccc-0000-4000-8000-000000000000"
POD = f"/api/v1/namespaces/{SPACE}/pods/shop".encode()
FORWARD = (
    b"POST /portForward/web/shop HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n"
    b"Connection: Upgrade\r\nUpgrade: SPDY/3.1\r\n\r\n"
)
ATTACH = EXEC.replace(b"/exec/", b"/attach/").replace(b"command=id&", b"")


def there(registration: str | None = REGISTRATION, **other: object) -> dict[str, object]:
    """Return the pod as it is in a target. None: as at home."""
    found = shop(**other)
    if registration is not None:
        found["metadata"]["annotations"][wellknown.SUPER_CLUSTER] = registration  # type: ignore[index]
    return found


def target(*pods: dict[str, object], **other: object) -> FakeKubelet:
    """Return the API server of a target."""
    return FakeKubelet(
        pods=list(pods) or [there()], lists=b"GET /api/v1/pods?labelSelector=", **other
    )


@asynccontextmanager
async def served(folder: Path, api: FakeKubelet) -> AsyncIterator[RunningAgent]:
    """Run the agent of a target."""
    async with running_agent.staged(
        folder, FakeKubelet(), api=api, registration=REGISTRATION
    ) as found:
        yield found


@pytest.mark.parametrize(
    ("call", "line"),
    [
        (LOGS, b"GET " + POD + b"/log?container=main HTTP/1.1"),
        (EXEC, b"POST " + POD + b"/exec?container=main&command=id&stdout=true HTTP/1.1"),
        (ATTACH, b"POST " + POD + b"/attach?container=main&stdout=true HTTP/1.1"),
        (FORWARD, b"POST " + POD + b"/portforward HTTP/1.1"),
    ],
)
async def test_a_call_becomes_one_question_and_one_stream(tmp_path, call, line):
    """With the credential for that cluster, and nothing is asked of a kubelet."""
    switches = call is not LOGS
    api = target(answer=saying(SWITCHED if switches else GREETING))
    async with served(tmp_path, api) as found:
        answer = await found.send(call)
        assert running_agent.status_of(answer) == (101 if switches else 200)
        assert _taken_apart(api.asked[0]) == _taken_apart(line)
        assert len(api.heads) == 2
        assert all(b"Authorization: Bearer first-token\r\n" in head for head in api.heads)
        asked = parse_qs(urlsplit(api.heads[0].split(b" ")[1].decode()).query)
        labels = set(asked["labelSelector"][0].split(","))
        assert labels == {
            f"{wellknown.SUPER_CLUSTER}={REGISTRATION}",
            f"{wellknown.VC_UID}={VC_UID}",
            f"{wellknown.NAMESPACE}=web",
        }
        assert asked["fieldSelector"] == ["metadata.name=shop"]
        assert found.kubelet.heads == []


def _taken_apart(line: bytes) -> tuple[str, str, dict[str, list[str]]]:
    method, target, _ = line.decode().split(" ")
    url = urlsplit(target)
    return method, url.path, parse_qs(url.query)


def _with(**record: str) -> Callable[[], dict[str, object]]:
    def made() -> dict[str, object]:
        found = there()
        named_by = {f"{wellknown.DOMAIN}/{key}": value for key, value in record.items()}
        found["metadata"]["annotations"] |= named_by  # type: ignore[index]
        return found

    return made


@pytest.mark.parametrize(
    "listed",
    [
        lambda: there(None),
        lambda: there(""),
        lambda: there(OTHER),
        lambda: there(REGISTRATION + " "),
        _with(vcuid=OTHER),
        _with(namespace="other"),
        _with(uid=""),
        _with(vcuid=""),
    ],
)
@pytest.mark.parametrize("call", [LOGS, EXEC])
async def test_what_is_not_recorded_for_us_belongs_to_no_tenant(tmp_path, listed, call):
    """SEC-03, SEC-06: whatever the labels say: another registration, another tenant, no record."""
    api = target(listed())
    async with served(tmp_path, api) as found:
        assert running_agent.status_of(await found.send(call)) == 404
        assert api.asked == []


async def test_a_pod_that_is_recorded_for_a_target_belongs_to_no_tenant_at_home(tmp_path):
    """This cluster may be a target of another home."""
    kubelet = FakeKubelet(pods=[there()])
    async with running_agent.staged(tmp_path, kubelet) as found:
        assert running_agent.status_of(await found.send(LOGS)) == 404
        assert kubelet.asked == []


async def test_another_tenant_gets_nothing(tmp_path):
    """The certificate says whose pods are asked for, and the record whose pod it is."""
    api = target()
    async with served(tmp_path, api) as found:
        context = found.context(named(f"vc://{OTHER}/default-b41df0-two"))
        assert running_agent.status_of(await found.send(LOGS, context)) == 404
        assert OTHER.encode() in api.heads[0]
        assert api.asked == []


async def test_a_container_that_the_tenant_did_not_write_is_refused(tmp_path):
    """As on a node."""
    api = target()
    async with served(tmp_path, api) as found:
        assert running_agent.status_of(await found.send(LOGS.replace(b"/main", b"/mesh"))) == 403
        assert api.asked == []


@pytest.mark.parametrize("lost", ["token", "api-ca.crt"])
async def test_without_a_credential_calls_are_refused_with_a_sentence(tmp_path, lost):
    """Nothing is asked of anyone. When it comes, calls go."""
    api = target()
    async with served(tmp_path, api) as found:
        origin = found.server._requests._upstream._origin
        file = origin._token if lost == "token" else origin._authorities
        content, file.content = file.content, b""
        answer = await found.send(LOGS)
        assert running_agent.status_of(answer) == 502
        assert b"has no credential for the API server of the cluster behind this node" in answer
        assert b"kubectl vc target doctor" in answer
        assert api.heads == []
        file.content = content
        assert running_agent.status_of(await found.send(LOGS)) == 200


@pytest.mark.parametrize("refused", [b"401 Unauthorized", b"403 Forbidden"])
async def test_a_credential_that_does_not_do_is_reported(tmp_path, refused):
    """Messages of the target are not passed on."""
    api = target(lists_status=refused)
    async with served(tmp_path, api) as found:
        answer = await found.send(LOGS)
    assert running_agent.status_of(answer) == 502
    assert b"the cluster behind this node does not accept the node agent" in answer


@pytest.mark.parametrize("path", ["/stats/summary", "/metrics/resource", "/pods", "/runningpods/"])
async def test_what_is_read_of_a_node_is_not_to_be_had(tmp_path, path):
    """Neither figures nor lists, and nothing is asked for them."""
    api = target()
    async with served(tmp_path, api) as found:
        answer = await found.send(f"GET {path} HTTP/1.1\r\nHost: a\r\n\r\n".encode())
        assert running_agent.status_of(answer) == 501
        assert b"represents a whole cluster" in answer
        assert running_agent.status_of(await found.send(RUN)) == 501
        assert api.heads == []


async def test_a_switch_of_the_policy_holds_before_anything_is_asked(tmp_path):
    """ADR 0022: the same permits."""
    api = target()
    async with served(tmp_path, api) as found:
        found.permits.update(running_agent.access(KubeletCall.EXEC))
        assert running_agent.status_of(await found.send(EXEC)) == 403
        assert api.heads == []
        assert running_agent.status_of(await found.send(LOGS)) == 200


async def test_calls_of_one_tenant_have_a_pace(tmp_path, monkeypatch):
    """Requests for missing pods do not reach the target faster than one per interval."""
    monkeypatch.setattr(apiserver, "CALL_BURST", 3)
    monkeypatch.setattr(apiserver, "CALL_INTERVAL_SECONDS", 1000.0)
    api = target(there(None))
    async with served(tmp_path, api) as found:
        answers = [running_agent.status_of(await found.send(LOGS)) for _ in range(5)]
    assert answers == [404, 404, 404, 429, 429]
    assert len(api.heads) == 3


async def test_an_answer_that_is_no_list_refuses(tmp_path):
    """At most as many bytes are read as a few pods have."""
    api = target(there(None))
    api.pods = {"not": "a list"}  # type: ignore[assignment]
    async with served(tmp_path, api) as found:
        assert running_agent.status_of(await found.send(LOGS)) == 502
        api.pods = [there() | {"padding": "x" * 9_000_000}]
        answer = await found.send(LOGS)
    assert running_agent.status_of(answer) == 502
    assert b"more than the node agent accepts" in answer


async def test_an_error_of_the_other_cluster_names_no_one_there(tmp_path):
    """Its own trouble may tell of addresses. A refusal of the call is in the tenant's words."""

    def failing(code: int, message: str) -> bytes:
        body = json.dumps({"kind": "Status", "code": code, "message": message}).encode()
        head = b"HTTP/1.1 %d X\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
        return head % (code, len(body)) + body

    api = target(answer=saying(failing(500, "dial tcp 10.9.8.7:10250: refused")))
    async with served(tmp_path, api) as found:
        answer = await found.send(LOGS)
        assert b"10.9.8.7" not in answer
        assert b"the cluster behind this node could not pass the call on" in answer
        api.answer = saying(failing(400, f"container main in pod shop of {SPACE} waits"))
        answer = await found.send(LOGS)
    assert running_agent.status_of(answer) == 400
    assert SPACE.encode() not in answer


@pytest.mark.parametrize(
    ("uid", "namespace", "pod"),
    [
        ("x,y=z", "web", "shop"),
        (VC_UID, "web,a=b", "shop"),
        (VC_UID, "web", "shop,metadata.namespace!=a"),
        (VC_UID, "", "shop"),
    ],
)
def test_nothing_odd_gets_into_a_selector(uid, namespace, pod):
    """A comma would be another requirement."""
    route = Route(verb=RouteVerb.LOGS, method="GET", tenant_namespace=namespace, pod=pod)
    with pytest.raises(ValueError, match="is not allowed"):
        subresources.build_pod_list_target(REGISTRATION, uid, route)


async def test_few_answers_are_held_at_a_time(tmp_path, monkeypatch):
    """The limit is for all tenants together. Further calls wait and are answered."""
    monkeypatch.setattr(targets, "MAX_CONCURRENT_QUERIES", 2)
    held: list[int] = []
    most: list[int] = []
    lock = threading.Lock()
    api = target()
    handle = api.handle

    def slow(peer: ssl.SSLSocket, head: bytes) -> None:
        if head.startswith(api.lists):
            with lock:
                held.append(1)
                most.append(len(held))
            time.sleep(0.1)
            with lock:
                held.pop()
        handle(peer, head)

    monkeypatch.setattr(api, "handle", slow)
    async with served(tmp_path, api) as found:
        answers = await asyncio.gather(*(found.send(LOGS) for _ in range(6)))
    assert [running_agent.status_of(answer) for answer in answers] == [200] * 6
    assert max(most) == 2
