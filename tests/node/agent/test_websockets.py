"""A client of WebSockets that is not kubectl: the one of Python, at both versions."""

import pytest
from kubernetes.client import Configuration

from tests.node.agent.conftest import LEGS, SPDY, WEBSOCKET, take_leg
from tests.node.agent.rig import AgentRig
from tests.support import websockets
from tests.support.forwards import forwarded, read_from
from tests.support.kubectl import until
from tests.support.websockets import V4, V5, CommandOutput

pytestmark = pytest.mark.node

SCRIPT = "read line; echo got $line; echo aside >&2; exit 7"
COMMAND = [("command", word) for word in ("sh", "-c", SCRIPT)]


def by_the_api_server(rig: AgentRig, protocol: str) -> CommandOutput:
    """Ask the tenant's API server."""
    to = websockets.of_api_server(rig.tenant.kubectl.kubeconfig)
    options = [*COMMAND, ("container", "main")]
    options += [(key, "true") for key in ("stdin", "stdout", "stderr")]
    path = "/api/v1/namespaces/default/pods/tool/exec"
    return websockets.run(to, path, options, "hello\n", protocol)


def straight_from_the_agent(rig: AgentRig, protocol: str) -> CommandOutput:
    """Ask the agent, as the tenant's API server would."""
    to = Configuration(host=f"https://127.0.0.1:{rig.port}")
    to.ssl_ca_cert = str(rig.folder / "serving-ca.crt")
    to.cert_file = str(rig.tenant.identity / "client.crt")
    to.key_file = str(rig.tenant.identity / "client.key")
    options = [*COMMAND, *((key, "1") for key in ("input", "output", "error"))]
    return websockets.run(to, "/exec/default/tool/main", options, "hello\n", protocol)


def test_each_leg_is_what_it_claims(rig, user, leg, pods):
    """REL-94: what the API server speaks to the agent, by the agent's own record, for each call."""
    until(lambda: rig.metric("vc_agent_open_streams") == 0, "no stream is left of before")
    known = len(rig.audit())
    assert user.run("exec", "tool", "--", "echo", "hello") == "hello\n"
    with user.running("attach", "-i", "reader") as attached:
        attached.stdin.write("hello\n")
        assert attached.stdout.readline() == "got hello\n"
    with forwarded(user, "listener", 8080) as port:
        assert until(lambda: read_from(port), "the container's answer") == b"hi there\n"

    def switched() -> list[tuple[str, str]]:
        """Not the last commands of before, which a kubelet that was away refuses late."""
        lines = [line for line in rig.audit()[known:] if line["status"] == 101]
        return sorted((line["verb"], line["protocol"]) for line in lines)

    found = until(lambda: len(now := switched()) >= 3 and now, "they are written down")
    spoken = {SPDY: "SPDY/3.1", WEBSOCKET: "websocket"}[leg[0]]
    assert found == [(verb, spoken) for verb in ("attach", "exec", "portforward")]


@pytest.mark.parametrize("protocol", [V4, V5])
@pytest.mark.parametrize("ask", [by_the_api_server, straight_from_the_agent])
def test_a_command_is_talked_to(rig, pods, ask, protocol, monkeypatch):
    """REL-94: input, both outputs and the exit code, by the protocol that was asked for."""
    take_leg(rig, LEGS[1], monkeypatch)
    assert ask(rig, protocol) == CommandOutput(protocol, "got hello\n", "aside\n", 7)
