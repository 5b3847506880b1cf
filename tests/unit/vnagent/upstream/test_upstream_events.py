"""Events on the agent's own pod: of the way around, and of the way back, to the one that looks."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime

import pytest
import trustme

from tenancy import wellknown
from tests.support.eventually import eventually
from tests.support.vnagent.running_agent import FakeKubelet, saying
from vnagent.client.https_client import HttpsClient, ServerAddress
from vnagent.stream.file_watch import WatchedFile
from vnagent.stream.receive_buffer import ReceiveBuffer
from vnagent.upstream import upstream_events
from vnagent.upstream.upstream_events import EventSubject, UpstreamEvents, build_event
from vnagent.upstream.upstream_mode import ConnectResult, UpstreamSetting, initial_state, next_state

SUBJECT = EventSubject(name="vn-agent-x", namespace="vc-manager", uid="uid-x", node="node-1")
CREATED = b"HTTP/1.1 201 Created\r\nContent-Length: 2\r\n\r\n{}"
AROUND = next_state(initial_state(UpstreamSetting.AUTO), ConnectResult.UNTRUSTED, 0)
STRAIGHT = next_state(initial_state(UpstreamSetting.AUTO), ConnectResult.VERIFIED, 0)


@contextlib.asynccontextmanager
async def telling(folder, api: FakeKubelet) -> AsyncIterator[UpstreamEvents]:
    """Run notices before an API server."""
    authority = trustme.CA()
    trusted, token = WatchedFile(folder / "ca.crt"), WatchedFile(folder / "token")
    trusted.path.write_bytes(authority.cert_pem.bytes())
    token.path.write_bytes(b"token")
    for file in (trusted, token):
        await file.refresh()
    with api.running(authority):
        address = ServerAddress("127.0.0.1", api.port, "127.0.0.1")
        origin = HttpsClient(address, authorities=trusted, token=token, buffer=ReceiveBuffer())
        found = UpstreamEvents(origin, SUBJECT)
        keeping = asyncio.ensure_future(found.run())
        try:
            yield found
        finally:
            keeping.cancel()
            await asyncio.gather(keeping, return_exceptions=True)


def told(api: FakeKubelet) -> list[str]:
    """Return the reasons of the Events that were written."""
    return [json.loads(head.partition(b"\r\n\r\n")[2])["reason"] for head in api.heads]


@pytest.fixture(autouse=True)
def soon(monkeypatch):
    monkeypatch.setattr(upstream_events, "MIN_EVENT_INTERVAL_SECONDS", 0.0)


def test_an_event_is_on_the_agents_own_pod():
    """As `kubectl describe pod` looks for it: by name, namespace and UID."""
    found = build_event(
        SUBJECT, wellknown.UPSTREAM_API_SERVER, datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    )
    assert found["involvedObject"] == {
        "apiVersion": "v1",
        "kind": "Pod",
        "name": "vn-agent-x",
        "namespace": "vc-manager",
        "uid": "uid-x",
    }
    assert found["metadata"]["namespace"] == "vc-manager"
    assert found["metadata"]["name"].startswith("vn-agent-x.")
    assert (found["reason"], found["type"]) == ("UpstreamApiServer", "Warning")
    assert found["firstTimestamp"] == found["lastTimestamp"] == "2026-01-02T03:04:05Z"
    assert "agent.kubelet.ca" in found["message"]
    assert len(found["message"]) <= 1024
    assert build_event(SUBJECT, wellknown.UPSTREAM_KUBELET, datetime.now(UTC))["type"] == "Normal"


async def test_the_usual_way_is_no_news(tmp_path):
    """Thousands of nodes whose kubelets verify write nothing. One that is left says so."""
    api = FakeKubelet(answer=saying(CREATED))
    async with telling(tmp_path, api) as found:
        found.update(initial_state(UpstreamSetting.AUTO))
        found.update(STRAIGHT)
        await asyncio.sleep(0.05)
        assert api.heads == []
        found.update(AROUND)
        await eventually(lambda: told(api) == ["UpstreamApiServer"])
        found.update(STRAIGHT)
        await eventually(lambda: told(api) == ["UpstreamApiServer", "UpstreamKubelet"])
        found.update(STRAIGHT)
        await asyncio.sleep(0.05)
        assert len(api.heads) == 2
    assert api.heads[0].startswith(b"POST /api/v1/namespaces/vc-manager/events HTTP/1.1\r\n")


async def test_what_is_configured_is_reported(tmp_path):
    """No one is told of a certificate that was never looked at."""
    api = FakeKubelet(answer=saying(CREATED))
    async with telling(tmp_path, api) as found:
        found.update(initial_state(UpstreamSetting.APISERVER))
        await eventually(lambda: told(api) == ["UpstreamConfigured"])
    said = json.loads(api.heads[0].partition(b"\r\n\r\n")[2])
    assert said["type"] == "Normal"
    assert "certificate" not in said["message"]


async def test_what_still_holds_is_reported_again(tmp_path, monkeypatch):
    """API servers forget Events after an hour."""
    monkeypatch.setattr(upstream_events, "REPEAT_SECONDS", 0.05)
    api = FakeKubelet(answer=saying(CREATED))
    async with telling(tmp_path, api) as found:
        found.update(AROUND)
        await eventually(lambda: len(api.heads) >= 3)
    assert set(told(api)) == {"UpstreamApiServer"}


async def test_what_could_not_be_written_is_tried_again(tmp_path, monkeypatch):
    """A refusal or a cut ends nothing."""
    monkeypatch.setattr(upstream_events, "RETRY_SECONDS", 0.05)
    answers = [b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n", b"", CREATED]
    api = FakeKubelet(answer=lambda peer, _: peer.sendall(answers.pop(0)))
    async with telling(tmp_path, api) as found:
        found.update(AROUND)
        await eventually(lambda: not answers)
        await asyncio.sleep(0.1)
        assert len(api.heads) == 3
