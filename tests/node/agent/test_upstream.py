"""A node whose kubelet is its own authority: the same calls, by way of the super API server."""

import hashlib
import json
import os
from collections.abc import Iterator

import pytest

from tests.node.agent import calls, target_agent
from tests.node.agent.conftest import LARGE, LEGS, take_leg
from tests.node.agent.rig import SLEEPER, AgentRig
from tests.node.minors import EACH
from tests.support import node_objects
from tests.support.agents import SPACE
from tests.support.forwards import forwarded, read_from
from tests.support.kubectl import KubectlRunner, until

pytestmark = pytest.mark.node

READER = "while read line; do echo got $line; done; sleep 600"


@pytest.fixture(scope="module")
def there(rig: AgentRig) -> Iterator[AgentRig]:
    """The agent of the second node, and pods on it."""
    with target_agent.beside(rig) as found:
        reader = node_objects.pod("far-reader", READER)
        reader["spec"]["containers"][0]["stdin"] = True
        listener = node_objects.pod(
            "far-listener", "while :; do echo hi there | nc -l -p 8080; done"
        )
        others = (calls.talker("far-talker"), calls.echo("far-echo"))
        made = (node_objects.pod("far-tool", SLEEPER), reader, listener, *others)
        for pod in made:
            found.place(found.tenant, pod)
        for pod in made:
            found.wait(found.tenant, pod["metadata"]["name"])
        found.wait_for_restart(found.tenant, "far-talker")
        found.tenant.kubectl.run("logs", "far-echo", "-f", "--limit-bytes=5")  # ends with "open"
        yield found


@pytest.fixture(params=LEGS, ids=str)
def leg(there: AgentRig, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """REL-94: each way in which a stream can come along."""
    take_leg(there, request.param, monkeypatch)


@pytest.fixture(params=EACH)
def user(there: AgentRig, request: pytest.FixtureRequest) -> KubectlRunner:
    """The first tenant through the kubectl of each minor."""
    return there.tenant.kubectl.of_minor(request.param)


def test_the_kubelet_is_not_trusted_and_an_admin_can_see_it(there):
    """The mode and its reason: one line in the log, one series, one Event."""
    lines = [json.loads(line) for line in there.agent.log.read_text().splitlines()]
    changes = [(line["mode"], line["reason"]) for line in lines if line["event"] == "upstream"]
    once = [("kubelet", "unseen"), ("apiserver", "untrusted")]
    assert changes == once * max(1, len(changes) // 2)  # of each agent that began there
    assert there.metric("vc_agent_upstream") == 1

    def told() -> list[str]:
        found = there.super_kubectl.items("events", "-n", SPACE)
        return [e["reason"] for e in found if e["involvedObject"]["name"] == target_agent.POD]

    until(lambda: set(told()) == {"UpstreamApiServer"}, "the Event")
    assert len(told()) <= len(changes) // 2, "once by each agent"


def test_every_option_of_logs_arrives(there, user):
    """V-05, X-26: with the options of the API in place of the kubelet's, by their effect."""
    everything = calls.log_options(user, "far-talker")
    # The API server has the choice between the outputs behind the same feature gate.
    path = "/containerLogs/default/far-talker/main?stream="
    assert there.curl(path + "All")[1].splitlines() == everything
    status, body = there.curl(path + "Stderr")
    assert (status, "stream" in body) == (422, True), body
    assert there.tenant.super_namespace() not in body


def test_a_log_that_is_not_there_reports_it_without_names_of_the_super_cluster(there, user):
    """In the words of the super API server, less what is no matter of the tenant's."""
    done = user.call("logs", "far-tool", "--previous")
    assert done.code != 0
    assert "previous terminated container" in done.err
    assert there.tenant.super_namespace() not in done.err


def test_a_log_is_followed(there, user):
    """Lines come as they are written, and the stream ends with its reader."""
    with user.running("logs", "-f", "far-talker", "-c", "side") as following:
        assert following.stdout.readline() == "beside\n"
    until(lambda: there.metric("vc_agent_open_streams") == 0, "the stream has ended")


@pytest.mark.parametrize("code", [0, 1, 42, 137])
def test_exec_gives_the_exit_code(there, user, leg, code):
    """REL-94, X-26: the command's exit code is kubectl's, its two outputs stay apart."""
    script = f"echo out; echo err >&2; exit {code}"
    done = user.call("exec", "far-tool", "--", "sh", "-c", script)
    assert done.code == code
    assert done.out == "out\n"
    assert done.err.splitlines()[0] == "err"


def test_exec_takes_input_to_its_end(there, user, leg):
    """REL-87: the end of the input goes through two API servers and leaves the output open."""
    text = "".join(f"line {i}\n" for i in range(50_000))
    script = "cat | md5sum; cat /dev/null"
    done = user.call("exec", "-i", "far-tool", "--", "sh", "-c", script, stdin=text)
    assert done.out.split()[0] == hashlib.md5(text.encode()).hexdigest()  # noqa: S324 - a check


def test_exec_has_a_terminal(there, user, leg):
    """V-05, X-26: the terminal of `-it` has the caller's size, and each later one."""
    calls.terminal(user, "far-tool")


def test_attach_talks_to_the_main_process(there, user, leg):
    """Attach reads what the process writes and writes what it reads."""
    with user.running("attach", "-i", "far-reader") as attached:
        attached.stdin.write("hello\n")
        assert attached.stdout.readline() == "got hello\n"


def test_ports_are_forwarded(there, user, leg):
    """A connection to the forwarded port reaches the container."""
    with forwarded(user, "far-listener", 8080) as port:
        assert until(lambda: read_from(port), "the container's answer") == b"hi there\n"


def test_fifty_connections_to_a_port_keep_their_bytes_apart(there, user, leg):
    """REL-94: all are open before the first one sends."""
    calls.fifty_connections(user, "far-echo")


@pytest.mark.thorough
@pytest.mark.timeout(900)
@pytest.mark.parametrize(("user", "leg"), LARGE[1:2], indirect=True, ids=str)
def test_a_gibibyte_is_copied_both_ways(there, user, leg, tmp_path):
    """REL-87: by the checksums of the source, in the pod and of what comes back."""
    calls.copies_of_a_gibibyte(user, "far-tool", tmp_path)


@pytest.mark.parametrize("size", [0, 5_000_000])
def test_a_file_is_copied_both_ways(there, user, size, tmp_path):
    """REL-87: `kubectl cp` through two API servers."""
    source, back = tmp_path / "source", tmp_path / "back"
    source.write_bytes(os.urandom(size))
    user.run("cp", str(source), "far-tool:/tmp/copied")
    user.run("cp", "far-tool:/tmp/copied", str(back))
    assert back.read_bytes() == source.read_bytes()


def test_the_gate_is_the_same(there):
    """SEC-03, SEC-05, SEC-17: no pod of the other node, of another tenant, of the super cluster."""
    there.place(there.other, node_objects.pod("far-other", SLEEPER))
    there.wait(there.other, "far-other")
    for path in ("far-other/main", "tool/main", "nothing/main"):
        assert there.curl(f"/containerLogs/default/{path}")[0] == 404
    assert there.curl("/containerLogs/default/far-tool/mesh")[0] == 403
    assert there.curl(f"/containerLogs/{there.tenant.super_namespace()}/far-tool/main")[0] == 404
    assert there.curl("/containerLogs/default/far-other/main", tenant=there.other) == (200, "")


def test_lists_are_the_tenants_and_figures_are_not_to_be_had(there):
    """Lists come of the API server's. Figures would need `nodes/proxy`, and say so."""
    for path in ("/pods", "/runningpods/"):
        status, body = there.curl(path)
        assert status == 200
        assert {item["metadata"]["namespace"] for item in json.loads(body)["items"]} == {"default"}
        assert {"far-tool", "far-reader"} <= {
            item["metadata"]["name"] for item in json.loads(body)["items"]
        }
        assert there.tenant.super_namespace() not in body
    for path in ("/stats/summary", "/metrics/resource"):
        status, body = there.curl(path)
        assert (status, "has no such call" in body) == (501, True)


def test_the_super_cluster_sees_no_call_to_a_node(there):
    """SEC-12: the account lacks `nodes/proxy`, and nothing above has missed it."""
    account = f"--as=system:serviceaccount:{SPACE}:far"
    for verb in ("get", "create"):
        done = there.super_kubectl.call(
            "auth", "can-i", verb, "nodes", "--subresource=proxy", account
        )
        assert done.out.strip() == "no"
    assert {line["result"] for line in there.audit()} & {"api_denies", "kubelet_denies"} == set()
