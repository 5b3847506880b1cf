"""Pods in another super cluster, straight at their kubelets: the gate is the same, the way is not.

All kubelets here are at this machine's loopback address, which is refused as one. What is refused
the tests of `get_kubelet_address` say.
"""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trustme

from tenancy import addresses, wellknown
from tests.support.vnagent import kubelet_answers, running_agent
from tests.support.vnagent.certificates import named
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
)
from tests.unit.vnagent.nodeapi.test_target_pods import (
    ATTACH,
    FORWARD,
    REGISTRATION,
    target,
    there,
)
from vnagent.authz.pod_authorizer import read_pods
from vnagent.protocol.errors import RefusalReason, RequestRefusedError
from vnagent.upstream import target_kubelets
from vnagent.upstream.target_kubelets import get_kubelet_address

POD = f"{SPACE}/shop".encode()


def bound(host: object = "127.0.0.1", node: str = "node-9") -> dict[str, object]:
    """Return the pod as it is on a node of a target."""
    return there(nodeName=node) | {"status": {"hostIP": host}}


@pytest.fixture
def is_loopback_fine(monkeypatch):
    """Have servers of this process pass for another machine's."""
    monkeypatch.setattr(addresses, "check_remote_address", lambda _: "")


@asynccontextmanager
async def served(
    folder: Path, kubelet: FakeKubelet, *pods: dict[str, object], **other: object
) -> AsyncIterator[RunningAgent]:
    """Run the agent of a target that goes straight to its kubelets."""
    api = target(*(pods or (bound(),)))
    async with running_agent.staged(
        folder,
        kubelet,
        api=api,
        registration=REGISTRATION,
        is_straight=True,
        **other,  # type: ignore[arg-type]
    ) as found:
        yield found


@pytest.mark.parametrize(
    ("call", "line"),
    [
        (LOGS, b"GET /containerLogs/" + POD + b"/main HTTP/1.1"),
        (EXEC, b"POST /exec/" + POD + b"/main?output=1&command=id HTTP/1.1"),
        (ATTACH, b"POST /attach/" + POD + b"/main?output=1 HTTP/1.1"),
        (FORWARD, b"POST /portForward/" + POD + b" HTTP/1.1"),
    ],
)
@pytest.mark.usefixtures("is_loopback_fine")
async def test_the_api_server_is_asked_whose_the_pod_is_and_the_kubelet_for_the_stream(
    tmp_path, call, line
):
    """Both with the credential for that cluster. The API server hears of no stream."""
    switches = call is not LOGS
    kubelet = FakeKubelet(answer=saying(SWITCHED if switches else GREETING))
    async with served(tmp_path, kubelet) as found:
        answer = await found.send(call)
        assert running_agent.status_of(answer) == (101 if switches else 200)
        assert kubelet.asked == [line]
        assert len(found.api.heads) == 1
        assert found.api.asked == []
        assert all(
            b"Authorization: Bearer first-token\r\n" in head
            for head in (*found.api.heads, *kubelet.heads)
        )


@pytest.mark.parametrize("call", [LOGS, EXEC])
@pytest.mark.parametrize(
    "listed",
    [
        lambda: bound() | {"metadata": there(None)["metadata"]},
        lambda: bound() | {"metadata": there(OTHER)["metadata"]},
    ],
)
@pytest.mark.usefixtures("is_loopback_fine")
async def test_what_is_not_recorded_for_us_belongs_to_no_tenant(tmp_path, listed, call):
    """SEC-03: the same gate, and no kubelet hears of it."""
    kubelet = FakeKubelet()
    async with served(tmp_path, kubelet, listed()) as found:
        assert running_agent.status_of(await found.send(call)) == 404
        context = found.context(named(f"vc://{OTHER}/default-b41df0-two"))
        assert running_agent.status_of(await found.send(call, context)) == 404
    assert kubelet.connections == 0


@pytest.mark.usefixtures("is_loopback_fine")
async def test_a_kubelet_that_no_one_vouches_for_is_shown_nothing(tmp_path):
    """SEC-11: and the API server, which would pass the call on, is not asked to."""
    kubelet = FakeKubelet()
    async with served(tmp_path, kubelet, kubelet_authority=trustme.CA()) as found:
        for call in (LOGS, EXEC):
            answer = await found.send(call)
            assert running_agent.status_of(answer) == 502
            assert b"certificate of the kubelet of the pod's node does not verify" in answer
        assert found.api.asked == []
    assert kubelet.heads == []


@pytest.mark.usefixtures("is_loopback_fine")
async def test_a_kubelets_certificate_is_for_the_very_address(tmp_path):
    """Another kubelet of the same cluster, or a server of the same authority, is not meant."""
    kubelet = FakeKubelet(named="127.0.0.2")
    async with served(tmp_path, kubelet) as found:
        answer = await found.send(LOGS)
        assert b"certificate of the kubelet of the pod's node does not verify" in answer
        assert found.api.asked == []
    assert kubelet.heads == []


@pytest.mark.usefixtures("is_loopback_fine")
async def test_without_an_authority_for_kubelets_none_is_believed(tmp_path):
    """Neither the API server's own authority nor the system's stands in."""
    kubelet = FakeKubelet()
    async with served(tmp_path, kubelet) as found:
        straight = found.server._requests._upstream._kubelets  # type: ignore[attr-defined]
        straight._authorities.content = b""
        assert running_agent.status_of(await found.send(LOGS)) == 502
    assert kubelet.heads == []


@pytest.mark.usefixtures("is_loopback_fine")
async def test_a_kubelet_that_is_not_there_is_reported(tmp_path, monkeypatch):
    """The usual case is an address that the home cluster does not route. Nothing stands in."""
    kubelet = FakeKubelet()
    async with served(tmp_path, kubelet) as found:
        straight = found.server._requests._upstream._kubelets  # type: ignore[attr-defined]
        monkeypatch.setattr(straight, "_port", 1)
        answer = await found.send(LOGS)
        assert running_agent.status_of(answer) == 502
        assert b"the kubelet of the pod's node cannot be reached" in answer
        assert found.api.asked == []


@pytest.mark.parametrize("refused", [b"401 Unauthorized", b"403 Forbidden"])
@pytest.mark.usefixtures("is_loopback_fine")
async def test_a_kubelet_that_does_not_let_the_agent_in_is_reported(tmp_path, refused):
    """Its own words stay there."""
    words = b"HTTP/1.1 %s\r\nContent-Length: 12\r\n\r\nuser=secret\n" % refused
    async with served(tmp_path, FakeKubelet(answer=saying(words))) as found:
        answer = await found.send(LOGS)
    assert running_agent.status_of(answer) == 502
    assert b"the kubelet of the pod's node does not accept the node agent" in answer
    assert b"secret" not in answer


@pytest.mark.parametrize("path", ["/stats/summary", "/metrics/resource", "/pods", "/runningpods/"])
@pytest.mark.usefixtures("is_loopback_fine")
async def test_what_only_one_node_has_is_not_to_be_had(tmp_path, path):
    """A kubelet would answer. The node represents a whole cluster all the same."""
    kubelet = FakeKubelet()
    async with served(tmp_path, kubelet) as found:
        for call in (f"GET {path} HTTP/1.1\r\nHost: a\r\n\r\n".encode(), RUN):
            answer = await found.send(call)
            assert running_agent.status_of(answer) == 501
            assert b"represents a whole cluster" in answer
        assert found.api.heads == []
    assert kubelet.connections == 0


@pytest.mark.parametrize("listed", [there(), bound(node=""), bound(None), bound("")])
@pytest.mark.usefixtures("is_loopback_fine")
async def test_a_pod_that_is_on_no_node_yet_is_reported_as_an_api_server_does(tmp_path, listed):
    """In the words that kubectl shows in the other mode."""
    kubelet = FakeKubelet()
    async with served(tmp_path, kubelet, listed) as found:
        answer = await found.send(LOGS)
        assert running_agent.status_of(answer) == 400
        assert b"pod 'shop' does not have a host assigned" in answer
        assert found.api.asked == []
    assert kubelet.connections == 0


HOSTILE = [
    *("127.0.0.1", "127.1", "::1", "::ffff:127.0.0.1", "0:0:0:0:0:ffff:7f00:1"),
    *("169.254.169.254", "fe80::1", "fe80::1%eth0", "10.0.0.5%eth0", "fd00::5%1"),
    *("0.0.0.0", "::", "224.0.0.1", "ff02::1"),  # noqa: S104 - is refused
    *("localhost", "kubelet.example", "10.0.0.5:443", "[fd00::5]", "10.0.0.5/32", "10.0.0.5 "),
    *(
        "2130706433",
        "0x7f000001",
        "010.0.0.5",
        "10.0.0.5\n",
        "10.0.0.5\r\nHost: x",
        "\uff11\uff10.0.0.5",
    ),
]


@pytest.mark.parametrize("host", HOSTILE)
async def test_only_the_address_of_a_machine_is_dialled(tmp_path, host):
    """The one that may write the status of a pod there sends the credential nowhere odd."""
    with pytest.raises(RequestRefusedError) as refused:
        get_kubelet_address(kubelet_answers.owned(host=host))
    assert (refused.value.status, refused.value.reason) == (502, RefusalReason.KUBELET_ODD)
    assert host not in refused.value.sentence
    kubelet = FakeKubelet()
    async with served(tmp_path, kubelet, bound(host)) as found:
        assert running_agent.status_of(await found.send(LOGS)) == 502
        assert found.api.asked == []
    assert kubelet.connections == 0


@pytest.mark.parametrize(
    ("host", "dialled"),
    [("10.0.0.5", "10.0.0.5"), ("fd00::5", "fd00::5"), ("FD00:0::5", "fd00::5")],
)
def test_the_address_of_a_machine_is_dialled_in_one_spelling(host, dialled):
    assert get_kubelet_address(kubelet_answers.owned(host=host)) == dialled


def test_an_address_that_is_no_text_is_none():
    """A number is an address, too, to the one that reads it as one."""

    for host in (2130706433, ["10.0.0.5"], {"ip": "10.0.0.5"}):
        ((pod,),) = read_pods(json.dumps({"items": [bound(host)]}).encode(), REGISTRATION).values()
        assert pod.host == ""


async def test_few_kubelets_are_remembered(tmp_path, monkeypatch):
    """A cluster has thousands, and each costs a TLS context."""
    monkeypatch.setattr(target_kubelets, "MAX_CACHED_KUBELETS", 3)
    async with served(tmp_path, FakeKubelet()) as found:
        straight = found.server._requests._upstream._kubelets  # type: ignore[attr-defined]
        first = straight._by_address("10.0.0.0")
        assert straight._by_address("10.0.0.0") is first
        for number in range(9):
            straight._by_address(f"10.0.0.{number}")
        assert straight._by_address.cache_info().currsize == 3
        assert straight._by_address("10.0.0.0") is not first


def test_a_tenant_reports_nothing_of_the_address():
    """It comes from the pod's status, and only of a pod that the cluster has bound."""

    said = bound()
    said["metadata"]["annotations"] |= {  # type: ignore[index]
        f"{wellknown.DOMAIN}/hostIP": "10.6.6.6",
        "hostIP": "10.6.6.6",
    }
    said["spec"] |= {"hostIP": "10.6.6.6", "hostAliases": [{"ip": "10.6.6.6"}]}  # type: ignore[operator]
    ((pod,),) = read_pods(json.dumps({"items": [said]}).encode(), REGISTRATION).values()
    assert pod.host == "127.0.0.1"
